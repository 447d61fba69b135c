"""What a reader asks for in a page's address: words, filters, ranges, an order, and a place in the list."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from groundrows.schemas.errors import UsageError

# Columns over which one can ask for a range, with their names for people.
RANGES = {
    "score": "Grounding score",
    "coverage": "Share of the text supported",
    "claims": "Claims",
    "unsupported": "Claims without support",
    "sources": "Sources",
    "warnings": "Warnings",
    "reference_f1": "F1 against the reference",
    "length": "Characters",
    "latency": "Milliseconds",
}

# Orders, each by a figure that is never null; of two that are equal the one that stands first in the files.
ORDERS = {
    "best": ("best match", "CASE WHEN in_question THEN 0 ELSE 1 END"),
    "files": ("order of the files", "0"),
    "score": ("lowest score", "coalesce(score, 1e9)"),
    "coverage": ("least supported", "coalesce(coverage, 1e9)"),
    "unsupported": ("most claims without support", "-coalesce(unsupported, -1)"),
    "warnings": ("most warnings", "-coalesce(warnings, -1)"),
    "sources": ("fewest sources", "coalesce(sources, 1e9)"),
    "f1": ("least like the reference", "coalesce(reference_f1, 1e9)"),
    "longest": ("longest", "-length"),
    "slowest": ("slowest", "-coalesce(latency, -1)"),
    "newest": ("newest", "-moment"),
}
METADATA = "meta."
LONGEST_VALUE = 2_000
MOST_FILTERS = 40


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a list: the figure of its order and the number of the entry there."""

    rank: float
    no: int

    def __str__(self) -> str:
        return f"{self.rank!r}~{self.no}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for.

    Attributes:
        words: What to search for, as typed.
        filters: Facet and value; those of one facet are alternatives.
        least, most: Column, or `meta.` and a field of the metadata, and a bound.
        order: One of `ORDERS`.
        after, before: Where the page begins, or ends; None for the first page.
    """

    words: str = ""
    filters: tuple[tuple[str, str], ...] = ()
    least: tuple[tuple[str, float], ...] = ()
    most: tuple[tuple[str, float], ...] = ()
    order: str = ""
    after: Place | None = None
    before: Place | None = None

    @property
    def sorted_by(self) -> str:
        """The order, which without being asked for depends on whether there are words."""
        return self.order or ("best" if self.words else "files")

    @property
    def is_everything(self) -> bool:
        """Whether nothing narrows the list."""
        return not (self.words or self.filters or self.least or self.most)

    def pairs(self) -> list[tuple[str, str]]:
        """What it is in an address, without the place."""
        return [
            *([("q", self.words)] if self.words else []),
            *((f"f.{facet}", value) for facet, value in self.filters),
            *((f"min.{name}", f"{bound:g}") for name, bound in self.least),
            *((f"max.{name}", f"{bound:g}") for name, bound in self.most),
            *([("sort", self.order)] if self.order else []),
        ]

    def link(self, path: str = "/", **more: object) -> str:
        """An address."""
        query = urlencode([*self.pairs(), *((name, str(value)) for name, value in more.items())])
        return f"{path}?{query}" if query else path

    def toggled(self, facet: str, value: str) -> Asked:
        """With a filter taken away if it is there, else added."""
        pair = (facet, value)
        kept = tuple(each for each in self.filters if each != pair)
        return replace(self, filters=kept if pair in self.filters else (*kept, pair), after=None, before=None)

    def without_range(self, name: str) -> Asked:
        """Without the bounds of a column."""
        return replace(
            self,
            least=tuple(each for each in self.least if each[0] != name),
            most=tuple(each for each in self.most if each[0] != name),
            after=None,
            before=None,
        )


def asked(query: Iterable[tuple[str, str]]) -> Asked:
    """Read an address's query; what it does not know, and an empty value, is left out.

    Raises:
        UsageError: A bound is no number, an order or a place is none, or there are too many of them.
    """
    words, order = "", ""
    filters: dict[tuple[str, str], None] = {}
    bounds: dict[str, dict[str, float]] = {"min": {}, "max": {}}
    places: dict[str, Place] = {}
    for name, value in query:
        if not value or len(value) > LONGEST_VALUE:
            continue
        kind, _, rest = name.partition(".")
        if name == "q":
            words = value.strip()
        elif kind == "f" and rest:
            filters[rest, value] = None
        elif kind in bounds and (rest in RANGES or rest.startswith(METADATA)):
            bounds[kind][rest] = _number(value)
        elif name == "sort":
            if value not in ORDERS:
                raise UsageError(f"There is no order {value!r}: take one of {', '.join(ORDERS)}.")
            order = value
        elif name in ("after", "before"):
            places[name] = _place(value)
    if len(filters) > MOST_FILTERS:
        raise UsageError(f"There are more than {MOST_FILTERS} filters: take some away.")
    return Asked(
        words,
        tuple(filters),
        tuple(bounds["min"].items()),
        tuple(bounds["max"].items()),
        order,
        places.get("after"),
        places.get("before"),
    )


def _number(text: str) -> float:
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{text!r} is no number.")
    return number


def _place(text: str) -> Place:
    rank, _, no = text.partition("~")
    if not no.isdecimal() or len(no) > 12:
        raise UsageError(f"{text!r} is no place in a list: go back to its beginning.")
    return Place(_number(rank), int(no))
