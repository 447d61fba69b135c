"""Makes the SQL statements of the views over the tables.

A table may hold a row twice, for example after a replay. Each table has a view `TABLE_latest` with every row
once. A view's statement is a file in `templates/sql/`. When a table has no such file, the statement is made
from the table's key and time column.
"""

from __future__ import annotations

import re
from importlib import resources

from groundrows.pipeline.options.resources import dataset_of
from groundrows.schemas.tables import TABLES, Table

OVER_LATEST = (
    "failures_open",
    "answers_with_claims",
    "unsupported_claims",
    "cited_domains",
    "cited_documents",
    "retrieval_thresholds",
    "failures_by_day",
)
"""The views that read the `TABLE_latest` views."""


def view_names() -> tuple[str, ...]:
    """Return the views in an order in which each view comes after those that it reads."""
    return (*(f"{table}_latest" for table in TABLES), *OVER_LATEST)


def views(dataset: str | None) -> dict[str, str]:
    """Return the statements that create the views, by view name, in an order in which they can be run.

    Args:
        dataset: `PROJECT.DATASET` for BigQuery; None for table names without a dataset, as in DuckDB.

    Raises:
        UsageError: `dataset` is not a valid dataset name.
    """
    texts = {name: text_of(name) for name in view_names()}
    if dataset is None:
        return {name: re.sub(r"`\$\{DATASET\}\.(\w+)`", r"\1", text) for name, text in texts.items()}
    where = str(dataset_of(dataset))
    return {name: text.replace("${DATASET}", where) for name, text in texts.items()}


def text_of(view: str) -> str:
    """Return a view's statement, in which `${DATASET}` stands for the tables' dataset."""
    file = resources.files("groundrows.templates.sql").joinpath(f"{view}.sql")
    if file.is_file():
        return file.read_text(encoding="utf-8")
    return _latest(TABLES[view.removesuffix("_latest")])


def _latest(table: Table) -> str:
    same = ", ".join(column for column in table.key if column not in (table.time_column, "run_id"))
    order, said = [f"{table.time_column} DESC", "run_id"], "the newest"
    if any(field["name"] == "from_ledger" for field in table.schema["fields"]):
        order.insert(1, "from_ledger")
        said += "; of a response that is\n-- there twice, the row of the run that asked for it"
    return f"""\
-- Every row of {table.name} once: of those with the same {same}, {said}.
-- ${{DATASET}} stands for PROJECT.DATASET, where the tables are; `groundrows sql` fills it in.
CREATE OR REPLACE VIEW `${{DATASET}}.{table.name}_latest` AS
SELECT *
FROM `${{DATASET}}.{table.name}`
WHERE TRUE
QUALIFY ROW_NUMBER() OVER (PARTITION BY {same} ORDER BY {", ".join(order)}) = 1;
"""
