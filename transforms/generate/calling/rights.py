"""Who may ask: the calls' side of the leases, on the event loop.

A turn that another process holds waits for that one's answer, without a slot and without a failure: it looks
again every half second, together with all others that wait. Within the process it is told at once.
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
    """Gets holds their leases, keeps them, and lets go of them. Used from one event loop.

    Args:
        leases: The process's leases.
        executor: Where the ledger is asked.
        failed: Told when the ledger can't be asked; afterwards it is not asked again.
        settle: The ledger's `settle`, called after each sign of life.
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
        """Begin to say that this process is alive."""
        self._beat = asyncio.get_running_loop().create_task(self._keep_alive())

    async def regain(self, hold: Hold) -> Entry | None:
        """Return when the hold may ask, or the entry when its turn has been answered meanwhile.

        Raises:
            Halted: Calling has stopped.
            LedgerError: The ledger can't be asked.
        """
        while not self._halted:
            entry = await self._taking.put(hold)
            if entry is not None:
                self._wake(hold.key, everybody=True)
                return entry
            if self._leases.is_sure(hold):
                return None
            await self._wait(hold.key)
        raise Halted

    async def let_go(self, hold: Hold, *, answered: bool) -> None:
        """The turn has ended.

        Args:
            hold: Its hold, whether it ever had the lease or not.
            answered: Whether the ledger has its answer now, and ended the lease with it.

        Raises:
            LedgerError: The ledger can't be told.
        """
        leased = self._leases.forget([hold])
        self._wake(hold.key, everybody=answered)
        if leased and not answered:
            await self._ending.put(hold.key)

    def halt(self) -> None:
        """Turn away everybody who waits, and whoever comes later."""
        self._halted = True
        for key in list(self._waiting):
            self._wake(key, everybody=True)

    async def close(self, *, tell: bool) -> None:
        """Let go of everything; tells the ledger when that can be asked."""
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

    async def _wait(self, key: bytes) -> None:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(key, deque()).append(told)
        try:
            # All who wait look again at the same moment, so that they ask the ledger together.
            await asyncio.wait_for(told, LOOK_AGAIN_SECONDS - loop.time() % LOOK_AGAIN_SECONDS)
        except TimeoutError:
            pass
        finally:
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


@dataclass(frozen=True, slots=True)
class Right:
    """One turn's right to be asked, as its attempts see it.

    Attributes:
        hold: The turn's hold.
        leases: The process's leases.
        rights: Where it is had again.
        is_wanted: Whether somebody still waits for this process to ask.
    """

    hold: Hold
    leases: Leases
    rights: Rights
    is_wanted: Callable[[], bool]

    def is_sure(self) -> bool:
        """Whether nobody else can be asking this now."""
        return self.leases.is_sure(self.hold)

    async def regain(self) -> Entry | None:
        """See `Rights.regain`."""
        return await self.rights.regain(self.hold)
