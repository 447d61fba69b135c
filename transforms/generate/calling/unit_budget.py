"""`--max_tokens` and `--max_searches`: budgets in units of which a call takes more than one.

Nobody knows what a call takes before it has ended. So a call books what is expected of it, and the booking is
settled when it ends. A call may leave as long as what is booked and spent together is below the limit: the
limit is passed by what was in flight when it was reached, and by no more. What a killed process had booked
stays spent, for its calls may have been billed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from groundrows.transforms.generate.calling.commit import LINGER_SECONDS
from groundrows.transforms.generate.calling.fares import Cost

Booking = Literal["booked", "full", "spent"]
"""What came of a wish to book: `full` may change when a call of this process ends, `spent` does not."""


class UnitBudget:
    """One budget, whose count all processes of the run share. Used from one event loop.

    Wishes and settlements that come together are told to the count together.

    Args:
        limit: Units that may be spent over the whole run.
        count: Adds to the run's count of units and returns it; None when it can't be had, which stops the
            calling.
    """

    def __init__(self, limit: int, count: Callable[[int], Awaitable[int | None]]) -> None:
        self._limit = limit
        self._count = count
        self._owed = 0
        self._out = 0
        self._wishes: list[tuple[int, asyncio.Future[Booking]]] = []
        self._ended: list[asyncio.Future[None]] = []
        self._teller: asyncio.Task[None] | None = None

    async def book(self, units: int) -> Booking:
        """Book units for a call that is about to leave; `settle` them when it has ended."""
        wish: asyncio.Future[Booking] = asyncio.get_running_loop().create_future()
        self._wishes.append((units, wish))
        self._tell()
        try:
            return await wish
        except asyncio.CancelledError:
            if wish.done() and not wish.cancelled() and wish.result() == "booked":
                self.settle(units, 0)
            raise

    def settle(self, booked: int, used: int) -> None:
        """Take note that a call has ended."""
        self._owed += used - booked
        self._out -= 1
        for waiting in self._ended:
            if not waiting.done():
                waiting.set_result(None)
        self._ended.clear()
        if used != booked:
            self._tell()

    async def room(self) -> None:
        """Return when a call of this process has ended, or none is out: it is worth trying again then."""
        if self._out > 0:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._ended.append(ended)
            await ended

    async def flush(self) -> None:
        """Return when the count knows of everything that was settled."""
        while self._teller is not None:
            await asyncio.shield(self._teller)

    def _tell(self) -> None:
        if self._teller is None:
            self._teller = asyncio.get_running_loop().create_task(self._tell_all())

    async def _tell_all(self) -> None:
        try:
            while self._wishes or self._owed:
                await asyncio.sleep(LINGER_SECONDS)
                wishes, self._wishes = self._wishes, []
                owed, self._owed = self._owed, 0
                wished = sum(units for units, _ in wishes)
                try:
                    total = await self._count(owed + wished)
                except Exception as error:  # a fault of our own: each of these calls ends in it
                    for _, wish in wishes:
                        if not wish.done():
                            wish.set_exception(error)
                    continue
                self._grant(wishes, None if total is None else total - wished)
        finally:
            self._teller = None

    def _grant(self, wishes: list[tuple[int, asyncio.Future[Booking]]], taken: int | None) -> None:
        """Grant wishes, which are counted already, as long as there is room; take the others back."""
        left = []
        for units, wish in wishes:
            if wish.cancelled():
                self._owed -= units
            elif taken is None:
                wish.set_result("spent")
            elif taken < self._limit:
                taken += units
                self._out += 1
                wish.set_result("booked")
            else:
                left.append((units, wish))
        if not left:
            return
        # What was settled while the count was asked may have made room.
        settled = self._owed < 0
        self._owed -= sum(units for units, _ in left)
        if settled and self._out == 0:
            self._wishes += left
            return
        for _, wish in left:
            wish.set_result("full" if self._out else "spent")


@dataclass(frozen=True, slots=True)
class Purse:
    """The budgets in tokens and in searches that a run has: neither, one or both.

    Attributes:
        budgets: Each by the name of its flag, and the place of its unit in a `Cost`.
    """

    budgets: Sequence[tuple[str, int, UnitBudget]] = ()

    async def book(self, cost: Cost) -> tuple[Booking, str]:
        """Book what a call is expected to take of all budgets, or of none; and say which is in its way."""
        booked: list[tuple[int, UnitBudget]] = []
        try:
            for flag, unit, budget in self.budgets:
                came = await budget.book(cost[unit])
                if came != "booked":
                    return came, flag
                booked.append((unit, budget))
            booked.clear()
            return "booked", ""
        finally:
            for unit, budget in booked:
                budget.settle(cost[unit], 0)

    def settle(self, booked: Cost, used: Cost) -> None:
        """Take note that a call has ended."""
        for _, unit, budget in self.budgets:
            budget.settle(booked[unit], used[unit])

    async def room(self, flag: str) -> None:
        """Return when it is worth trying again to book of a budget that was full."""
        for name, _, budget in self.budgets:
            if name == flag:
                await budget.room()

    async def flush(self) -> None:
        """Return when all is counted."""
        for _, _, budget in self.budgets:
            await budget.flush()


EMPTY_PURSE = Purse()
"""That of a run without such budgets."""
