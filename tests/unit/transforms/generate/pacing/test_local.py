import asyncio
import math
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.transforms.generate.pacing.adaptive import LONGEST_PAUSE_SECONDS
from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS, JITTER_SECONDS, calls_per_second
from groundrows.transforms.generate.pacing.local import LocalPacer
from groundrows.transforms.generate.pacing.open import open_pacer
from tests.support.engines import make_settings


class Time:
    """A clock that moves only when somebody sleeps, and wakes sleepers as late as it is told to."""

    def __init__(self, now=5_000.0, lateness=()):
        self.now = now
        self._lateness = list(lateness)
        self._slept = 0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds
        if self._lateness:
            self.now += self._lateness[self._slept % len(self._lateness)]
            self._slept += 1


def pacer_on(time, per_second, **kwargs):
    return LocalPacer(per_second, time, time.sleep, **kwargs)


def departures(pacer, time, until, pauses=()):
    """When calls leave that are asked for all the time, but for pauses of (after how many calls, seconds)."""
    left = []
    pauses = dict(pauses)

    async def call():
        while time.now < until:
            await pacer.acquire()
            left.append(time.now)
            time.now += pauses.get(len(left), 0.0)

    asyncio.run(call())
    return left


def most_in(times, seconds):
    """The largest number of times in any half-open stretch of so many seconds."""
    times = sorted(times)
    return max((bisect_left(times, start + seconds) - index for index, start in enumerate(times)), default=0)


lateness = st.lists(st.floats(0, 3 * CATCH_UP_SECONDS) | st.just(0.0), min_size=1, max_size=20)
jitter = st.lists(st.floats(0, JITTER_SECONDS), min_size=1, max_size=20)
pauses = st.lists(st.tuples(st.integers(1, 100), st.floats(0, 100)), max_size=4)


@given(per_minute=st.integers(1, 300), late=lateness, network=jitter, gaps=pauses)
@settings(max_examples=60, deadline=None)
def test_no_sliding_minute_holds_more_than_the_quota_by_arrival(per_minute, late, network, gaps):
    time = Time(lateness=late)
    left = departures(pacer_on(time, calls_per_second(per_minute)), time, time.now + 200, gaps)
    arrived = [at + network[index % len(network)] for index, at in enumerate(left)]
    assert most_in(arrived, 60.0) <= per_minute


@given(per_minute=st.integers(1, 1_000), late=lateness, gaps=pauses)
@settings(max_examples=60, deadline=None)
def test_no_burst_is_above_a_seconds_worth(per_minute, late, gaps):
    time = Time(lateness=late)
    left = departures(pacer_on(time, calls_per_second(per_minute)), time, time.now + 60, gaps)
    assert most_in(left, 0.25) <= max(1, per_minute / 60)


@given(per_minute=st.integers(1, 1_000), late=st.lists(st.floats(0, 0.9 * CATCH_UP_SECONDS), max_size=20))
@settings(max_examples=25, deadline=None)
def test_nearly_all_of_the_quota_is_used_when_there_is_always_work(per_minute, late):
    time = Time(lateness=late)
    started = time.now
    left = departures(pacer_on(time, calls_per_second(per_minute)), time, started + 600)
    assert len([at for at in left if at <= started + 600]) >= 0.98 * per_minute * 10


def test_the_first_call_leaves_at_once_unless_the_share_may_just_have_moved_here():
    time = Time()
    assert departures(pacer_on(time, 2.0), time, time.now + 0.1)[0] == 5_000.0
    time = Time()
    assert departures(pacer_on(time, 2.0, start_late=True), time, time.now + 0.1)[0] == 5_000.5


def refuse(pacer, time, count=20, retry_after=None):
    """So many refusals of calls that have just left, with nothing accepted between them."""
    for number in range(count):
        pacer.throttled(time.now - 0.001 * (number + 1), retry_after)


def test_without_a_limit_nothing_waits_until_the_service_refuses():
    time = Time()
    pacer = pacer_on(time, math.inf)

    async def scenario():
        for _ in range(100):
            await pacer.acquire()
        assert time.now == 5_000.0
        refuse(pacer, time)
        await pacer.acquire()
        assert time.now > 5_000.0

    asyncio.run(scenario())


def test_after_refusals_the_rate_is_cut_and_climbs_back():
    time = Time()
    pacer = pacer_on(time, 10.0)
    departures(pacer, time, time.now + 60)
    refused_at = time.now
    refuse(pacer, time)
    left = departures(pacer, time, refused_at + 60)
    first = [at for at in left if at < refused_at + 2]
    assert 8 <= len(first) <= 18  # of 20
    later = [at for at in left if refused_at + 30 <= at < refused_at + 40]
    assert len(later) in (99, 100, 101)


