"""Facets: what the entries of a list have in common, counted, and the filters that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from groundrows.pipeline.browse.asked import METADATA, RANGES, Asked
from groundrows.pipeline.browse.filters import COLUMNS, MARKS, UNJUDGED, narrowed
from groundrows.pipeline.browse.pairs import STANDINGS
from groundrows.pipeline.browse.shelf import Shelf

MOST_VALUES = 12
MOST_FIELDS = 40


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a facet: how it stands in an address, what it is called, how many entries have it."""

    value: str
    label: str
    count: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class Facet:
    """A facet with the most frequent of its values.

    Attributes:
        name: As in an address.
        title: For people.
        values: The most frequent ones, and those that are chosen.
        more: How many other values there are.
    """

    name: str
    title: str
    values: list[Value]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """A column of numbers.

    Attributes:
        name: As in an address.
        title: For people.
        low, high: The least and the greatest of the list.
        least, most: The bounds that are asked for, or None.
    """

    name: str
    title: str
    low: float
    high: float
    least: float | None
    most: float | None


def counted(shelf: Shelf, asked: Asked) -> tuple[list[Facet], list[Range]]:
    """The facets and ranges of a list.

    Raises:
        UsageError: The words are too many, or a filter is none.
    """
    hits = shelf.search(asked.words) if asked.words else None
    where, values = narrowed(asked, searched=hits is not None)
    with shelf.opened(hits) as db:
        return _counted(db, asked, where, values, compared=shelf.earlier is not None)


def _counted(
    db: duckdb.DuckDBPyConnection, asked: Asked, where: str, values: Sequence[Any], *, compared: bool
) -> tuple[list[Facet], list[Range]]:
    # Counted once for each of them, over the entries of this list.
    db.execute(f"CREATE OR REPLACE TEMP TABLE listed AS SELECT * FROM this.entries WHERE {where}", values)
    chosen = set(asked.filters)
    facets = [_marks(db, chosen)]
    if compared:
        facets.append(_beside(db, chosen))
    for name, (title, labels) in COLUMNS.items():
        rows = db.execute(
            f"SELECT {name}, count(*) FROM listed WHERE {name} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
        ).fetchall()
        if name != "run_id" or len(rows) > 1:
            facets.append(_facet(name, title, rows, chosen, labels))
    facets.append(_verdicts(db, chosen))
    rows = db.execute(
        "SELECT domain, count(*) FROM this.domains SEMI JOIN listed USING (no) GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    facets.append(_facet("domain", "Source's site", rows, chosen))
    ranges = _ranges(db, asked)
    fields, more = _fields(db, asked, chosen)
    return [each for each in (*facets, *fields) if each.values], [*ranges, *more]


def _facet(
    name: str,
    title: str,
    rows: Sequence[tuple[Any, int]],
    chosen: set[tuple[str, str]],
    labels: dict[str, str] | None = None,
) -> Facet:
    shown = [
        Value(value, (labels or {}).get(value, value), count, (name, value) in chosen)
        for place, (value, count) in enumerate(rows)
        if place < MOST_VALUES or (name, value) in chosen
    ]
    there = {value for value, _ in rows}
    shown += [
        Value(value, (labels or {}).get(value, value), 0, True)
        for facet, value in chosen
        if facet == name and value not in there
    ]
    return Facet(name, title, shown, len(rows) - sum(each.count > 0 for each in shown))


def _marks(db: duckdb.DuckDBPyConnection, chosen: set[tuple[str, str]]) -> Facet:
    sums = ", ".join(f"count(*) FILTER ({said})" for _, said in MARKS.values())
    counts = db.execute(f"SELECT {sums} FROM listed").fetchall()[0]
    return Facet(
        "mark",
        "Worth a look",
        [
            Value(name, label, count, ("mark", name) in chosen)
            for (name, (label, _)), count in zip(MARKS.items(), counts, strict=True)
            if count or ("mark", name) in chosen
        ],
    )


def _beside(db: duckdb.DuckDBPyConnection, chosen: set[tuple[str, str]]) -> Facet:
    sums = ", ".join(f"count(*) FILTER ({name})" for name in STANDINGS)
    counts = db.execute(f"SELECT {sums} FROM memory.pairs SEMI JOIN listed USING (no)").fetchall()[0]
    return Facet(
        "beside",
        "Beside the other run",
        [
            Value(name, label, count, ("beside", name) in chosen)
            for (name, label), count in zip(STANDINGS.items(), counts, strict=True)
            if count or ("beside", name) in chosen
        ],
    )


def _verdicts(db: duckdb.DuckDBPyConnection, chosen: set[tuple[str, str]]) -> Facet:
    rows = db.execute(
        f"SELECT coalesce(nullif(verdict, ''), '{UNJUDGED}'), count(*) FROM listed "
        "LEFT JOIN memory.verdicts USING (no) WHERE kind = 'answer' GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    return _facet("verdict", "Verdict", rows, chosen, {UNJUDGED: "not judged"})


def _ranges(db: duckdb.DuckDBPyConnection, asked: Asked) -> list[Range]:
    bounds = ", ".join(f"min({name})::DOUBLE, max({name})::DOUBLE" for name in RANGES)
    found = db.execute(f"SELECT {bounds} FROM listed").fetchall()[0]
    least, most = dict(asked.least), dict(asked.most)
    return [
        Range(name, title, low, high, least.get(name), most.get(name))
        for (name, title), low, high in zip(RANGES.items(), found[::2], found[1::2], strict=True)
        if low is not None and (low < high or name in least or name in most)
    ]


def _fields(
    db: duckdb.DuckDBPyConnection, asked: Asked, chosen: set[tuple[str, str]]
) -> tuple[list[Facet], list[Range]]:
    db.execute(
        """
        CREATE OR REPLACE TEMP TABLE of_listed AS
        SELECT name, value, count(*) AS count, min(number) AS low, max(number) AS high,
          count(number) = count(*) AS numeric
        FROM this.fields SEMI JOIN listed USING (no) GROUP BY name, value
        """
    )
    names = db.execute(
        f"""
        SELECT name, count(*), bool_and(numeric), min(low), max(high) FROM of_listed GROUP BY name
        ORDER BY sum(count) DESC, name LIMIT {MOST_FIELDS}
        """
    ).fetchall()
    least, most = dict(asked.least), dict(asked.most)
    facets, ranges = [], []
    for name, distinct, numeric, low, high in names:
        key = f"{METADATA}{name}"
        if numeric and distinct > MOST_VALUES:
            ranges.append(Range(key, name, low, high, least.get(key), most.get(key)))
            continue
        wanted = [value for facet, value in chosen if facet == key]
        marks = ", ".join("?" * len(wanted)) or "NULL"
        rows = db.execute(
            f"""
            SELECT value, count FROM of_listed WHERE name = ?
            ORDER BY coalesce(value IN ({marks}), false) DESC, count DESC, value
            LIMIT {MOST_VALUES + len(wanted)}
            """,
            [name, *wanted],
        ).fetchall()
        rows.sort(key=lambda row: (-row[1], row[0]))
        facet = _facet(key, name, rows, chosen)
        facets.append(Facet(facet.name, facet.title, facet.values, max(distinct - len(rows), 0)))
    return facets, ranges
