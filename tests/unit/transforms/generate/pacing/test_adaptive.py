import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundrows.transforms.generate.pacing.adaptive import (
    CUT,
    CUT_WHEN_TOLD,
    SLOWEST_PER_SECOND,
    AdaptiveRate,
)


def test_without_a_refusal_the_rate_is_the_ceiling():
    assert AdaptiveRate(10.0).at(5.0) == 10.0
    assert AdaptiveRate(math.inf).at(5.0) == math.inf


def test_a_refusal_halves_the_rate_and_it_climbs_back():
    rate = AdaptiveRate(10.0)
    rate.refused(now=100.0, sent_at=99.0, sending=9.9, retry_after=None)
    assert rate.at(100.0) == pytest.approx(9.9 * CUT)
    climb = [rate.at(100.0 + second) for second in range(30)]
    assert climb == sorted(climb)
    assert rate.at(108.0) == pytest.approx(9.9, rel=0.05)
    assert rate.at(130.0) == 10.0


def test_a_refusal_that_says_when_cuts_less_and_the_climb_starts_then():
    rate = AdaptiveRate(math.inf)
    rate.refused(now=100.0, sent_at=99.0, sending=10.0, retry_after=20.0)
    assert rate.at(100.0) == rate.at(120.0) == pytest.approx(10.0 * CUT_WHEN_TOLD)
    assert rate.at(125.0) > rate.at(120.0)


def test_a_crowd_of_refusals_cuts_once():
    rate = AdaptiveRate(10.0)
    for number in range(200):
        rate.refused(now=100.0 + number / 100, sent_at=99.0 + number / 250, sending=10.0, retry_after=None)
    assert rate.at(100.0) == pytest.approx(5.0)


def test_a_refusal_of_a_call_that_left_after_the_cut_cuts_again():
    rate = AdaptiveRate(10.0)
    rate.refused(now=100.0, sent_at=99.0, sending=10.0, retry_after=None)
    rate.refused(now=101.0, sent_at=100.5, sending=10.0, retry_after=None)
    assert rate.at(101.0) < 5.0


def test_without_a_limit_what_is_cut_is_the_rate_at_which_calls_left():
    rate = AdaptiveRate(math.inf)
    rate.refused(now=100.0, sent_at=99.0, sending=40.0, retry_after=None)
    assert rate.at(100.0) == pytest.approx(20.0)


def test_a_raised_limit_is_found_within_half_a_minute():
    rate = AdaptiveRate(10.0)
    for now in (100.0, 103.0):  # down to less than half
        rate.refused(now=now, sent_at=now - 0.1, sending=rate.at(now), retry_after=None)
    assert rate.at(103.0) < 4.5
    assert rate.at(133.0) == 10.0


refusals = st.lists(
    st.tuples(
        st.floats(0, 30),
        st.floats(0, 60),
        st.floats(0.001, 1_000),
        st.none() | st.floats(0, 120),
    ),
    max_size=15,
)


@example(ceiling=1 / 59, history=[(0.0, 1.0, 1.0, None)], later=0.0)
@given(ceiling=st.floats(0.001, 1_000), history=refusals, later=st.floats(0, 10_000))
def test_the_rate_never_passes_its_ceiling_nor_stops_for_good(ceiling, history, later):
    rate = AdaptiveRate(ceiling)
    now = 1_000.0
    for gap, age, sending, retry_after in history:
        now += gap
        rate.refused(now, now - age, sending, retry_after)
        assert min(ceiling, SLOWEST_PER_SECOND) <= rate.at(now) <= ceiling
    now += later
    assert min(ceiling, SLOWEST_PER_SECOND) <= rate.at(now) <= ceiling
    assert rate.at(now + 100_000) == ceiling


@given(
    ceiling=st.floats(0.1, 1_000), retry_after=st.none() | st.floats(0, 60), steps=st.lists(st.floats(0, 10))
)
def test_it_only_climbs_after_a_cut(ceiling, retry_after, steps):
    rate = AdaptiveRate(ceiling)
    rate.refused(0.0, -1.0, ceiling, retry_after)
    now, before = 0.0, rate.at(0.0)
    for step in steps:
        now += step
        assert rate.at(now) >= before
        before = rate.at(now)
