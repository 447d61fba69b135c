"""A limit in units inside one process: a bucket that is filled steadily, and may be overdrawn by a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS, charged, units_per_second

LOOK_AGAIN_SECONDS = 1.0
"""A wait is cut into pieces of at most so long, since what calls turn out to have used may shorten it."""


class LocalUnits:
    """See `UnitPacer`.

    Args:
        per_minute: The limit of all shares together.
        shards: How many shares it is cut into, of which this is one.
        clock: Seconds, monotonic.
        sleep: Waits that many seconds.
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
        # A share that moves between workers may have been used by its last owner this very moment.
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
        """Nothing is held."""

    def _seconds(self, units: int) -> float:
        return charged(units, self._share) / self._per_second
