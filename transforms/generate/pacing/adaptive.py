"""The rate that the service allows right now, learnt from the share of calls that it refuses.

A service refuses calls for two reasons, and they need opposite answers. A limit that we passed refuses the
part of our calls that is above it: we must slow down to what was accepted. A shared or dynamic quota refuses
some share of the calls however slowly they come: to slow down would only lose time. That share is called the
noise. It is tolerated, and the refused calls are made again.

One refusal can't tell the two apart, but a cut of the rate can: below a limit nearly nothing is refused,
while noise refuses the same share as before. So:

1. Where no limit is known and more is refused than usual, the rate is halved for a few calls. This is a test.
2. If the calls of the test are refused as before, it is noise: the old rate comes back at once.
3. If not, it is a limit. The rate goes to what was accepted, and climbs from there until refusals stand out
   again. Then it is cut to what was accepted, and so on. Each of these cuts is a small test, too: when two of
   them in a row leave the share of refusals as it was, it is noise after all.

Between cuts the rate climbs along a cubic curve, as the window of TCP CUBIC does (RFC 9438): it is back at
the rate that was accepted within seconds, stays near it for a while, and then grows ever faster, in case the
limit was raised. The rate that was accepted is called the knee of that curve.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

# rate(t) = knee * (1 + CLIMB * (t - K)^3), with K such that rate(0) is the rate after the cut. The knee is
# reached again after 2 s, and three times the knee after 9.5 s.
CLIMB = 0.005
# A cut goes this far below the rate that was accepted, so that it shows whether it helped.
KEPT = 0.95
# One cut leaves at least this much of the rate, however few calls were accepted: the sample may be small.
# It is also what a test leaves.
DEEPEST_CUT = 0.5
SLOWEST_PER_SECOND = 1 / 30
# This share of refusals is never worth a cut: whoever uses a limit to its end is refused now and then.
TOLERATED = 0.02
# A larger share is not taken for noise: whoever is refused that often slows down in any case.
MOST_NOISE = 0.45
# A share stands out when it is so many standard deviations above another one, and not by fewer refusals.
DEVIATIONS, FEWEST_REFUSALS = 2.0, 2
LIMIT_DEVIATIONS = 2.5
# A calm rate takes more to be disturbed.
CALM_DEVIATIONS, CALM_REFUSALS = 3.0, 3
# So many calls are enough to say what a cut did; a window that had fewer is enough once it is over.
SURE_CALLS, FEWEST_CALLS = 12.0, 8.0
# Where a larger share is refused, the service is not there.
NEARLY_ALL = 0.9
# A test is over after so many calls.
TEST_CALLS = 24.0
# The slow window after a cut, by which the cut is judged, lasts until the rate is this much above the knee.
WINDOW, TEST_WINDOW = 0.02, 0.3
# Below this rate the climb is slower, down to a quarter, so that the window has enough calls.
SLOW_PER_SECOND, SLOWEST_CLIMB = 3.3, 0.25
# The counts forget: after so many seconds, or so many calls if those take longer, a call counts by 1/e.
MEMORY_SECONDS, MEMORY_CALLS = 5.0, 16.0
# The calls that say how far the limit is passed right now: the older ones may be from before it changed.
RECENT_CALLS = 12.0
# How many calls the noise is remembered by, and how many it takes to believe in any.
NOISE_CALLS, NOISE_PRIOR = 48.0, 4.0
# What the share before a cut weighs in the noise, in calls: a cut is made when that share is high by chance.
BEFORE_CALLS = 6.0
# Noise is believed for so long, or for so many calls, and found anew then: it may have been a limit.
BELIEVED_SECONDS, BELIEVED_CALLS = 60.0, 600.0
# For so long, or so many calls, the rate before the first cut of a row is remembered, for when all of them
# were for nothing.
ROW_SECONDS, ROW_CALLS = 30.0, 100.0
# Nobody waits for a service that accepts most calls, and nobody waits longer than a quota's minute.
PAUSE_SHARE = 0.7
LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Calls that left, and those of them that were refused: numbers that forget, hence no whole ones.

    A call counts from when it leaves and not from when it ends. A refusal comes back faster than an answer,
    so that among the calls that have ended there are too many refusals.
    """

    sent: float = 0.0
    refused: float = 0.0

    @property
    def share(self) -> float:
        """The share that was refused."""
        return self.refused / max(1.0, self.sent, self.refused)

    def plus(self, sent: float, refused: float) -> Counts:
        """With so many more."""
        return Counts(self.sent + sent, self.refused + refused)

    def times(self, kept: float) -> Counts:
        """A part of both."""
        return Counts(self.sent * kept, self.refused * kept)

    def at_most(self, calls: float) -> Counts:
        """The same share of no more than so many calls."""
        return self.times(calls / self.sent) if self.sent > calls else self

    def known(self, on_the_way: float) -> Counts:
        """Without the calls whose refusals are still on the way."""
        return Counts(max(self.refused, self.sent - on_the_way), self.refused)

    def stand_out(
        self, share: float, deviations: float = DEVIATIONS, fewest: float = FEWEST_REFUSALS
    ) -> bool:
        """Whether more was refused than chance explains where `share` of the calls is refused."""
        chance = deviations * math.sqrt(share * (1 - share) / max(1.0, self.sent, self.refused))
        # The first ones are partly forgotten by the time that the last one comes.
        return self.refused >= 0.7 * fewest and self.share > share + chance


