"""The rate that the service allows right now, learnt from its refusals.

After a refusal the rate is cut to half of what it was and climbs back along a cubic curve, as TCP CUBIC's
window does (RFC 9438): quickly to near the rate that was refused, slowly around it, and ever faster beyond
it, in case the limit was raised. A linear climb would either probe too often or follow a raised limit too
late. A refusal that says when to come back is a measurement rather than a guess, so it cuts less.
"""

from __future__ import annotations

import math

# rate(t) = knee * (1 + CLIMB * (t - K)^3), with K such that rate(0) is the cut rate. With these figures the
# knee is reached again after 8 s and three times the knee after 21 s.
CLIMB = 0.001
CUT = 0.5
CUT_WHEN_TOLD = 0.7
SLOWEST_PER_SECOND = 1 / 30


class AdaptiveRate:
    """A rate in calls a second, never above its ceiling. Times are seconds on the caller's clock."""

    def __init__(self, ceiling: float) -> None:
        self._ceiling = ceiling
        self._knee = math.inf
        self._kept = CUT
        self._since = -math.inf

    def at(self, now: float) -> float:
        """The rate allowed at `now`; `math.inf` when there is neither a ceiling nor a refusal to obey."""
        if self._knee == math.inf:
            return self._ceiling
        until_knee = math.cbrt((1 - self._kept) / CLIMB)
        grown = self._knee * (1 + CLIMB * (max(0.0, now - self._since) - until_knee) ** 3)
        if grown >= self._ceiling:
            self._knee = math.inf
            return self._ceiling
        return min(self._ceiling, max(grown, SLOWEST_PER_SECOND))

    def refused(self, now: float, sent_at: float, sending: float, retry_after: float | None) -> None:
        """Cut the rate, once for a crowd of refusals.

        Args:
            now: The time of the refusal.
            sent_at: When the refused call left; calls that left before the last cut say nothing about it.
            sending: The rate at which calls were really leaving, for when there was no limit to cut.
            retry_after: Seconds the service asked to wait, or None; the climb starts after them.
        """
        if sent_at <= self._since:
            return
        self._knee = max(SLOWEST_PER_SECOND, min(self.at(now), sending))
        self._kept = CUT if retry_after is None else CUT_WHEN_TOLD
        self._since = now + (retry_after or 0.0)
