"""A service that answers nothing is asked one call at a time, until it answers again.

Attempts are few, so a server that is down, or a quota that is used up, must not cost each waiting question
all of its own. After a streak of passing errors with nothing else between them, calls leave singly and ever
further apart; the first one that is answered lets everybody go on at the pace there was before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

STREAK = 10
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
        self._pause = FIRST_PAUSE_SECONDS
        self._next_probe = 0.0
        self._answered = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether calls leave singly."""
        return self._streak >= STREAK

    def answered(self) -> None:
        """The service said something that is no passing error: it works."""
        if self._streak:
            self._streak = 0
            self._pause = FIRST_PAUSE_SECONDS
            self._answered.set()

    def failed(self) -> None:
        """A call ended in a passing error."""
        self._streak += 1
        if self._streak == STREAK:
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
