"""The gate that every call waits at: for a free slot, and for the rate limit. Retries go first."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass

from groundrows.schemas.codes import EMPTY_ANSWER
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.breaker import Breaker
from groundrows.transforms.generate.pacing.base import Pacer, UnitPacer


class Halted(Exception):  # noqa: N818 - a state, not an error
    """Calling has stopped; no more calls are made."""


class Slots:
    """The slots for calls in flight, `max_in_flight` of them. All gates of the process share them."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_take(self) -> bool:
        """Take a slot if one is free and no other call waits for it."""
        if self._free and not self._waiting:
            self._free -= 1
            return True
        return False

    async def take(self) -> None:
        """Wait for a slot."""
        if self.try_take():
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give()
            raise

    def give(self) -> None:
        """Give a slot to the call that has waited longest, or put it back."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


@dataclass(frozen=True, slots=True)
class _Turn:
    """A call that waits to be let out, and what it is expected to take of the limit in units."""

    leaves: asyncio.Future[bool]
    units: int


class Gate:
    """Lets calls out one by one.

    It takes a slot before it asks the pacer for a time to start. If it asked first, a call could wait for a
    slot after its start time, and such late calls would make bursts. Only when it has both does it choose the
    call, so that a waiting retry goes before all first attempts.

    Args:
        slots: The slots for calls in flight.
        pacer: Keeps the limit in calls per minute.
        paced: Whether there is such a limit.
        breaker: Holds calls back while the service answers nothing.
        units: Keeps a limit in units, such as tokens; None for no limit.

    Attributes:
        throttled_seconds: Seconds in which a call waited for the rate limit while a slot was free.
    """

    def __init__(
        self,
        slots: Slots,
        pacer: Pacer,
        *,
        paced: bool,
        breaker: Breaker | None = None,
        units: UnitPacer | None = None,
    ) -> None:
        self.pacer = pacer
        self._units = units
        self._breaker = breaker or Breaker()
        self.throttled_seconds = 0.0
        self._slots = slots
        self._paced = paced or units is not None
        self._retries: deque[_Turn] = deque()
        self._firsts: deque[_Turn] = deque()
        self._somebody = asyncio.Event()
        self._halted = False
        self._dispatcher: asyncio.Task[None] | None = None

    async def enter(self, *, retry: bool, units: int = 0) -> bool:
        """Wait until the call may be made. The caller then has a slot and must call `leave`.

        Args:
            retry: Whether the turn has been asked before.
            units: The number of units that the call is expected to use; `used` corrects it.

        Returns:
            Whether the call is a probe of a service that answers nothing (see `breaker.py`).

        Raises:
            Halted: Calling has stopped.
        """
        if self._halted:
            raise Halted
        probe = False
        free = not self._paced and not self._retries and not self._firsts and not self._breaker.is_open
        if free and self._slots.try_take():
            # There is no limit and no other call waits. The pacer must know of the call but does not wait.
            try:
                await self.pacer.acquire()
            except BaseException:
                self._slots.give()
                raise
        else:
            probe = await self._queue(self._retries if retry else self._firsts, units)
        if self._halted:
            # Calling may stop after the call was let out and before this line runs.
            self.used(units, 0)
            self._slots.give()
            raise Halted
        return probe

    def leave(self) -> None:
        """Free the slot of a call that has ended."""
        self._slots.give()

    def used(self, expected: int, units: int) -> None:
        """A call takes another number of units than was expected.

        Args:
            expected: What the limit reckons with.
            units: What it should reckon with.
        """
        if self._units is not None and units != expected:
            self._units.used(expected, units)

    def answered(self) -> None:
        """Note that a call got its response."""
        self._breaker.answered()

    def failed(self, error: CallError, sent_at: float) -> None:
        """Note that a call ended with an error. The pacer and the breaker learn from it.

        Args:
            error: The error.
            sent_at: When the call started, on the clock of `time.monotonic`.
        """
        if not error.retryable or error.code == EMPTY_ANSWER:
            # The service works: it processed the request and refused it, or sent an empty answer.
            self.answered()
            return
        self._breaker.failed()
        if error.code == "RESOURCE_EXHAUSTED":
            # A call without a limit was refused, so the pacer limits the calls from now on.
            self._paced = True
            self.pacer.throttled(sent_at, error.retry_after)

    def halt(self) -> None:
        """Raise `Halted` in all waiting calls, and in all later ones."""
        self._halted = True
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            self._dispatcher = None
        self._turn_away(Halted())

    async def close(self) -> None:
        """Stop dispatching and give back what the pacer leased."""
        self.halt()
        await self.pacer.close()
        if self._units is not None:
            await self._units.close()

    async def _queue(self, queue: deque[_Turn], units: int) -> bool:
        if self._dispatcher is None:
            self._dispatcher = asyncio.get_running_loop().create_task(self._dispatch())
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        queue.append(_Turn(turn, units))
        self._somebody.set()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.used(units, 0)
                self._slots.give()
            raise

    async def _dispatch(self) -> None:
        try:
            while True:
                while not self._retries and not self._firsts:
                    self._somebody.clear()
                    await self._somebody.wait()
                await self._slots.take()
                await self._let_one_out()
        except Exception as error:
            # Without this, the waiting calls would wait for ever.
            self._turn_away(error)
            self._dispatcher = None

    async def _let_one_out(self) -> None:
        """Let the next call out. The dispatcher has a slot, which the call gets or which is given back."""
        before = time.monotonic()
        waiting = self._retries or self._firsts
        units = waiting[0].units if waiting else 0
        try:
            if self._units is not None:
                # First, as nothing is lost when its place is used late.
                await self._units.acquire(units)
            await self.pacer.acquire()
            await self._breaker.pass_one()
        except BaseException:
            self._slots.give()
            raise
        self.throttled_seconds += time.monotonic() - before
        probe = self._breaker.is_open
        queues = [self._firsts, self._retries] if probe else [self._retries, self._firsts]
        while waiting := queues[0] or queues[1]:
            turn = waiting.popleft()
            if not turn.leaves.done():
                self.used(units, turn.units)
                turn.leaves.set_result(probe)
                return
        self.used(units, 0)
        self._slots.give()

    def _turn_away(self, error: Exception) -> None:
        for turn in (*self._retries, *self._firsts):
            if not turn.leaves.done():
                turn.leaves.set_exception(error)
        self._retries.clear()
        self._firsts.clear()
