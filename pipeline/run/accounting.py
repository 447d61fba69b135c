"""The count law: every record read has exactly one outcome, and the rows counted are the rows on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import count_rows
from groundrows.schemas.service import Method
from groundrows.schemas.tables import TABLES
from groundrows.transforms.counters import (
    ALREADY_ANSWERED,
    ANSWERED,
    CALLS,
    CHECKED,
    CHECKS,
    DUPLICATES,
    FAILED,
    FROM_LEDGER,
    HALTED,
    RECORDS,
    RECORDS_READ,
    RETRIES,
    ROWS,
    SKIPPED,
    THROTTLED_SECONDS,
    failures_by_code,
    retries_by_code,
)


@dataclass(frozen=True, slots=True)
class CheckAccount:
    """What became of the checks that follow answers, none of which is a record.

    Attributes:
        checked: Answers that were checked.
        failed: Checks that became a failure row.
        skipped: Answers without a text, or without a chunk's text to check it against.
        calls: Requests that left, retries included.
        retries: Requests beyond a check's first.
        failures_by_code: Failure rows of checks by code.
    """

    checked: int = 0
    failed: int = 0
    skipped: int = 0
    calls: int = 0
    retries: int = 0
    failures_by_code: Mapping[str, int] = field(default_factory=dict)


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
        from_ledger: Answers that an earlier run had stored, so that nothing was called for them.
        throttled_seconds: Time spent waiting for the pace, over all workers.
        rows: Rows written, by table.
        checks: The checks that follow answers.
        halted: Questions and checks that were not asked since calling had stopped for good.
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
    checks: CheckAccount = CheckAccount()
    from_ledger: int = 0
    halted: int = 0

    @property
    def outcomes(self) -> int:
        """Records with an outcome."""
        return self.answered + self.failed + self.duplicates + self.already_answered

    @property
    def balanced(self) -> bool:
        """Whether the count law holds: each record has one outcome, each failed one (or check) a row."""
        failures = self.failed + self.checks.failed
        return self.records_read == self.outcomes and self.rows.get("failures", 0) == failures


def account(counters: Mapping[tuple[str, str], int], method: Method = "generate") -> Account:
    """Draw up the account from a job's counters, by (namespace, name).

    Args:
        counters: What the steps counted.
        method: What the run's records call; its calls are the run's, those of other checks are not.
    """
    calling = CHECKS if method == "check" else RECORDS

    def one(name: str, namespace: str = RECORDS) -> int:
        return counters.get((namespace, name), 0)

    def by_name(namespace: str) -> dict[str, int]:
        return {name: count for (space, name), count in sorted(counters.items()) if space == namespace}

    return Account(
        records_read=one(RECORDS_READ),
        answered=one(ANSWERED),
        failed=one(FAILED),
        duplicates=one(DUPLICATES),
        already_answered=one(ALREADY_ANSWERED),
        calls=one(CALLS, calling),
        retries=one(RETRIES, calling),
        retries_by_code=by_name(retries_by_code(calling)),
        failures_by_code=by_name(failures_by_code(RECORDS)),
        throttled_seconds=one(THROTTLED_SECONDS, calling),
        rows={table: one(table, ROWS) for table in TABLES},
        from_ledger=one(FROM_LEDGER, calling),
        halted=one(HALTED) + one(HALTED, CHECKS),
        checks=(
            CheckAccount()
            if method == "check"
            else CheckAccount(
                checked=one(CHECKED, CHECKS),
                failed=one(FAILED, CHECKS),
                skipped=one(SKIPPED, CHECKS),
                calls=one(CALLS, CHECKS),
                retries=one(RETRIES, CHECKS),
                failures_by_code=by_name(failures_by_code(CHECKS)),
            )
        ),
    )


def too_many_failed(account: Account, max_failure_share: float, output: Output) -> str | None:
    """The sentence for a run in which too much failed; None where it did not.

    Args:
        account: What the run did.
        max_failure_share: Which share of the records may fail. Nothing but failures is always too much.
        output: Where its rows are.
    """
    if not account.failed:
        return None
    nothing_but_failures = account.failed == account.records_read - account.duplicates
    if not nothing_but_failures and account.failed / account.records_read <= max_failure_share:
        return None
    return (
        f"Too many records failed, {account.failed:,} of {account.records_read:,}; the rows in "
        f"{output.table('failures')} say why."
    )


def counters_of(result: Any) -> dict[tuple[str, str], int]:
    """The counters of a finished job, summed over its steps."""
    found: dict[tuple[str, str], int] = {}
    for counter in result.metrics().query()["counters"]:
        key = (counter.key.metric.namespace, counter.key.metric.name)
        found[key] = found.get(key, 0) + counter.result
    return found


def rows_on_disk(output: Output) -> dict[str, int]:
    """Rows of this run's files, by table, counted without decoding one."""
    return {
        table: sum(count_rows(path) for path in output.table_files(table) if path not in output.kept_files)
        for table in TABLES
    }
