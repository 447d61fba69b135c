"""Failures by reason: one of their rows, what may be done about them, and the command that asks again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from groundrows.pipeline.pages.templates import counted
from groundrows.pipeline.pages.text import cut
from groundrows.pipeline.query.run import Run
from groundrows.pipeline.report.figures import FailureGroup, failure_groups
from groundrows.pipeline.report.read import whole_rows
from groundrows.pipeline.report.replaying import replay_command

LONGEST_RECORD = 4_000
_EXAMPLE = ("question_id", "message", "attempts", "origin", "record")


@dataclass(frozen=True, slots=True)
class FailureView:
    """Failures of one stage and code.

    Attributes:
        stage: Where.
        code: What.
        count: How many.
        outlook: What may be done about them, in sentences.
        example: A row of theirs, or None.
        command: The words of the command that replays them, or None where that could not go well.
    """

    stage: str
    code: str
    count: int
    outlook: str
    example: dict[str, Any] | None
    command: list[str] | None


def failure_views(db: duckdb.DuckDBPyConnection, run: Run) -> list[FailureView]:
    """The failures of the schema in use, the most frequent first.

    Raises:
        UsageError: A file can't be read.
    """
    groups = failure_groups(db)
    keys = {group.example for group in groups}
    rows = {row["key"]: row for row in whole_rows(run, "failures", _EXAMPLE, ("run_id", "failure_id"), keys)}
    return [
        FailureView(
            group.stage,
            group.code,
            group.count,
            outlook(group, finished=bool(run.summary)),
            _example(rows[group.example]) if group.example in rows else None,
            _command(run, group),
        )
        for group in groups
    ]


def outlook(group: FailureGroup, *, finished: bool) -> str:
    """What may be done about failures of one reason, of a run that has finished or not."""
    if group.answered_since == group.count:
        return "It was answered since." if group.count == 1 else "All were answered since."
    since = ""
    if group.answered_since:
        since = f" {group.answered_since:,} {'was' if group.answered_since == 1 else 'were'} answered since."
    again = ", and give the run's command again with --append" if finished else " first"
    if group.stage == "read":  # what could not be read is no record that could be replayed
        return f"Mend the file in the archive{again}.{since}"
    if not group.worth_asking:
        return (
            "The same record fails the same way again: mend the record in the archive, or the flags"
            f"{again}.{since}"
        )
    if group.retryable == group.count:
        return f"Asking again may go well.{since}"
    same = group.count - group.retryable
    fail = f"{counted(same, 'record')} {'fails' if same == 1 else 'fail'} the same way again"
    return f"Asking again may go well for {group.worth_asking:,} of them; {fail} until mended.{since}"


def _command(run: Run, group: FailureGroup) -> list[str] | None:
    # Nothing is replayed of a run that has not finished.
    if not run.summary or not group.worth_asking or group.stage == "read":
        return None
    flags = run.summary.get("flags") or {}
    partly = group.retryable < group.count
    return replay_command(run.directory, group.code, flags, only_retryable=partly)


def _example(row: Mapping[str, Any]) -> dict[str, Any]:
    record = cut(row["record"][: 4 * LONGEST_RECORD].decode("utf-8", "replace"), LONGEST_RECORD)
    return {**row, "record": record, "message": cut(row["message"], 2_000), "origin": cut(row["origin"], 500)}
