"""The gate every call passes: a free slot, the pace, and retries before first attempts."""

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
    """Calling has stopped; nothing more is let out."""


class Slots:
    """`max_in_flight` places for calls, shared by every gate of the process."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_take(self) -> bool:
        """Take a slot if one is free and nobody waits for it."""
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
        """Hand a slot to whoever waits longest, or put it back."""
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

    A slot is taken before the pace is asked: a place in the schedule that waits for a slot would be used
    late, and late places make bursts. Who goes is decided last, when both are there, so that a retry whose
    turn has come goes before every first attempt.

    Args:
        slots: The places for calls.
        pacer: Keeps the limit in calls a minute.
        paced: Whether there is such a limit.
        breaker: Holds calls back while the service answers nobody.
        units: Keeps a limit in units of which each call takes its own number, as tokens; None for no limit.

    Attributes:
        throttled_seconds: Time in which somebody waited for the pace while a slot was free.
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
        """Wait until the call may leave; the caller then owns a slot and must `leave()`.

        Args:
            retry: Whether the turn has been asked before.
            units: What the call is expected to take of the limit in units; `used` corrects it.

        Returns:
            Whether it leaves as a probe of a service that answers nothing.

        Raises:
            Halted: Calling has stopped.
        """
        if self._halted:
            raise Halted
        probe = False
        free = not self._paced and not self._retries and not self._firsts and not self._breaker.is_open
        if free and self._slots.try_take():
            # Unlimited and idle: the pacer still hears of the call, but there is nothing to wait for.
            try:
                await self.pacer.acquire()
            except BaseException:
                self._slots.give()
                raise
        else:
            probe = await self._queue(self._retries if retry else self._firsts, units)
        if self._halted:
            # Between being let out and getting here.
            self.used(units, 0)
            self._slots.give()
            raise Halted
        return probe

    def leave(self) -> None:
        """The call has ended: its slot is free."""
        self._slots.give()

    def used(self, expected: int, units: int) -> None:
        """A call takes another number of units than was expected.

        Args:
            expected: What the limit reckons with.
            units: What it should reckon with.
        """
        if self._units is not None and units != expected:
            self._units.used(expected, units)

    def answered(self, sent_at: float) -> None:
        """A call got its response.

        Args:
            sent_at: When the call left, on `time.monotonic`'s clock.
        """
        self._breaker.answered()
        self.pacer.answered(sent_at)

    def failed(self, error: CallError, sent_at: float) -> None:
        """A call ended in an error, which says something about the pace or about the service.

        Args:
            error: The error.
            sent_at: When the call left, on `time.monotonic`'s clock.
        """
        if not error.retryable or error.code == EMPTY_ANSWER:
            # The service did its work: it looked at the request and said no, or nothing.
            self.answered(sent_at)
            return
        self._breaker.failed()
        if error.code == "RESOURCE_EXHAUSTED":
            # From now on the pace matters.
            self._paced = True
            self.pacer.throttled(sent_at, error.retry_after)

    def halt(self) -> None:
        """Turn away everybody who waits, and whoever comes later."""
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
            # Nobody else would ever wake those who wait.
            self._turn_away(error)
            self._dispatcher = None

    async def _let_one_out(self) -> None:
        """Called with a slot in hand: pass it on, or give it back."""
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
