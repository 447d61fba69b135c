"""The rate that the service allows right now, learnt from the share of calls that it refuses.

A service refuses calls for two reasons, and they need opposite answers. A limit that we passed refuses the
part of our calls that is above it: we must slow down to what was accepted. A shared or dynamic quota refuses
some share of the calls however slowly they come: to slow down would only lose time. One refusal can't tell
the two apart, but a cut can. After a cut to the rate that was accepted a limit refuses next to nothing. What
is refused all the same is not refused for our rate. That share is called the noise, and it is tolerated from
then on.

Between cuts the rate climbs along a cubic curve, as the window of TCP CUBIC does (RFC 9438): it is back at
the rate that was accepted within seconds, stays near it for a while, and then grows ever faster, in case the
limit was raised. The rate that was accepted is called the knee of that curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

# rate(t) = knee * (1 + CLIMB * (t - K)^3), with K such that rate(0) is the rate after the cut. The knee is
# reached again after 2 s, and three times the knee after 9.5 s.
CLIMB = 0.005
# A cut goes this far below the rate that was accepted, so that it shows whether it helped.
KEPT = 0.95
# One cut leaves at least this much of the rate, however few calls were accepted: the sample may be small.
DEEPEST_CUT = 0.5
SLOWEST_PER_SECOND = 1 / 30
# This share of refusals is never worth a cut: whoever uses a limit to its end is refused now and then.
TOLERATED = 0.02
# One refusal proves nothing, and a share must be above the tolerated one by so many standard deviations.
FEWEST_REFUSALS = 2
DEVIATIONS = 2.0
# Where a smaller share is accepted, the refusals are not taken for noise.
LEAST_ACCEPTED = 0.4
# The counts forget: after so many seconds, or so many calls if those take longer, a call counts by 1/e.
MEMORY_SECONDS = 5.0
MEMORY_CALLS = 16.0
# The calls that say how far the limit is passed right now: the older ones may be from before it changed.
RECENT_CALLS = 12.0
# A share that decides between a limit and noise is taken of at least so many calls.
SURE_CALLS = 12.0
# A cut has shown what it does once this many times a refusal's latency has passed.
LATENCIES = 2.5
# How many calls the noise is remembered by, and how many it takes to believe in any.
NOISE_CALLS = 48.0
NOISE_PRIOR = 4.0
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


@dataclass(frozen=True, slots=True)
class Learnt:
    """What is known of the service's limit. Rates are in calls a second, times in seconds on one clock.

    Attributes:
        knee: The rate that was accepted when the limit was last met; infinite when none is known.
        kept: The share of the knee that the last cut left.
        cut_at: When the last cut was made. Only calls that left later say whether it helped.
        climbs_at: From when on the rate climbs: the time of the cut, or the end of the pause that was asked.
        share: The share of refusals that led to the last cut.
        expected: The share that a limit would still refuse after that cut.
        sure: Whether `share` was that of enough calls, all of which left since the cut before.
        before: The rate before the last cut, or before a row of cuts each of which came below the last knee.
        noise: Calls that left below the knee, and those of them that were refused all the same.
    """

    knee: float = math.inf
    kept: float = 1.0
    cut_at: float = -math.inf
    climbs_at: float = -math.inf
    share: float = 0.0
    expected: float = 0.0
    sure: bool = False
    before: float = math.inf
    noise: Counts = Counts()

    @property
    def noise_share(self) -> float:
        """The share of calls that is refused at any rate, from 0 to 1."""
        return self.noise.refused / (self.noise.sent + NOISE_PRIOR)

    def is_below(self, moment: float) -> bool:
        """Whether the rate was, or will be, below the knee at a moment since the last cut."""
        return self.knee < math.inf and moment < self.climbs_at + math.cbrt((1 - self.kept) / CLIMB)

    def rate(self, now: float, ceiling: float) -> float:
        """The rate at `now`, never above the ceiling; infinite when there is neither a ceiling nor a knee."""
        if self.knee == math.inf:
            return ceiling
        until_knee = math.cbrt((1 - self.kept) / CLIMB)
        grown = self.knee * (1 + CLIMB * (max(0.0, now - self.climbs_at) - until_knee) ** 3)
        return min(ceiling, max(grown, SLOWEST_PER_SECOND))


@dataclass(frozen=True, slots=True)
class Evidence:
    """How the calls fared that left since the last cut.

    Attributes:
        counts: All of them.
        low: Those that left before the rate was back at the knee.
        recent: The last dozen, whenever they left.
        answered: Whether any of them was answered.
    """

    counts: Counts = Counts()
    low: Counts = Counts()
    recent: Counts = Counts()
    answered: bool = False

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
    """What a refusal teaches; None when it teaches nothing, since it may be chance, or is noise.

    Args:
        learnt: What was known before.
        evidence: How calls fared since the last cut, this refusal included.
        now: The time of the refusal.
        rate: The rate that was allowed; infinite when it had no limit.
        sending: The rate at which calls were really leaving, which is what is cut when it is lower.
        latency: How many seconds a refusal takes to come back.
    """
    counts, low = evidence.counts, evidence.low
    tolerated = min(1.0, learnt.noise_share + TOLERATED)
    chance = DEVIATIONS * math.sqrt(tolerated * (1 - tolerated) / max(1.0, counts.sent))
    # Half a refusal may be forgotten by the time that the second comes.
    if counts.refused < FEWEST_REFUSALS - 0.5 or counts.share <= tolerated + chance:
        return None
    below = learnt.is_below(now)
    if below:
        # Where nothing is answered there is no lower limit to be found: that is the breaker's case.
        if not evidence.answered or low.sent < SURE_CALLS or now < learnt.cut_at + LATENCIES * latency:
            return None
        share = low.share
        helped = share < (learnt.share + learnt.expected) / 2
        if learnt.sure and not helped and share <= 1 - LEAST_ACCEPTED:
            noise = Counts(NOISE_CALLS, share * (NOISE_CALLS + NOISE_PRIOR))
            return Learnt(knee=learnt.before, cut_at=now, climbs_at=now, noise=noise)
    else:
        share = max(counts.share, evidence.recent.share)
    left = max(DEEPEST_CUT, 1 - share)
    return Learnt(
        knee=max(SLOWEST_PER_SECOND, min(rate, sending) * left),
        kept=KEPT,
        cut_at=now,
        climbs_at=now,
        share=share,
        expected=max(0.0, 1 - (1 - share) / (left * KEPT)),
        sure=below,
        before=learnt.before if below else rate,
        # A cut that is followed by another below the knee was too small: what it left over is no noise.
        noise=learnt.noise if below else _remembered(learnt.noise.plus(low.sent, low.refused)),
    )


def _remembered(noise: Counts) -> Counts:
    return noise.times(NOISE_CALLS / noise.sent) if noise.sent > NOISE_CALLS else noise


def pause_of(learnt: Learnt, evidence: Evidence, retry_after: float | None) -> float:
    """For how many seconds everybody is to wait, because one refusal asks for it.

    The refused call itself waits in any case. The others do when nearly nothing is accepted.

    Args:
        learnt: What was known before.
        evidence: How calls fared since the last cut, this refusal included.
        retry_after: Seconds the service asked to wait, or None.
    """
    if retry_after is None or evidence.recent.share - learnt.noise_share < PAUSE_SHARE:
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

    def at(self, now: float) -> float:
        """The rate allowed at `now`; `math.inf` when there is neither a ceiling nor a refusal to obey."""
        return self._learnt.rate(now, self._ceiling)

    def sent(self, now: float) -> None:
        """A call leaves."""
        self._fade(now)
        self._evidence = self._evidence.with_sent(low=self._learnt.is_below(now))

    def answered(self, sent_at: float) -> None:
        """A call that left at `sent_at` was answered."""
        if not self._evidence.answered and sent_at > self._learnt.cut_at:
            self._evidence = replace(self._evidence, answered=True)

    def refused(self, now: float, sent_at: float, sending: float, retry_after: float | None) -> float:
        """A call was refused: may cut the rate, once for all calls that left since the last cut.

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
        self._evidence = self._evidence.with_refused(low=self._learnt.is_below(sent_at))
        self._latency = smoothed(self._latency, now - sent_at)
        pause = pause_of(self._learnt, self._evidence, retry_after)
        learnt = judged(self._learnt, self._evidence, now, self.at(now), sending, self._latency)
        if learnt is not None:
            self._learnt = learnt
            self._evidence = replace(self._evidence, counts=Counts(), low=Counts(), answered=False)
        if pause:
            self._learnt = replace(self._learnt, climbs_at=max(self._learnt.climbs_at, now + pause))
        return pause

    def _fade(self, now: float) -> None:
        self._evidence = self._evidence.faded(now - self._counted_at, self.at(now))
        self._counted_at = now


def smoothed(mean: float | None, value: float) -> float:
    """A mean that follows its values slowly."""
    return value if mean is None else mean + (value - mean) / 8
