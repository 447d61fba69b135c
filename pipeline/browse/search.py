"""Lists of entries: found by words, filtered, put in order and divided into pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from groundrows.pipeline.browse.asked import ORDERS, Asked, Place
from groundrows.pipeline.browse.filters import narrowed
from groundrows.pipeline.browse.pairs import STANDINGS
from groundrows.pipeline.browse.shelf import Shelf
from groundrows.pipeline.browse.words import Hits

PAGE = 50

_ENTRY = (
    "no",
    "kind",
    "run_id",
    "question_id",
    "turn",
    "candidate",
    "id",
    "moment",
    "question",
    "line",
    "length",
    "score",
    "coverage",
    "claims",
    "unsupported",
    "sources",
    "warnings",
    "model",
    "reference_exact",
    "reference_contained",
    "reference_f1",
    "code",
    "stage",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer or a failure as lists show it; the attributes are the columns of `entries`.

    Attributes:
        moment: Microseconds since the epoch.
        question, line: The beginning of the question, and of the answer or the failure's message.
        verdict, note, version: What a person said of it; the version 0 stands for nothing.
        standing: How it stands beside the other run's answer: names of `pairs.STANDINGS`.
        other: The number of the other run's entry, or None.
    """

    no: int
    kind: str
    run_id: str
    question_id: str
    turn: int
    candidate: int
    id: str
    moment: int
    question: str
    line: str
    length: int
    score: float | None
    coverage: float | None
    claims: int | None
    unsupported: int | None
    sources: int | None
    warnings: int | None
    model: str | None
    reference_exact: bool | None
    reference_contained: bool | None
    reference_f1: float | None
    code: str | None
    stage: str | None
    verdict: str
    note: str
    version: int
    standing: list[str]
    other: int | None


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list.

    Attributes:
        entries: At most `PAGE`.
        count: How many entries the whole list has.
        next, previous: Where the neighbouring pages begin, and end; None where there is none.
    """

    entries: list[Entry]
    count: int
    next: Place | None
    previous: Place | None


def found(shelf: Shelf, asked: Asked) -> Page:
    """A page of the list that is asked for.

    Raises:
        UsageError: The words are too many, or a filter is none.
    """
    hits = shelf.search(asked.words) if asked.words else None
    where, values = narrowed(asked, searched=hits is not None)
    with shelf.opened(hits) as db:
        count = _count(db, asked, hits, where, values)
        return _page(shelf, db, asked, hits, where, values, count)


def _count(
    db: duckdb.DuckDBPyConnection, asked: Asked, hits: Hits | None, where: str, values: Sequence[Any]
) -> int:
    if hits is not None and not (asked.filters or asked.least or asked.most):
        return len(hits.found)
    return int(db.execute(f"SELECT count(*) FROM this.entries WHERE {where}", values).fetchall()[0][0])


def _page(
    shelf: Shelf,
    db: duckdb.DuckDBPyConnection,
    asked: Asked,
    hits: Hits | None,
    where: str,
    values: list[Any],
    count: int,
) -> Page:
    order = asked.sorted_by
    if order == "best" and hits is None:
        order = "files"
    rank = ORDERS[order][1]
    source = "this.entries"
    if order == "best":
        source = "(SELECT *, no IN (SELECT no FROM first) AS in_question FROM this.entries)"
    backward = asked.before is not None and asked.after is None
    place = asked.before if backward else asked.after
    if place is not None:
        sign = "<" if backward else ">"
        where = f"({where}) AND (({rank})::DOUBLE, no) {sign} (?, ?)"
        values = [*values, place.rank, place.no]
    direction = "DESC" if backward else "ASC"
    # One more than is shown tells whether there is another page.
    rows = db.execute(
        f"SELECT no, ({rank})::DOUBLE AS rank FROM {source} WHERE {where} "
        f"ORDER BY rank {direction}, no {direction} LIMIT {PAGE + 1}",
        values,
    ).fetchall()
    more = len(rows) > PAGE
    places = [Place(rank, no) for no, rank in rows[:PAGE]]
    if backward:
        places.reverse()
    shown = entries(shelf, db, [each.no for each in places])
    has_next = more if not backward else asked.before is not None
    has_previous = more if backward else asked.after is not None
    return Page(
        shown,
        count,
        places[-1] if places and has_next else None,
        places[0] if places and has_previous else None,
    )


def entries(shelf: Shelf, db: duckdb.DuckDBPyConnection, numbers: Sequence[int]) -> list[Entry]:
    """The entries with these numbers, in this order."""
    if not numbers:
        return []
    standing, paired = "[]::VARCHAR[], NULL", ""
    if shelf.earlier is not None:
        names = ", ".join(f"CASE WHEN p.{name} THEN '{name}' END" for name in STANDINGS)
        standing = f"list_filter([{names}], lambda each: each IS NOT NULL), p.other"
        paired = "LEFT JOIN memory.pairs AS p USING (no)"
    columns = ", ".join(f"e.{name}" for name in _ENTRY)
    rows = db.execute(
        f"SELECT {columns}, coalesce(v.verdict, ''), coalesce(v.note, ''), coalesce(v.version, 0), "
        f"{standing} FROM this.entries AS e LEFT JOIN memory.verdicts AS v USING (no) {paired} "
        f"WHERE e.no IN ({', '.join(map(str, numbers))})",
    ).fetchall()
    by_number = {row[0]: Entry(*row) for row in rows}
    return [by_number[number] for number in numbers if number in by_number]


def of_question(shelf: Shelf, question_id: str, run_id: str | None = None) -> list[Entry]:
    """All that there is of a question: its turns in order, of each turn its candidates, the latest last."""
    with shelf.opened() as db:
        rows = db.execute(
            "SELECT no FROM this.entries WHERE question_id = ? AND (? IS NULL OR run_id = ?) "
            "ORDER BY turn, candidate, moment, no LIMIT 500",
            [question_id, run_id, run_id],
        ).fetchall()
        return entries(shelf, db, [no for (no,) in rows])


def by_number(shelf: Shelf, number: int) -> Entry | None:
    """The entry with a number, or None where there is none."""
    with shelf.opened() as db:
        return next(iter(entries(shelf, db, [number])), None)
