import asyncio
from bisect import bisect_left
from itertools import accumulate, cycle, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.pacing.local_units import LOOK_AGAIN_SECONDS, LocalUnits
from groundrows.transforms.generate.pacing.open import open_unit_pacer
from tests.support.engines import make_settings


class Time:
    def __init__(self):
        self.now = 5_000.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        assert 0 < seconds <= LOOK_AGAIN_SECONDS
        self.now += max(seconds, 1e-9)  # a wait of less is lost in the digits of the clock


def departures(per_minute, calls, seconds, shards=1):
    """When calls leave that are asked for all the time, and what each of them used: (expected, used) pairs."""
    time = Time()
    pacer = LocalUnits(per_minute, shards, time, time.sleep)
    left = []

    async def call():
        for expected, used in cycle(calls):
            if len(left) > 50_000:
                raise AssertionError("there is no limit at all")
            await pacer.acquire(expected)
            if time.now > 5_000.0 + seconds:
                return
            left.append((time.now, used))
            pacer.used(expected, used)

    asyncio.run(call())
    return left


def most_in_a_minute(left):
    moments = [moment for moment, _ in left]
    sums = [0, *accumulate(used for _, used in left)]
    return max(sums[bisect_left(moments, moment + 60)] - sums[index] for index, moment in enumerate(moments))


@given(per_minute=st.integers(2_000, 100_000), units=st.integers(100, 900))
@settings(max_examples=30, deadline=None)
def test_no_minute_of_equal_calls_holds_more_than_the_quota_and_nearly_all_of_it_is_used(per_minute, units):
    left = departures(per_minute, [(units, units)], 200)
    assert most_in_a_minute(left) <= per_minute
    assert sum(used for _, used in left) >= (per_minute * 0.97 - 2 * units) * 200 / 60


@given(calls=st.lists(st.tuples(st.integers(1, 1_000), st.integers(1, 1_000)), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_no_minute_is_above_the_quota_by_more_than_one_call_however_wrong_the_estimates(calls):
    assert most_in_a_minute(departures(10_000, calls, 300)) <= 10_000 + max(used for _, used in calls)


def test_a_call_larger_than_the_quota_leaves_and_is_paid_for_afterwards():
    left = departures(1_000, [(5_000, 5_000)], 1_300)
    assert len(left) >= 2
    assert all(after[0] - before[0] >= 300 for before, after in pairwise(left))


def test_a_wait_ends_early_when_calls_used_less_than_was_expected():
    time = Time()
    pacer = LocalUnits(6_000, 1, time, time.sleep)

    async def main():
        await pacer.acquire(3_000)
        asked = time.now

        async def settle_meanwhile(seconds, sleep=time.sleep):
            await sleep(seconds)
            pacer.used(3_000, 30)
            pacer._sleep = sleep

        pacer._sleep = settle_meanwhile
        await pacer.acquire(10)
        return time.now - asked

    assert asyncio.run(main()) <= 1.0


def test_a_share_that_moved_here_starts_as_late_as_its_last_owner_may_have_made_it():
    assert departures(6_000, [(100, 100)], 20)[0][0] == 5_000.0
    first = departures(6_000, [(100, 100)], 20, shards=3)[0][0]
    assert first - 5_000.0 >= 3.0


def test_the_settings_say_where_the_limit_is_kept():
    assert open_unit_pacer(make_settings()) is None
    assert isinstance(open_unit_pacer(make_settings(tokens_per_minute=60_000.0)), LocalUnits)
    with pytest.raises(SetupError, match=r"envoy.*redis://"):
        open_unit_pacer(make_settings(tokens_per_minute=6.0, rate_limiter="envoy://127.0.0.1:1"))
