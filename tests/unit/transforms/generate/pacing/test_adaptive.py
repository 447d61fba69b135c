import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundrows.transforms.generate.pacing.adaptive import (
    DEEPEST_CUT,
    KEPT,
    LONGEST_PAUSE_SECONDS,
    SLOWEST_PER_SECOND,
    AdaptiveRate,
)


class Sender:
    """Sends at the rate that is allowed, on a clock that moves as it sends."""

    def __init__(self, ceiling, now=100.0, most=1_000.0):
        self.rate = AdaptiveRate(ceiling)
        self.now = now
        self.most = most

    def send(self, count, *, every=None, retry_after=None):
        """Send so many calls; each `every`-th is refused at once, the others are answered at once."""
        pauses = []
        for number in range(1, count + 1):
            self.now += 1 / min(self.most, self.rate.at(self.now))
            self.rate.sent(self.now)
            if every and number % every == 0:
                sending = min(self.most, self.rate.at(self.now))
                pauses.append(self.rate.refused(self.now + 1e-6, self.now, sending, retry_after))
        return pauses


def test_without_a_refusal_the_rate_is_the_ceiling():
    assert AdaptiveRate(10.0).at(5.0) == 10.0
    assert AdaptiveRate(math.inf).at(5.0) == math.inf


def test_one_refusal_among_many_answers_changes_nothing():
    sender = Sender(10.0)
    sender.send(100)
    assert sender.rate.refused(sender.now, sender.now - 0.1, 10.0, None) == 0
    assert sender.rate.at(sender.now) == 10.0


def test_a_share_of_refusals_cuts_to_what_was_accepted_and_the_rate_climbs_back():
    sender = Sender(10.0)
    sender.send(100)
    while sender.rate.at(sender.now) == 10.0:
        sender.send(3, every=3)
    cut = sender.rate.at(sender.now)
    assert 10 * DEEPEST_CUT * KEPT <= cut <= 10 * KEPT
    climb = [sender.rate.at(sender.now + second) for second in range(30)]
    assert climb == sorted(climb)
    assert sender.rate.at(sender.now + 2.2) == pytest.approx(cut / KEPT, rel=0.01)
    assert sender.rate.at(sender.now + 10) == 10.0


def test_a_crowd_of_refusals_cuts_once():
    sender = Sender(10.0)
    sender.send(100)
    sent_at = sender.now
    for number in range(200):
        sender.rate.refused(sent_at + number / 100, sent_at - 1 + number / 250, 10.0, None)
    assert sender.rate.at(sent_at + 0.01) >= 10 * DEEPEST_CUT * KEPT


def test_refusals_with_nothing_answered_between_them_cut_once():
    # That there is a lower limit does not follow. It is for the breaker to find out when there is one.
    sender = Sender(10.0)
    sender.send(50)
    sender.send(3, every=1)
    first = sender.rate.at(sender.now)
    assert first < 10.0
    for _ in range(40):
        sender.now += 0.01
        sender.rate.sent(sender.now)
        sender.rate.refused(sender.now + 0.001, sender.now, 10.0, None)
    assert sender.rate.at(sender.now) >= first


def test_a_limit_that_is_still_passed_after_a_cut_cuts_again():
    sender = Sender(10.0)
    sender.send(60)
    sender.send(12, every=4)
    first = sender.rate.at(sender.now)
    assert first < 10.0
    sender.send(20, every=2)
    assert sender.rate.at(sender.now) < first * 0.8


def test_without_a_limit_what_is_cut_is_the_rate_at_which_calls_left():
    sender = Sender(math.inf, most=40.0)
    sender.send(200)
    while sender.rate.at(sender.now) == math.inf:
        sender.send(3, every=3)
    assert 40 * DEEPEST_CUT * KEPT <= sender.rate.at(sender.now) <= 40 * KEPT


@pytest.mark.parametrize("every", [3, 5, 10, 30])
def test_a_share_that_no_cut_changes_is_tolerated_from_then_on(every):
    sender = Sender(50.0)
    sender.send(2_000, every=every)
    since, count = sender.now, 5_000
    sender.send(count, every=every)
    assert count / (sender.now - since) >= 0.9 * 50


def test_a_raised_limit_is_found_within_ten_seconds():
    sender = Sender(30.0)
    while sender.rate.at(sender.now) > 10.0:
        sender.send(4, every=2)
    sender.rate.at(sender.now)
    assert sender.rate.at(sender.now + 10) >= 3 * sender.rate.at(sender.now) * 0.95


def test_a_refusal_that_says_when_holds_everybody_up_only_where_nearly_nothing_is_accepted():
    sender = Sender(10.0)
    assert sender.send(1, every=1, retry_after=3.0) == [3.0]  # nothing was ever answered
    sender = Sender(10.0)
    sender.send(300)
    assert sender.send(1, every=1, retry_after=3.0) == [0.0]
    pauses = sender.send(30, every=1, retry_after=3.0)
    assert pauses[-1] == 3.0
    assert pauses == sorted(pauses)


def test_no_pause_is_longer_than_a_minute():
    sender = Sender(10.0)
    assert sender.send(1, every=1, retry_after=1e9) == [LONGEST_PAUSE_SECONDS]


def test_a_pause_starts_the_climb_at_its_end():
    sender = Sender(30.0)
    sender.send(60)
    sender.send(40, every=1, retry_after=20.0)
    cut = sender.rate.at(sender.now)
    assert cut < 30.0
    assert sender.rate.at(sender.now + 15) == pytest.approx(cut)
    assert sender.rate.at(sender.now + 26) > cut


refusals = st.lists(
    st.tuples(
        st.floats(0, 30),
        st.floats(0, 60),
        st.floats(0.001, 1_000),
        st.none() | st.floats(0, 120),
        st.integers(0, 20),
    ),
    max_size=25,
)


@example(ceiling=1 / 59, history=[(0.0, 1.0, 1.0, None, 0)], later=0.0)
@given(ceiling=st.floats(0.001, 1_000), history=refusals, later=st.floats(0, 10_000))
def test_the_rate_never_passes_its_ceiling_nor_stops_for_good(ceiling, history, later):
    rate = AdaptiveRate(ceiling)
    now = 1_000.0
    for gap, age, sending, retry_after, sent in history:
        now += gap
        for _ in range(sent):
            rate.sent(now)
        pause = rate.refused(now, now - age, sending, retry_after)
        assert 0 <= pause <= LONGEST_PAUSE_SECONDS
        assert min(ceiling, SLOWEST_PER_SECOND) <= rate.at(now) <= ceiling
    now += later
    assert min(ceiling, SLOWEST_PER_SECOND) <= rate.at(now) <= ceiling
    assert rate.at(now + 100_000) == ceiling


@given(ceiling=st.floats(0.1, 1_000), steps=st.lists(st.floats(0, 10)))
def test_it_only_climbs_after_a_cut(ceiling, steps):
    sender = Sender(ceiling)
    sender.send(20, every=1)
    now, before = sender.now, sender.rate.at(sender.now)
    assert before < ceiling or before <= SLOWEST_PER_SECOND
    for step in steps:
        now += step
        assert sender.rate.at(now) >= before
        before = sender.rate.at(now)