class Finding(enum.IntEnum):
    """What is known about the refusals."""

    OPEN = 0
    """No limit is known; there may be noise."""
    TEST = 1
    """The rate was halved to find out."""
    LIMIT = 2
    """There is a limit: the knee."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """What is known of the service's limit. Rates are in calls a second, times in seconds on one clock.

    Attributes:
        knee: The rate that was accepted when the limit was last met; infinite when none is known.
        kept: The share of the knee that the last cut left.
        cut_at: When the rate was last changed by a judgement. Only calls that left later say what it did.
        climbs_at: From when on the rate climbs: the time of the cut, or the end of the pause that was asked.
        finding: What is known about the refusals.
        before: The rate before the last cut.
        share: The share of refusals that led to the last cut.
        share_calls: Of how many calls that share is known for sure; 0 when it may be high by chance.
        top: The rate before the first cut of a row.
        top_at: When that cut was made.
        noise: Calls that left below the knee, and those of them that were refused all the same.
        noise_at: When the noise was found.
    """

    knee: float = math.inf
    kept: float = 1.0
    cut_at: float = -math.inf
    climbs_at: float = -math.inf
    finding: Finding = Finding.OPEN
    before: float = math.inf
    share: float = 0.0
    share_calls: float = 0.0
    top: float = math.inf
    top_at: float = -math.inf
    noise: Counts = Counts()
    noise_at: float = -math.inf

    @property
    def climb(self) -> float:
        """How fast the rate climbs: 1, or less at a slow rate."""
        return min(1.0, max(SLOWEST_CLIMB, self.knee / SLOW_PER_SECOND))

    @property
    def window(self) -> float:
        """For how many seconds of climbing the rate stays about at or below the knee; 0 without a cut."""
        if self.before == math.inf:
            return 0.0
        above = TEST_WINDOW if self.finding is Finding.TEST else WINDOW
        return (_seconds(1 - self.kept) + _seconds(above)) / self.climb

    def is_low(self, moment: float) -> bool:
        """Whether a moment since the last cut lies in the slow window after it."""
        return moment < self.climbs_at + self.window

    def rate(self, now: float, ceiling: float) -> float:
        """The rate at `now`, never above the ceiling; infinite when there is neither a ceiling nor a knee."""
        if self.knee == math.inf:
            return ceiling
        climbed = max(0.0, now - self.climbs_at) * self.climb
        grown = self.knee * (1 + CLIMB * (climbed - _seconds(1 - self.kept)) ** 3)
        return min(ceiling, max(grown, SLOWEST_PER_SECOND))

    def noise_share(self, now: float) -> float:
        """The share of calls that is refused at any rate, from 0 to 1."""
        believed = max(BELIEVED_SECONDS, BELIEVED_CALLS / self.knee)
        if self.finding is not Finding.LIMIT and now > self.noise_at + believed:
            return 0.0
        return min(MOST_NOISE, self.noise.refused / (self.noise.sent + NOISE_PRIOR))

    def limit_share(self, usual: float) -> float:
        """The share that a limit would refuse right after the last cut, if a limit led to it."""
        if self.before == math.inf:
            return usual
        return max(usual, 1 - (1 - self.share) * self.before / self.knee)


def _seconds(above: float) -> float:
    """How long the curve takes from the knee to a rate that is above it by this share."""
    return math.cbrt(above / CLIMB)


@dataclass(frozen=True, slots=True)
class Evidence:
    """How the calls fared that left since the last cut.

    Attributes:
        counts: All of them; they forget.
        low: Those that left in the slow window after the cut.
        recent: The last dozen, whenever they left.
    """

    counts: Counts = Counts()
    low: Counts = Counts()
    recent: Counts = Counts()

    def faded(self, seconds: float, rate: float) -> Evidence:
        """The evidence after so many seconds at that rate."""
        memory = max(MEMORY_SECONDS, MEMORY_CALLS / rate)
        return replace(self, counts=self.counts.times(math.exp(-max(0.0, seconds) / memory)))

    def with_sent(self, *, low: bool) -> Evidence:
        """With one more call that leaves."""
        return replace(
            self,
            counts=self.counts.plus(1, 0),
            low=self.low.plus(1, 0) if low else self.low,
            recent=self.recent.times(1 - 1 / RECENT_CALLS).plus(1, 0),
        )

    def with_refused(self, *, low: bool) -> Evidence:
        """With one more refusal of a call that has left."""
        return replace(
            self,
            counts=self.counts.plus(0, 1),
            low=self.low.plus(0, 1) if low else self.low,
            recent=self.recent.plus(0, 1),
        )


def judged(
    learnt: Learnt, evidence: Evidence, now: float, rate: float, sending: float, latency: float
) -> Learnt | None:
    """What the calls since the last cut teach; None when they teach nothing yet.

    Args:
        learnt: What was known before.
        evidence: How calls fared since the last cut.
        now: The time.
        rate: The rate that was allowed; infinite when it had no limit.
        sending: The rate at which calls were really leaving, which is what is cut when it is lower.
        latency: How many seconds a refusal takes to come back.
    """
    usual = min(1.0, learnt.noise_share(now) + TOLERATED)
    is_low = learnt.is_low(now)
    low = evidence.low.known(rate * latency)
    rate = min(rate, sending)
    if learnt.before < math.inf and evidence.counts.known(rate * latency).share > NEARLY_ALL:
        # There is no lower limit to be found by cutting: that is the breaker's case.
        return None if is_low else replace(learnt, cut_at=now, climbs_at=now)
    if learnt.finding is Finding.TEST:
        return _tested(learnt, low, now, rate, usual)
    # In vain: the last cut left refusals that stand out. If they do not, they are the noise that is left.
    in_vain = low.sent >= (SURE_CALLS if is_low else FEWEST_CALLS) and low.stand_out(usual)
    noise = learnt.noise if in_vain or is_low else learnt.noise.plus(low.sent, low.refused)
    learnt = replace(learnt, noise=noise.at_most(NOISE_CALLS))
    usual = min(1.0, learnt.noise_share(now) + TOLERATED)
    if not _disturbed(learnt, evidence, usual) or (is_low and low.sent < SURE_CALLS):
        return None
    limit_share = learnt.limit_share(usual)
    if in_vain and learnt.share_calls >= FEWEST_CALLS and low.stand_out(limit_share):
        found = _noise(learnt, low, now)
        if found is not None:
            return found
    share = low.share if is_low else _share_now(evidence)
    is_limit = learnt.finding is Finding.LIMIT
    if is_limit or evidence.counts.stand_out(MOST_NOISE, 1, CALM_REFUSALS):
        left = min(1.0, max(DEEPEST_CUT, (1 - share) / (1 - learnt.noise_share(now))))
        cut = _cut(learnt, now, rate, left, Finding.LIMIT)
        known = learnt.noise if is_limit else Counts()
        return replace(cut, share=share, share_calls=low.sent if in_vain else 0.0, noise=known)
    known = learnt.noise if usual > TOLERATED else Counts()
    test = _cut(learnt, now, rate, DEEPEST_CUT, Finding.TEST)
    return replace(test, share=share, share_calls=0.0, noise=known)


def _disturbed(learnt: Learnt, evidence: Evidence, usual: float) -> bool:
    """Whether more is refused than usual."""
    if learnt.finding is Finding.LIMIT:
        return evidence.counts.stand_out(usual, LIMIT_DEVIATIONS)
    return any(
        counts.stand_out(usual, CALM_DEVIATIONS, CALM_REFUSALS)
        for counts in (evidence.counts, evidence.recent)
    )


def _share_now(evidence: Evidence) -> float:
    """The share that is refused right now; of the last dozen alone if it has changed."""
    changed = evidence.recent.stand_out(evidence.counts.share, 1.0)
    return evidence.recent.share if changed else evidence.counts.share


def _tested(learnt: Learnt, low: Counts, now: float, rate: float, usual: float) -> Learnt | None:
    """What a test found; None while it goes on."""
    is_over = low.sent >= TEST_CALLS or not learnt.is_low(now)
    if low.sent < SURE_CALLS and not is_over:
        return None
    if low.stand_out(learnt.limit_share(usual)):
        noise = _noise(learnt, low, now)
        if noise is not None:
            return noise
        is_over = True
    if not is_over:
        return None
    if low.stand_out(usual):
        # The limit is below the rate of the test, or it is noise after all: the next cut is a test of that.
        accepted = (1 - low.share) / (1 - learnt.noise_share(now))
        found = _cut(learnt, now, rate, max(DEEPEST_CUT, min(1.0, accepted)), Finding.LIMIT)
        return replace(found, share=low.share, share_calls=low.sent)
    accepted = (1 - learnt.share) / (1 - learnt.noise_share(now))
    return replace(
        learnt,
        knee=max(SLOWEST_PER_SECOND, rate, learnt.before * min(1.0, accepted)),
        cut_at=now,
        climbs_at=now,
        finding=Finding.LIMIT,
        noise=learnt.noise.plus(low.sent, low.refused).at_most(NOISE_CALLS),
    )


def _noise(learnt: Learnt, low: Counts, now: float) -> Learnt | None:
    """The rate before the row of cuts, as they were for nothing; None when too much is refused for that."""
    both = low.plus(BEFORE_CALLS, BEFORE_CALLS * learnt.share)
    # A share that grew as the rate was cut is a limit that falls.
    if both.share > MOST_NOISE or (low.share > MOST_NOISE and low.stand_out(learnt.share)):
        return None
    noise = both.times(NOISE_CALLS / both.sent)
    return Learnt(knee=learnt.top, cut_at=now, climbs_at=now, noise=noise, noise_at=now)


def _cut(learnt: Learnt, now: float, rate: float, left: float, finding: Finding) -> Learnt:
    """The rate cut to a part of it."""
    in_row = now < learnt.top_at + max(ROW_SECONDS, ROW_CALLS / max(SLOWEST_PER_SECOND, rate))
    return replace(
        learnt,
        knee=max(SLOWEST_PER_SECOND, rate * left),
        kept=KEPT,
        cut_at=now,
        climbs_at=now,
        finding=finding,
        before=rate,
        top=max(rate, learnt.top) if in_row else rate,
        top_at=learnt.top_at if in_row else now,
    )


def pause_of(learnt: Learnt, evidence: Evidence, now: float, retry_after: float | None) -> float:
    """For how many seconds everybody is to wait, because one refusal asks for it.

    The refused call itself waits in any case. The others do when nearly nothing is accepted.

    Args:
        learnt: What was known before.
        evidence: How calls fared since the last cut, this refusal included.
        now: The time.
        retry_after: Seconds the service asked to wait, or None.
    """
    if retry_after is None or evidence.recent.share - learnt.noise_share(now) < PAUSE_SHARE:
        return 0.0
    return min(retry_after, LONGEST_PAUSE_SECONDS)


class AdaptiveRate:
    """A rate in calls a second, never above its ceiling. Times are seconds on the caller's clock."""

    def __init__(self, ceiling: float) -> None:
        self._ceiling = ceiling
        self._learnt = Learnt()
        self._evidence = Evidence()
        self._counted_at = 0.0
        self._latency: float | None = None

    @property
    def cut_at(self) -> float:
        """When the rate was last changed by what refusals taught."""
        return self._learnt.cut_at

    def at(self, now: float) -> float:
        """The rate allowed at `now`; `math.inf` when there is neither a ceiling nor a refusal to obey."""
        return self._learnt.rate(now, self._ceiling)

    def sent(self, now: float) -> None:
        """A call leaves."""
        self._fade(now)
        self._evidence = self._evidence.with_sent(low=self._learnt.is_low(now))
        if self._learnt.finding is Finding.TEST and self._evidence.low.sent >= TEST_CALLS:
            # A test that is not refused at all would never be judged by a refusal.
            self._judge(now, math.inf)

    def refused(self, now: float, sent_at: float, sending: float, retry_after: float | None) -> float:
        """A call was refused: may change the rate, once for all calls that left since the last change.

        Args:
            now: The time of the refusal.
            sent_at: When the refused call left.
            sending: The rate at which calls were really leaving, for when there was no limit to cut.
            retry_after: Seconds the service asked to wait, or None.

        Returns:
            For how many seconds nothing should leave.
        """
        if sent_at <= self._learnt.cut_at:
            return 0.0
        self._fade(now)
        self._evidence = self._evidence.with_refused(low=self._learnt.is_low(sent_at))
        self._latency = smoothed(self._latency, now - sent_at)
        pause = pause_of(self._learnt, self._evidence, now, retry_after)
        self._judge(now, sending)
        if pause:
            self._learnt = replace(self._learnt, climbs_at=max(self._learnt.climbs_at, now + pause))
        return pause

    def _judge(self, now: float, sending: float) -> None:
        learnt = judged(self._learnt, self._evidence, now, self.at(now), sending, self._latency or 0.0)
        if learnt is not None:
            self._learnt = learnt
            self._evidence = Evidence(recent=self._evidence.recent)

    def _fade(self, now: float) -> None:
        self._evidence = self._evidence.faded(now - self._counted_at, self.at(now))
        self._counted_at = now


def smoothed(mean: float | None, value: float) -> float:
    """A mean that follows its values slowly."""
    return value if mean is None else mean + (value - mean) / 8