def test_a_crowd_of_refusals_is_one():
    counts = []
    for crowd in (10, 50):
        time = Time()
        pacer = pacer_on(time, 10.0)
        departures(pacer, time, time.now + 60)
        refused_at = time.now
        refuse(pacer, time, crowd)
        counts.append(len(departures(pacer, time, refused_at + 20)))
    assert counts[0] == counts[1] < 200


@given(retry_after=st.floats(0.001, LONGEST_PAUSE_SECONDS), crowd=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_a_refusal_that_says_when_is_obeyed_to_the_millisecond(retry_after, crowd):
    time = Time()
    pacer = pacer_on(time, 50.0)
    asyncio.run(pacer.acquire())
    refused_at = time.now
    for number in range(crowd):
        pacer.throttled(refused_at - 0.01, retry_after * (number + 1) / crowd)
    first = departures(pacer, time, refused_at + retry_after + 1)[0]
    # A second refusal cuts the rate, and what is behind it left before the cut.
    assert refused_at + retry_after * min(crowd, 2) / crowd - 1e-6 <= first
    # Not before, and not much later: at worst by a place at the rate after the cut, which is one in 2.1 s.
    assert first <= refused_at + max(retry_after, 2.2) + 1e-6


def test_refusals_that_ask_for_hours_hold_everybody_up_for_a_minute():
    time = Time()
    pacer = pacer_on(time, 50.0)
    asyncio.run(pacer.acquire())
    refused_at = time.now
    pacer.throttled(refused_at - 0.01, 86_400.0)
    first = departures(pacer, time, refused_at + 100)[0]
    assert first == pytest.approx(refused_at + LONGEST_PAUSE_SECONDS)


def test_one_long_wait_among_good_answers_holds_nobody_up():
    time = Time()
    pacer = pacer_on(time, 50.0)
    departures(pacer, time, time.now + 5)
    refused_at = time.now
    pacer.throttled(refused_at - 0.01, 50.0)
    assert departures(pacer, time, refused_at + 1)[0] <= refused_at + 1 / 50 + 1e-6


def test_a_refusal_reaches_a_call_that_already_waits():
    time = Time()
    pacer = pacer_on(time, 1.0)

    async def sleep(seconds):
        if time.now < 5_000.5:
            time.now += seconds / 2
            pacer.throttled(time.now, 30.0)
            time.now += seconds / 2
        else:
            time.now += seconds

    pacer._sleep = sleep

    async def scenario():
        await pacer.acquire()
        await pacer.acquire()

    asyncio.run(scenario())
    assert time.now == pytest.approx(5_030.5)


@given(
    per_minute=st.integers(2, 300),
    shards=st.integers(1, 12),
    phases=st.lists(st.floats(0, 60), min_size=12, max_size=12),
    late=lateness,
    network=jitter,
)
@settings(max_examples=60, deadline=None)
def test_shares_never_add_up_to_more_than_the_quota_whatever_their_phase(
    per_minute, shards, phases, late, network
):
    shards = min(shards, per_minute // 2)  # what the flags and the derived number keep to
    arrived = []
    for phase in phases[:shards]:
        time = Time(5_000 + phase, late)
        pacer = pacer_on(time, calls_per_second(per_minute, shards), start_late=shards > 1)
        left = departures(pacer, time, 5_000 + 200)
        arrived += [at + network[index % len(network)] for index, at in enumerate(left)]
    assert most_in(arrived, 60.0) <= per_minute


@given(
    per_minute=st.integers(4, 300),
    shards=st.integers(2, 6),
    moves=st.lists(st.floats(1, 60), min_size=1, max_size=3),
    network=jitter,
)
@settings(max_examples=40, deadline=None)
def test_a_share_that_moves_from_worker_to_worker_stays_a_share(per_minute, shards, moves, network):
    shards = min(shards, per_minute // 2)
    arrived = []
    for _ in range(shards):
        time = Time()
        for stay in [*moves, 130.0]:
            pacer = pacer_on(time, calls_per_second(per_minute, shards), start_late=True)
            arrived += departures(pacer, time, time.now + stay)
    arrived = [at + network[index % len(network)] for index, at in enumerate(arrived)]
    assert most_in(arrived, 60.0) <= per_minute


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_the_flags_limit_is_the_pacers(shards):
    pacer = open_pacer(make_settings(requests_per_minute=600.0, pacing_shards=shards))
    assert isinstance(pacer, LocalPacer)
    assert pacer._rate.at(0.0) == calls_per_second(600.0, shards)
    assert calls_per_second(600.0, shards) * shards * 60 >= 600 * 0.98


def test_no_limit_is_no_limit():
    assert open_pacer(make_settings())._rate.at(0.0) == math.inf
