"""The SQL views of `templates/sql/`, ready to run."""

from __future__ import annotations

import re
from importlib import resources

from groundrows.pipeline.options.resources import dataset_of

VIEWS = (
    "answers_latest",
    "support_chunks_latest",
    "claim_supports_latest",
    "grounding_checks_latest",
    "failures_latest",
    "failures_open",
    "answers_with_claims",
    "unsupported_claims",
    "cited_domains",
    "cited_documents",
    "retrieval_thresholds",
    "failures_by_day",
)
"""The views, in an order in which each finds those it is made of."""


def views(dataset: str | None) -> dict[str, str]:
    """The statements that make the views, by name, in an order in which they can be run.

    Args:
        dataset: `PROJECT.DATASET`, for BigQuery; None for names without one, as DuckDB takes them.

    Raises:
        UsageError: `dataset` is none.
    """
    directory = resources.files("groundrows.templates.sql")
    texts = {name: directory.joinpath(f"{name}.sql").read_text(encoding="utf-8") for name in VIEWS}
    if dataset is None:
        return {name: re.sub(r"`\$\{DATASET\}\.(\w+)`", r"\1", text) for name, text in texts.items()}
    where = str(dataset_of(dataset))
    return {name: text.replace("${DATASET}", where) for name, text in texts.items()}
