"""Which of an archive's records are asked: all, the first ones, or a random sample of all archives' records.

A sample goes by a record's place alone. Seed and place give each record a number, and those with the N
smallest numbers are drawn. So the same seed draws the same records, a larger sample holds the smaller one,
and no worker needs to know more than the largest number that is drawn.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

# A number, and the place that decides between two records which have the same.
Lot = tuple[int, int]


@dataclass(frozen=True, slots=True)
class First:
    """The first `count` records of an archive."""

    count: int

    def of(self, items: Iterator[T]) -> Iterator[T]:
        """Those that belong to it; nothing behind the last one is read."""
        return islice(items, self.count)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The records of an archive that a sample of all archives holds.

    Attributes:
        seed: What the sample was drawn with.
        before: Records in the archives before this one.
        last: The largest lot that is drawn.
    """

    seed: int
    before: int
    last: Lot

    def of(self, items: Iterator[T]) -> Iterator[T]:
        """Those that belong to it, in their order."""
        return (item for place, item in enumerate(items, self.before) if lot(self.seed, place) <= self.last)


Part = First | Drawn


def lot(seed: int, place: int) -> Lot:
    """What decides whether the record at this place, counted from 0 over all archives, is drawn."""
    digest = hashlib.blake2b(b"%d %d" % (seed, place), digest_size=8).digest()
    return int.from_bytes(digest, "big"), place


def last_drawn(seed: int, size: int, count: int) -> Lot:
    """The largest lot of a sample of `size` out of `count` records.

    Args:
        seed: Any whole number.
        size: How many records are drawn; at least 1.
        count: How many there are; at least 1.
    """
    return heapq.nsmallest(size, (lot(seed, place) for place in range(count)))[-1]
