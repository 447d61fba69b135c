"""What a service that counts says of its work: tokens, searches, endings, and what it held back.

Only Gemini says any of it. Every function asks the schema that is in use (`SET schema`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from groundrows.pipeline.report.figures import Moment, Timeline, step_of
from groundrows.pipeline.report.read import BLOCKED, TOKENS

Db = duckdb.DuckDBPyConnection

# Tokens are counted for a call, in the row of its first candidate; the ledger's answers cost nothing again.
_COUNTED = "candidate_index = 0 AND NOT from_ledger AND total_tokens IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of the calls that brought an answer, and how many calls told them."""

    calls: int
    prompt: int
    answer: int
    thought: int
    tool: int
    cached: int
    total: int


def tokens(db: Db) -> Tokens | None:
    """Sum the tokens up; None when no call told any."""
    sums = ", ".join(f"coalesce(sum({kind}_tokens), 0)::BIGINT" for kind in TOKENS)
    counted = Tokens(*_row(db, f"SELECT count(*), {sums} FROM answers WHERE {_COUNTED}"))
    return counted if counted.calls else None


@dataclass(frozen=True, slots=True)
class TokensOverTime:
    """Tokens a minute in spans of time, as a rate; and by the beginning of each span its sums by kind."""

    rate: Timeline
    sums: dict[float, tuple[int, ...]]


def tokens_over_time(db: Db, run_id: str | None) -> TokensOverTime | None:
    """The tokens of one run's calls, by when these left; None when there are none."""
    where = f"{_COUNTED} AND run_id = ?"
    first, last = _row(db, f"SELECT min(asked), max(asked) FROM answers WHERE {where}", [run_id])
    if first is None:
        return None
    step = step_of((last - first) / 1e6)
    sums = ", ".join(f"coalesce(sum({kind}_tokens), 0)::BIGINT" for kind in TOKENS)
    rows = db.execute(
        f"SELECT (asked // {step * 1_000_000})::BIGINT AS span, {sums} FROM answers"
        f" WHERE {where} GROUP BY span",
        [run_id],
    ).fetchall()
    found = {span: tuple(each) for span, *each in rows}
    nothing = (0,) * len(TOKENS)
    by_span = {span: found.get(span, nothing) for span in range(min(found), max(found) + 1)}
    moments = [Moment(float(span * step), each[-1] * 60 / step, None, None) for span, each in by_span.items()]
    return TokensOverTime(
        Timeline(step, moments), {float(span * step): each for span, each in by_span.items()}
    )


@dataclass(frozen=True, slots=True)
class Searches:
    """How many answers the service searched the web for, and how many not; and the searches it bills."""

    searched: int
    unsearched: int
    billed: int


def searches(db: Db) -> Searches | None:
    """Count the searches; None where the service does not tell them."""
    found = Searches(
        *_row(
            db,
            """
            SELECT count(*) FILTER (billed_searches > 0), count(*) FILTER (billed_searches = 0),
              coalesce(sum(billed_searches), 0)::BIGINT
            FROM answers WHERE billed_searches IS NOT NULL
            """,
        )
    )
    return found if found.searched or found.unsearched else None


def finish_reasons(db: Db) -> list[tuple[str, int]]:
    """Why answers end, the most frequent reason first; empty where the service does not say."""
    return db.execute(
        "SELECT finish_reason, count(*) AS number FROM answers WHERE finish_reason IS NOT NULL"
        " GROUP BY finish_reason ORDER BY number DESC, finish_reason"
    ).fetchall()


def blocked(db: Db, code: str) -> list[tuple[str, int]]:
    """Why the service held back prompts or answers, as `code` says, the most frequent reason first."""
    assert code in BLOCKED
    return db.execute(
        "SELECT coalesce(reason, 'no reason given'), count(*) AS number FROM failures WHERE code = ?"
        " GROUP BY 1 ORDER BY number DESC, 1",
        [code],
    ).fetchall()


def _row(db: Db, sql: str, values: list[Any] | None = None) -> tuple[Any, ...]:
    row = db.execute(sql, values or []).fetchone()
    assert row is not None
    return row
