"""`--limit` and `--sample`: archives of which a part is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from groundrows.pipeline.sources.archives import Archive, read_archive
from groundrows.pipeline.sources.parts import Drawn, First, last_drawn


def limited(archives: Sequence[Archive], limit: int) -> list[Archive]:
    """The archives, in their order, that hold the first `limit` records; the last one may be read in part.

    What can't be read counts as a record, as it does in a run. Not more is read than that many records.
    """
    chosen: list[Archive] = []
    left = limit
    for archive in archives:
        if left == 0:
            break
        chosen.append(replace(archive, part=First(left)))
        left -= sum(1 for _ in islice(read_archive(archive), left))
    return chosen


def sampled(archives: Sequence[Archive], size: int, seed: int) -> list[Archive]:
    """The archives, to be read in part: together they give `size` records, or all if there are fewer.

    All of them are read once for this.
    """
    counts = [sum(1 for _ in read_archive(archive)) for archive in archives]
    if sum(counts) == 0:
        return list(archives)
    last = last_drawn(seed, size, sum(counts))
    before = (sum(counts[:number]) for number in range(len(counts)))
    return [
        replace(archive, part=Drawn(seed, first, last))
        for archive, first in zip(archives, before, strict=True)
    ]
