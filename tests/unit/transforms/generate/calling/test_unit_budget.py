import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.transforms.generate.calling.fares import Cost
from groundrows.transforms.generate.calling.unit_budget import Purse, UnitBudget
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from tests.support.engines import run
from tests.support.virtual_time import run_virtually


class Shared:
    """A count that several processes share; with `lost` it can't be had."""

    def __init__(self):
        self.ledger = MemoryLedger()
        self.lost = False

    async def count(self, units):
        await asyncio.sleep(0)
        return None if self.lost else self.ledger.count("run", units)

    @property
    def total(self):
        return self.ledger.count("run", 0)

    def budget(self, limit):
        return UnitBudget(limit, self.count)


def test_calls_leave_as_long_as_the_limit_is_not_reached_and_the_rest_waits_for_one_to_end():
    async def main():
        shared = Shared()
        budget = shared.budget(100)
        assert [await budget.book(60) for _ in range(3)] == ["booked", "booked", "full"]
        waiting = asyncio.create_task(budget.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.settle(60, 30)
        await waiting
        # 60 are booked and 30 spent.
        assert await budget.book(60) == "booked"
        budget.settle(60, 30)
        budget.settle(60, 40)
        assert await budget.book(1) == "spent"
        await budget.room()  # nobody is out
        await budget.flush()
        assert shared.total == 100

    run(main())


def test_a_settlement_on_its_way_makes_room_though_nobody_is_out():
    async def main():
        shared = Shared()
        budget = shared.budget(100)
        assert await budget.book(100) == "booked"
        asked = asyncio.create_task(budget.book(10))
        await asyncio.sleep(0)
        budget.settle(100, 20)
        assert await asked == "booked"

    run(main())


def test_another_process_sees_what_is_booked():
    async def main():
        shared = Shared()
        one, other = shared.budget(100), shared.budget(100)
        assert await one.book(100) == "booked"
        assert await other.book(1) == "spent"

    run(main())


def test_a_count_that_is_gone_lets_nobody_out():
    async def main():
        shared = Shared()
        budget = shared.budget(100)
        shared.lost = True
        assert await budget.book(1) == "spent"

    run(main())


def test_a_fault_of_the_count_ends_the_calls_that_met_it_and_no_others():
    async def main():
        async def broken(units):
            raise RuntimeError

        with pytest.raises(RuntimeError):
            await UnitBudget(100, broken).book(1)

    run(main())


def test_a_call_that_is_cancelled_while_it_books_books_nothing():
    async def main():
        shared = Shared()
        budget = shared.budget(100)
        booking = asyncio.create_task(budget.book(70))
        await asyncio.sleep(0)
        booking.cancel()
        await asyncio.gather(booking, return_exceptions=True)
        assert await budget.book(10) == "booked"
        await budget.flush()
        assert shared.total == 10

    run(main())


def test_of_two_budgets_both_are_booked_or_neither():
    async def main():
        tokens, searches = Shared(), Shared()
        purse = Purse((("max_tokens", 0, tokens.budget(1_000)), ("max_searches", 1, searches.budget(1))))
        assert await purse.book(Cost(10, 2)) == ("booked", "")
        assert await purse.book(Cost(10, 1)) == ("full", "max_searches")
        await purse.flush()
        assert (tokens.total, searches.total) == (10, 2)
        purse.settle(Cost(10, 2), Cost(15, 1))
        assert await purse.book(Cost(10, 1)) == ("spent", "max_searches")
        await purse.flush()
        assert (tokens.total, searches.total) == (15, 1)

    run(main())


@given(
    limit=st.integers(1, 300),
    calls=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 90)), min_size=1, max_size=40),
    processes=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_the_limit_is_passed_by_at_most_what_was_in_flight_when_it_was_reached(limit, calls, processes):
    async def main():
        now = asyncio.get_running_loop().time
        shared = Shared()
        budgets = [shared.budget(limit) for _ in range(processes)]
        spent, out, reached_at, in_flight = 0, {}, None, 0

        async def call(number):
            nonlocal spent, reached_at, in_flight
            expected, used = calls[number]
            budget = budgets[number % processes]
            while (came := await budget.book(expected)) == "full":
                await budget.room()
            if came == "spent":
                return
            if reached_at is not None:
                assert now() == reached_at  # it was let out when the last one before it ended
                in_flight += used
            out[number] = used
            await asyncio.sleep(0.001 * (number % 4))
            if spent < limit <= spent + used:
                reached_at, in_flight = now(), sum(out.values())
            spent += out.pop(number)
            budget.settle(expected, used)

        await asyncio.gather(*map(call, range(len(calls))))
        for budget in budgets:
            await budget.flush()
        assert shared.total == spent
        assert spent <= limit or spent - limit <= in_flight
        if processes == 1:  # one process leaves nothing of it
            assert spent >= min(limit, sum(used for _, used in calls))

    with pytest.MonkeyPatch.context() as patch:
        run_virtually(main(), patch)
