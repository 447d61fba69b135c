"""The count law: every record read has exactly one outcome, and the rows counted are the rows on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from fastavro import block_reader

from pipeline.output import Output
from pipeline.sinks import ROWS
from schemas.tables import TABLES
from transforms.flatten import COUNTERS, COUNTERS_BY_CODE
from transforms.generate.stage import NAMESPACE, RETRIES_BY_CODE

THROTTLED = "cumulativeThrottlingSeconds"


@dataclass(frozen=True, slots=True)
class Account:
    """What a run did, as its steps counted it.

    Attributes:
        records_read: Records that the sources gave, broken ones included.
        answered: Questions all of whose turns were answered.
        failed: Records that became a failure row.
        duplicates: Records that an earlier one of the run had asked already.
        already_answered: Questions whose answers the output held before (`--append`).
        calls: Requests that left, retries included.
        retries: Requests beyond a turn's first.
        retries_by_code: What was retried, by the code that made it necessary.
        failures_by_code: Failure rows by code.
        throttled_seconds: Time spent waiting for the pace, over all workers.
        rows: Rows written, by table.
    """

    records_read: int
    answered: int
    failed: int
    duplicates: int
    already_answered: int
    calls: int
    retries: int
    retries_by_code: Mapping[str, int]
    failures_by_code: Mapping[str, int]
    throttled_seconds: int
    rows: Mapping[str, int]

    @property
    def outcomes(self) -> int:
        """Records with an outcome."""
        return self.answered + self.failed + self.duplicates + self.already_answered

    @property
    def balanced(self) -> bool:
        """Whether the count law holds: each record has one outcome, each failed one a row."""
        return self.records_read == self.outcomes and self.rows.get("failures", 0) == self.failed


def account(counters: Mapping[tuple[str, str], int]) -> Account:
    """Draw up the account from a job's counters, by (namespace, name)."""

    def one(name: str) -> int:
        return counters.get((NAMESPACE, name), 0)

    def by_name(namespace: str) -> dict[str, int]:
        return {name: count for (space, name), count in sorted(counters.items()) if space == namespace}

    def outcomes(name: str) -> int:
        return counters.get((COUNTERS, name), 0)

    return Account(
        records_read=one("records_read"),
        answered=outcomes("answered"),
        failed=outcomes("failed"),
        duplicates=outcomes("duplicates"),
        already_answered=outcomes("already_answered"),
        calls=one("calls"),
        retries=one("retries"),
        retries_by_code=by_name(RETRIES_BY_CODE),
        failures_by_code=by_name(COUNTERS_BY_CODE),
        throttled_seconds=one(THROTTLED),
        rows={table: counters.get((ROWS, table), 0) for table in TABLES},
    )


def counters_of(result: Any) -> dict[tuple[str, str], int]:
    """The counters of a finished job, summed over its steps."""
    found: dict[tuple[str, str], int] = {}
    for counter in result.metrics().query()["counters"]:
        key = (counter.key.metric.namespace, counter.key.metric.name)
        found[key] = found.get(key, 0) + counter.result
    return found


def rows_on_disk(output: Output) -> dict[str, int]:
    """Rows of this run's files, by table, read from the blocks' headers without decoding a row."""
    return {
        table: sum(_rows_in(path) for path in output.table_files(table) if path not in output.kept_files)
        for table in TABLES
    }


def _rows_in(path: str) -> int:
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return sum(block.num_records for block in block_reader(file))
