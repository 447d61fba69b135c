"""The budget of `--max_requests`: the run makes at most so many calls, retries included."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from groundrows.transforms.generate.settings import CallSettings

# The number of calls reserved at a time. When a process is killed, the calls that it had reserved and not
# made are lost. A continued run may then make up to that many fewer calls, but never more.
CHUNK = 8


def budget_scope(settings: CallSettings, shard: int) -> str:
    """Return the name under which a shard's calls are counted.

    All processes share a ledger, so the run has one count in it. Without a ledger, each shard counts its own
    part of the budget. A shard is on one worker at a time.
    """
    if settings.ledger == "none" and settings.pacing_shards > 1:
        return f"{settings.run_id}/{shard}"
    return settings.run_id


class Budget:
    """Reserves calls before they are made, and gives unused ones back.

    Args:
        reserve: Reserves up to the given number of calls from the run's budget; returns how many it got.
        give_back: Gives back calls that were reserved and not made.
        chunk: The number of calls to reserve at once.
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
        """Give back a call that was taken and not made."""
        self._held += 1

    async def settle(self) -> None:
        """Give back all unused calls, so that other processes can use them."""
        async with self._lock:
            unused, self._held = self._held, 0
            if unused:
                await self._give_back(unused)
