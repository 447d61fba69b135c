"""The budgets of `--max_tokens` and `--max_searches`. A call uses several units of them.

The number of units is known only when a call has ended. So a call books an estimate when it starts, and the
booking is corrected when it ends. A call may start while the units booked and spent are below the limit. So
only the calls in flight at that moment can exceed the limit. The bookings of a killed process stay spent,
because its calls may have been billed.
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
    """A budget whose count all processes of the run share. Used from one event loop.

    Bookings and corrections that come together are sent to the count together.

    Args:
        limit: The units that the whole run may use.
        count: Adds to the run's count of units and returns it; None when the count is not available, which
            stops the calling.
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
        """Book units for a call that is about to start. Call `settle` when it has ended."""
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
        """Wait until a call of this process has ended, or none is in flight. Then booking may succeed."""
        if self._out > 0:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._ended.append(ended)
            await ended

    async def flush(self) -> None:
        """Wait until all corrections are counted."""
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
        """Grant bookings, which are counted already, while there is room; take the others back."""
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
        # Corrections that came meanwhile may have made room.
        settled = self._owed < 0
        self._owed -= sum(units for units, _ in left)
        if settled and self._out == 0:
            self._wishes += left
            return
        for _, wish in left:
            wish.set_result("full" if self._out else "spent")


@dataclass(frozen=True, slots=True)
class Purse:
    """The run's budgets in tokens and in searches: none, one or both.

    Attributes:
        budgets: The budgets by the names of their flags, each with the index of its unit in a `Cost`.
    """

    budgets: Sequence[tuple[str, int, UnitBudget]] = ()

    async def book(self, cost: Cost) -> tuple[Booking, str]:
        """Book an estimate in all budgets or in none; return the flag of the budget that has no room."""
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
        """Wait until booking in a budget that was full may succeed."""
        for name, _, budget in self.budgets:
            if name == flag:
                await budget.room()

    async def flush(self) -> None:
        """Wait until everything is counted."""
        for _, _, budget in self.budgets:
            await budget.flush()


EMPTY_PURSE = Purse()
"""The purse of a run without such budgets."""
