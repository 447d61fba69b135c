"""Groups failures by stage and code, with an example, advice, and the command that asks again."""

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
    """The failures of one stage and code.

    Attributes:
        stage: The stage in which they failed.
        code: Their failure code.
        count: Number of failures.
        outlook: Advice, in sentences.
        example: One of their rows, or None.
        command: The words of the command that replays them, or None when a replay can't succeed.
    """

    stage: str
    code: str
    count: int
    outlook: str
    example: dict[str, Any] | None
    command: list[str] | None


def failure_views(db: duckdb.DuckDBPyConnection, run: Run) -> list[FailureView]:
    """Return the failures of the current schema, the most frequent group first.

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
    """Return advice on a group of failures. `finished` says whether the run has finished."""
    if group.answered_since == group.count:
        return "It has been answered since." if group.count == 1 else "All have been answered since."
    since = ""
    if group.answered_since:
        since = (
            f" {group.answered_since:,} {'has' if group.answered_since == 1 else 'have'} been answered since."
        )
    again = ", then run the same command again with --append" if finished else " first"
    if group.stage == "read":  # a file that can't be read has no record to replay
        return f"Repair the file in the archive{again}.{since}"
    if not group.worth_asking:
        return (
            "The same record will fail in the same way again: correct the record in the archive, or the flags"
            f"{again}.{since}"
        )
    if group.retryable == group.count:
        return f"Asking again may succeed.{since}"
    same = group.count - group.retryable
    fail = f"{counted(same, 'record')} will fail in the same way again until corrected"
    return f"Asking again may succeed for {group.worth_asking:,} of them; {fail}.{since}"


def _command(run: Run, group: FailureGroup) -> list[str] | None:
    # `replay` reads only finished runs.
    if not run.summary or not group.worth_asking or group.stage == "read":
        return None
    flags = run.summary.get("flags") or {}
    partly = group.retryable < group.count
    return replay_command(run.directory, group.code, flags, only_retryable=partly)


def _example(row: Mapping[str, Any]) -> dict[str, Any]:
    record = cut(row["record"][: 4 * LONGEST_RECORD].decode("utf-8", "replace"), LONGEST_RECORD)
    return {**row, "record": record, "message": cut(row["message"], 2_000), "origin": cut(row["origin"], 500)}
