"""The forms of Google's resource names: of subscriptions, topics and datasets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from groundrows.schemas.errors import UsageError

_NAME = "[A-Za-z][A-Za-z0-9._~+%-]{2,254}"
_PROJECT = "(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]*"  # an old project's ID may begin with its organisation's domain
SUBSCRIPTION = f"projects/{_PROJECT}/subscriptions/{_NAME}"
TOPIC = f"projects/{_PROJECT}/topics/{_NAME}"
_DATASET = re.compile(
    r"(?P<project>(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9])[.:](?P<dataset>[A-Za-z0-9_]{1,1024})"
)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of BigQuery."""

    project: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}.{self.name}"


def dataset_of(text: str) -> Dataset:
    """Read `PROJECT.DATASET` or `PROJECT:DATASET`.

    Raises:
        UsageError: The text has neither form.
    """
    found = _DATASET.fullmatch(text)
    if found is None:
        raise UsageError(f"--bigquery_dataset={text} is not the name of a dataset: give PROJECT.DATASET.")
    return Dataset(found["project"], found["dataset"])
