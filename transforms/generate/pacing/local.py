"""A pacer within one process. It spaces calls evenly and needs no server."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable

from groundrows.transforms.generate.pacing.adaptive import AdaptiveRate
from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS

# The rate of calls without a limit is measured over this many seconds.
SENDING_SECONDS = 5.0


class LocalPacer:
    """Spaces calls evenly: a generic cell rate algorithm whose rate follows the service's refusals.

    Args:
        per_second: The highest rate, or `math.inf`.
        clock: Returns seconds on a monotonic clock.
        sleep: Waits the given number of seconds.
        start_late: Whether the first call waits one interval, too. This is for a shard that may move between
            workers: the worker before may have sent a call just now.
    """

    def __init__(
        self,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        start_late: bool = False,
    ) -> None:
        self._rate = AdaptiveRate(per_second)
        self._clock = clock
        self._sleep = sleep
        self._next = clock() + (1 / per_second if start_late else 0.0)
        self._sent: deque[float] = deque()

    async def acquire(self) -> None:
        """See `Pacer.acquire`."""
        while (wait := self._next - self._clock()) > 0:
            # A refusal may change the schedule during the sleep, so the time is checked again afterwards.
            await self._sleep(wait)
        now = self._clock()
        self._note(now)
        self._rate.sent(now)
        rate = self._rate.at(now)
        if rate != math.inf:
            self._next = max(self._next, now - CATCH_UP_SECONDS) + 1 / rate

    def throttled(self, sent_at: float, retry_after: float | None) -> None:
        """See `Pacer.throttled`."""
        now = self._clock()
        before = self._rate.at(now)
        pause = self._rate.refused(now, sent_at, self._sending(now), retry_after)
        rate = self._rate.at(now)
        if rate < before:
            # The next place in the schedule was computed with the old rate.
            pause = max(pause, 1 / rate)
        if pause:
            self._next = max(self._next, now + pause)

    async def close(self) -> None:
        """Do nothing: this pacer has nothing to give back."""

    def _note(self, now: float) -> None:
        self._sent.append(now)
        while self._sent[0] < now - SENDING_SECONDS:
            self._sent.popleft()

    def _sending(self, now: float) -> float:
        # After a cut the rate is a new one, so only what left since then counts.
        since = max(now - SENDING_SECONDS, self._rate.cut_at)
        recent = [sent for sent in self._sent if sent >= since]
        if len(recent) < 2:
            return math.inf
        rate = self._rate.at(now)
        if rate == math.inf:
            return len(recent) / max(1.0, now - recent[0])
        return len(recent) / (now - recent[0] + 1 / rate)
