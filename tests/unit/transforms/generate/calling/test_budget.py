import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.transforms.generate.calling.budget import CHUNK, Budget, budget_scope
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from tests.support.engines import make_settings, run


def budget_on(ledger, limit, chunk=CHUNK, run_id="run"):
    async def reserve(count):
        await asyncio.sleep(0)
        return ledger.reserve(run_id, limit, count)

    async def give_back(count):
        await asyncio.sleep(0)
        ledger.give_back(run_id, count)

    return Budget(reserve, give_back, chunk)


@given(limit=st.integers(0, 60), chunk=st.integers(1, 16), takers=st.integers(0, 80))
@settings(max_examples=60)
def test_exactly_the_limit_is_granted_however_many_ask_at_once(limit, chunk, takers):
    async def scenario():
        budget = budget_on(MemoryLedger(), limit, chunk)
        granted = await asyncio.gather(*(budget.take() for _ in range(takers)))
        assert sum(granted) == min(limit, takers)

    run(scenario())


@given(
    limit=st.integers(0, 60),
    chunk=st.integers(1, 16),
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["take", "settle", "put back"])), max_size=120
    ),
)
@settings(max_examples=100)
def test_processes_that_share_a_limit_never_pass_it_and_lose_nothing_to_settling(limit, chunk, steps):
    async def scenario():
        ledger = MemoryLedger()
        budgets = [budget_on(ledger, limit, chunk) for _ in range(4)]
        used = 0
        for who, what in steps:
            if what == "take":
                used += await budgets[who].take()
            elif what == "settle":
                await budgets[who].settle()
            elif await budgets[who].take():
                budgets[who].put_back()
            assert used <= limit
        for budget in budgets:
            await budget.settle()
        assert ledger.reserved("run") == used
        for _ in range(limit - used):
            assert await budgets[0].take()
        assert not await budgets[0].take()

    run(scenario())


def test_calls_are_reserved_by_the_chunk():
    asked = []

    async def reserve(count):
        asked.append(count)
        return count

    async def give_back(count):
        asked.append(-count)

    async def scenario():
        budget = Budget(reserve, give_back, 8)
        for _ in range(9):
            assert await budget.take()
        assert asked == [8, 8]
        await budget.settle()
        assert asked == [8, 8, -7]
        await budget.settle()
        assert asked == [8, 8, -7]

    run(scenario())


def test_takers_beside_settlers_never_pass_the_limit():
    async def scenario():
        ledger = MemoryLedger()
        budgets = [budget_on(ledger, 50) for _ in range(3)]
        used = 0

        async def taker(budget):
            nonlocal used
            for _ in range(40):
                granted = await budget.take()
                used += granted
                if random.random() < 0.3:
                    await budget.settle()

        await asyncio.gather(*(taker(budget) for budget in budgets for _ in range(3)))
        assert used == 50

    run(scenario())


@pytest.mark.parametrize(
    ("ledger", "shards", "scope"),
    [
        ("none", 1, "run"),
        ("none", 4, "run/3"),
        ("sqlite:///x", 4, "run"),
        ("redis://h:1/0", 4, "run"),
    ],
)
def test_a_shard_counts_for_itself_only_where_nothing_is_shared(ledger, shards, scope):
    assert budget_scope(make_settings(ledger=ledger, pacing_shards=shards), 3) == scope
