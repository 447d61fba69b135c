"""`--max_requests`: not one call over, retries included."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from groundrows.transforms.generate.settings import CallSettings

# Calls reserved at a time. A killed process forfeits what it had reserved and not used, so a resumed run
# may make that many fewer; never one more.
CHUNK = 8


def budget_scope(settings: CallSettings, shard: int) -> str:
    """Under which name a shard's calls are counted.

    A ledger is shared by every process, so the run has one count in it. Without one nothing is shared, and
    each shard, which is on one worker at a time, counts its own part.
    """
    if settings.ledger == "none" and settings.pacing_shards > 1:
        return f"{settings.run_id}/{shard}"
    return settings.run_id


class Budget:
    """Reserves before it calls, and gives back what was not used.

    Args:
        reserve: Takes up to so many calls from the run's budget and returns how many it got.
        give_back: Returns calls that were reserved and not made.
        chunk: How many to reserve at once.
    """

    def __init__(
        self,
        reserve: Callable[[int], Awaitable[int]],
        give_back: Callable[[int], Awaitable[None]],
        chunk: int = CHUNK,
    ) -> None:
        self._reserve = reserve
        self._give_back = give_back
        self._chunk = chunk
        self._held = 0
        self._lock = asyncio.Lock()

    async def take(self) -> bool:
        """Reserve one call; False when the budget is spent."""
        async with self._lock:
            if self._held == 0:
                self._held = await self._reserve(self._chunk)
            if self._held == 0:
                return False
            self._held -= 1
            return True

    def put_back(self) -> None:
        """Return a call that was taken and not made."""
        self._held += 1

    async def settle(self) -> None:
        """Give back what is held, for other processes to use."""
        async with self._lock:
            unused, self._held = self._held, 0
            if unused:
                await self._give_back(unused)
