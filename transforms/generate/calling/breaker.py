"""A service that answers nothing is asked one call at a time, until it answers again.

Attempts are few, so a server that is down, or a quota that is used up, must not cost each waiting question
all of its own. After a streak of passing errors with nothing else between them, the breaker opens: calls
leave singly, as probes, and ever further apart. The first probe that is answered closes it, and everybody
goes on at the pace there was before.

How long a streak it takes depends on what was usual before: a service that fails half of all calls makes
streaks of ten by chance, and answers all the same.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

STREAK = 10
# A streak counts when it would come about by chance less often than this.
UNLIKELY = 1e-5
LONGEST_STREAK = 100
# How many calls the usual share of errors is remembered by.
MEMORY_CALLS = 100.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0


class Breaker:
    """Counts passing errors in a row; shared by every gate of the process. Used from one event loop.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streak = 0
        self._opens_at = STREAK
        # The share of passing errors among the calls before this streak.
        self._usual = 0.0
        self._pause = FIRST_PAUSE_SECONDS
        self._next_probe = 0.0
        self._answered = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether calls leave singly."""
        return self._streak >= self._opens_at

    def answered(self) -> None:
        """The service said something that is no passing error: it works."""
        was_open = self.is_open
        if not was_open:
            self._remember(self._streak)
        self._streak = 0
        self._opens_at = self._unlikely_streak()
        if was_open:
            self._pause = FIRST_PAUSE_SECONDS
            self._answered.set()

    def failed(self) -> None:
        """A call ended in a passing error."""
        self._streak += 1
        if self._streak == self._opens_at:
            self._next_probe = self._clock() + self._pause
            self._answered.clear()

    async def pass_one(self) -> None:
        """Return when a call may leave: at once, or in its turn as a probe."""
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
        """Take a streak that chance may have made, and the answer behind it, into the usual share."""
        kept = (1 - 1 / MEMORY_CALLS) ** errors
        self._usual = (self._usual * kept + 1 - kept) * (1 - 1 / MEMORY_CALLS)

    def _unlikely_streak(self) -> int:
        if self._usual < 1e-3:
            return STREAK
        length = math.log(UNLIKELY) / math.log(min(self._usual, 0.999))
        return max(STREAK, min(LONGEST_STREAK, math.ceil(length)))
