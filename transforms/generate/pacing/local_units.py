"""Keeps a limit in units, such as tokens, within one process.

It is a bucket that fills steadily. One call may take more units than the bucket has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS, charged, units_per_second

LOOK_AGAIN_SECONDS = 1.0
"""The longest single sleep. The wait may become shorter when calls used fewer units than expected."""


class LocalUnits:
    """See `UnitPacer`.

    Args:
        per_minute: The limit of all shards together.
        shards: The number of shards. This is the bucket of one of them.
        clock: Returns seconds on a monotonic clock.
        sleep: Waits the given number of seconds.
    """

    def __init__(
        self,
        per_minute: float,
        shards: int = 1,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._share = per_minute / shards
        self._per_second = units_per_second(per_minute, shards)
        self._clock = clock
        self._sleep = sleep
        self._next = clock()
        # A shard may move between workers, and the worker before may have used its bucket just now.
        self._starts_late = shards > 1

    async def acquire(self, units: int) -> None:
        """See `UnitPacer.acquire`."""
        seconds = self._seconds(units)
        if self._starts_late:
            self._next += seconds
            self._starts_late = False
        while (wait := self._next - self._clock()) > 0:
            await self._sleep(min(wait, LOOK_AGAIN_SECONDS))
        self._next = max(self._next, self._clock() - CATCH_UP_SECONDS) + seconds

    def used(self, expected: int, units: int) -> None:
        """See `UnitPacer.used`."""
        self._next += self._seconds(units) - self._seconds(expected)

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def _seconds(self, units: int) -> float:
        return charged(units, self._share) / self._per_second
