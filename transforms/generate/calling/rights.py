"""Takes and ends leases on the event loop. `leases.py` says what a lease is.

When another process has the lease of a turn, the turn waits for that process's answer. It needs no slot while
it waits, and it does not fail. All waiting turns look into the ledger together, every half second. When the
lease is within the same process, they are woken at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.calling.commit import GroupCommit
from groundrows.transforms.generate.calling.gate import Halted
from groundrows.transforms.generate.calling.leases import BEAT_SECONDS, Hold, Leases
from groundrows.transforms.generate.ledger.base import Entry

LOOK_AGAIN_SECONDS = 0.5


class Rights:
    """Takes leases, renews them, and ends them. Used from one event loop.

    Args:
        leases: The process's leases.
        executor: Runs the ledger's operations.
        failed: Called when the ledger can't be used. Leases are not renewed any more after that.
        settle: The ledger's `settle`, called after each renewal.
    """

    def __init__(
        self,
        leases: Leases,
        executor: Executor,
        failed: Callable[[LedgerError], None],
        settle: Callable[[], None],
    ) -> None:
        self._leases = leases
        self._executor = executor
        self._failed = failed
        self._settle = settle
        self._taking = GroupCommit(self._take, executor)
        self._ending = GroupCommit(self._end, executor)
        self._waiting: dict[bytes, deque[asyncio.Future[None]]] = {}
        self._halted = False
        self._beat: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to renew the leases every few seconds."""
        self._beat = asyncio.get_running_loop().create_task(self._keep_alive())

    async def regain(self, hold: Hold) -> Entry | None:
        """Wait until the hold has its lease, and return None; or return the entry if the turn was answered.

        Raises:
            Halted: Calling has stopped.
            LedgerError: The ledger can't be used.
        """
        while not self._halted:
            # A turn joins the waiting turns before it looks, so that it hears of a lease that ends meanwhile.
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(hold.key, deque()).append(told)
            try:
                entry = await self._taking.put(hold)
                if entry is not None:
                    self._wake(hold.key, everybody=True)
                    return entry
                if self._leases.is_sure(hold):
                    return None
                await _wait(told)
            finally:
                self._leave(hold.key, told)
        raise Halted

    async def let_go(self, hold: Hold, *, answered: bool) -> None:
        """End the lease of a turn that has ended.

        Args:
            hold: The turn's hold. It need not have a lease.
            answered: Whether the ledger stored the turn's answer, which also ended the lease.

        Raises:
            LedgerError: The ledger can't be used.
        """
        try:
            # First in the ledger: ended later, it would take the lease from the next hold of this process.
            if not answered and self._leases.has(hold):
                await self._ending.put(hold.key)
        finally:
            self._leases.forget([hold])
            self._wake(hold.key, everybody=answered)

    def halt(self) -> None:
        """Raise `Halted` in all waiting turns, and in all later ones."""
        self._halted = True
        for key in list(self._waiting):
            self._wake(key, everybody=True)

    async def close(self, *, tell: bool) -> None:
        """End all leases. `tell` says whether the ledger can be used."""
        if self._beat is not None:
            self._beat.cancel()
        if tell:
            with suppress(LedgerError):  # the leases end by themselves in a few seconds
                await asyncio.get_running_loop().run_in_executor(self._executor, self._leases.close)

    def _take(self, holds: Sequence[Hold]) -> list[Entry | None]:
        stored = self._leases.take(holds)
        return [stored.get(hold.key) for hold in holds]

    def _end(self, keys: Sequence[bytes]) -> list[None]:
        self._leases.end(keys)
        return [None] * len(keys)

    def _leave(self, key: bytes, told: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(key, deque())
        with suppress(ValueError):
            waiting.remove(told)
        if not waiting:
            self._waiting.pop(key, None)

    def _wake(self, key: bytes, *, everybody: bool) -> None:
        waiting = self._waiting.get(key, deque())
        while waiting:
            told = waiting.popleft()
            if not told.done():
                told.set_result(None)
                if not everybody:
                    return

    def _say_alive(self) -> None:
        self._leases.renew()
        self._settle()

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await asyncio.get_running_loop().run_in_executor(self._executor, self._say_alive)
            except LedgerError as error:
                self._failed(error)
                return


async def _wait(told: asyncio.Future[None]) -> None:
    """Wait until a turn is told to look again, or until the next moment at which all look."""
    # All waiting turns look at the same moment, so that the ledger is asked once for all.
    with suppress(TimeoutError):
        now = asyncio.get_running_loop().time()
        await asyncio.wait_for(told, LOOK_AGAIN_SECONDS - now % LOOK_AGAIN_SECONDS)


@dataclass(frozen=True, slots=True)
class Right:
    """The lease of one turn, in the form that its attempts use.

    Attributes:
        hold: The turn's hold.
        leases: The process's leases.
        rights: Takes the lease again after it was lost.
        is_wanted: Whether this process is still the one to ask the turn.
    """

    hold: Hold
    leases: Leases
    rights: Rights
    is_wanted: Callable[[], bool]

    def is_sure(self) -> bool:
        """Whether no other process can ask the turn now."""
        return self.leases.is_sure(self.hold)

    async def regain(self) -> Entry | None:
        """See `Rights.regain`."""
        return await self.rights.regain(self.hold)
