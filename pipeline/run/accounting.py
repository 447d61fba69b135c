"""Checks that no record was lost: the "count law".

Every record that was read has exactly one outcome, and the rows that the run counted are the rows on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import count_rows
from groundrows.schemas.service import Method
from groundrows.schemas.spending import KINDS, Spent
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
    QUESTIONS,
    RECORDS,
    RECORDS_READ,
    RETRIES,
    ROWS,
    SKIPPED,
    THROTTLED_SECONDS,
    failures_by_code,
    retries_by_code,
    spent_by_model,
)


@dataclass(frozen=True, slots=True)
class CheckAccount:
    """What became of the checks of this run's answers (`--check_grounding`). A check is not a record.

    Attributes:
        checked: Number of answers that were checked.
        failed: Number of checks that became a failure row.
        skipped: Number of answers that have no text, or no support chunk with text to check them against.
        calls: Number of requests sent, retries included.
        retries: Number of requests sent after the first one of a check.
        failures_by_code: Number of failure rows of checks, by code.
    """

    checked: int = 0
    failed: int = 0
    skipped: int = 0
    calls: int = 0
    retries: int = 0
    failures_by_code: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Account:
    """What a run did, according to the counters of its steps.

    Attributes:
        records_read: Number of records that the sources gave, broken ones included.
        answered: Number of questions of which every turn was answered.
        failed: Number of records that became a failure row.
        duplicates: Number of records that repeat an earlier record of the run.
        already_answered: Number of questions whose answers were in the output before the run (`--append`).
        calls: Number of requests sent, retries included.
        retries: Number of requests sent after the first one of a turn.
        retries_by_code: Number of retries, by the code of the error that caused them.
        failures_by_code: Number of failure rows, by code.
        from_ledger: Number of answers taken from the ledger, so that no call was made for them.
        throttled_seconds: Seconds that calls waited for the rate limit, summed over all workers.
        rows: Number of rows written, by table.
        checks: What became of the checks of answers.
        spent: Tokens and searches that calls took, by model, where the service reports them.
        questions_by_model: Number of questions whose calls took any, by model.
        halted: Number of questions and checks that were not asked because calling had stopped for good.
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
    spent: Mapping[str, Spent] = field(default_factory=dict)
    questions_by_model: Mapping[str, int] = field(default_factory=dict)
    from_ledger: int = 0
    halted: int = 0

    @property
    def outcomes(self) -> int:
        """The number of records that have an outcome."""
        return self.answered + self.failed + self.duplicates + self.already_answered

    @property
    def balanced(self) -> bool:
        """Whether each record has one outcome, and each failed record or failed check has one row."""
        failures = self.failed + self.checks.failed
        return self.records_read == self.outcomes and self.rows.get("failures", 0) == failures


def account(counters: Mapping[tuple[str, str], int], method: Method = "generate") -> Account:
    """Make the account from a job's counters.

    Args:
        counters: The counters' values, by (namespace, name).
        method: The API method that the run's records call. Calls of checks that follow answers are counted
            in `Account.checks`.
    """
    calling = CHECKS if method == "check" else RECORDS

    def one(name: str, namespace: str = RECORDS) -> int:
        return counters.get((namespace, name), 0)

    def by_name(namespace: str) -> dict[str, int]:
        return {name: count for (space, name), count in sorted(counters.items()) if space == namespace}

    kinds = {kind: by_name(spent_by_model(kind)) for kind in KINDS}
    models = sorted({model for counts in kinds.values() for model in counts})
    return Account(
        spent={model: Spent(**{kind: kinds[kind].get(model, 0) for kind in KINDS}) for model in models},
        questions_by_model=by_name(spent_by_model(QUESTIONS)),
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
    """Return the sentence for a run in which too many records failed, or None.

    Args:
        account: What the run did.
        max_failure_share: The share of the records that may fail, from 0 to 1. A run in which every record
            failed always gets the sentence.
        output: The run's output directory.
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
    """Return the counters of a finished job by (namespace, name), summed over its steps."""
    found: dict[tuple[str, str], int] = {}
    for counter in result.metrics().query()["counters"]:
        key = (counter.key.metric.namespace, counter.key.metric.name)
        found[key] = found.get(key, 0) + counter.result
    return found


def rows_on_disk(output: Output) -> dict[str, int]:
    """Count the rows in this run's files, by table, without decoding them."""
    return {
        table: sum(count_rows(path) for path in output.table_files(table) if path not in output.kept_files)
        for table in TABLES
    }
