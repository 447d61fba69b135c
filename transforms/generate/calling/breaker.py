"""A circuit breaker: while the service answers nothing, it lets out only one call at a time.

A turn has few attempts. Without the breaker, a server that is down, or a quota that is used up, would cost
each waiting question all its attempts. After a streak of transient errors without any other result, the
breaker opens: single calls, called probes, are let out with longer and longer pauses. The first probe that is
answered closes the breaker, and calls continue at the rate from before.

The length of the streak depends on the usual share of errors. A service that fails half of all calls has
streaks of ten errors by chance and still works.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

STREAK = 10
# A streak opens the breaker when its probability, by chance, is less than this.
UNLIKELY = 1e-5
LONGEST_STREAK = 100
# The usual share of errors is an average over about this many calls.
MEMORY_CALLS = 100.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0


class Breaker:
    """Counts transient errors in a row. All gates of a process share it, on one event loop.

    Args:
        clock: Returns seconds on a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streak = 0
        self._opens_at = STREAK
        # The share of transient errors among the calls before this streak.
        self._usual = 0.0
        self._pause = FIRST_PAUSE_SECONDS
        self._next_probe = 0.0
        self._answered = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether only single calls are let out."""
        return self._streak >= self._opens_at

    def answered(self) -> None:
        """Note a result that is not a transient error: the service works."""
        was_open = self.is_open
        if not was_open:
            self._remember(self._streak)
        self._streak = 0
        self._opens_at = self._unlikely_streak()
        if was_open:
            self._pause = FIRST_PAUSE_SECONDS
            self._answered.set()

    def failed(self) -> None:
        """Note a transient error."""
        self._streak += 1
        if self._streak == self._opens_at:
            self._next_probe = self._clock() + self._pause
            self._answered.clear()

    async def pass_one(self) -> None:
        """Wait until a call may be made: at once while the breaker is closed, or as the next probe."""
        while self.is_open:
            wait = self._next_probe - self._clock()
            if wait <= 0:
                self._pause = min(LONGEST_PAUSE_SECONDS, 2 * self._pause)
                self._next_probe = self._clock() + self._pause
                return
            try:
                await asyncio.wait_for(self._answered.wait(), wait)
            except TimeoutError:
                continue

    def _remember(self, errors: int) -> None:
        """Update the usual share of errors by a streak and the answer that ended it."""
        kept = (1 - 1 / MEMORY_CALLS) ** errors
        self._usual = (self._usual * kept + 1 - kept) * (1 - 1 / MEMORY_CALLS)

    def _unlikely_streak(self) -> int:
        if self._usual < 1e-3:
            return STREAK
        length = math.log(UNLIKELY) / math.log(min(self._usual, 0.999))
        return max(STREAK, min(LONGEST_STREAK, math.ceil(length)))
