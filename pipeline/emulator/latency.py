"""How long an accepted call takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

_Z99 = 2.3263478740408408  # the standard normal's 99th percentile


@dataclass(frozen=True, slots=True)
class Latency:
    """A latency in seconds: always `median`, or log-normal when a 99th percentile is given.

    Attributes:
        median: Seconds; half of all calls take longer.
        p99: Seconds; one call in a hundred takes longer. None for a constant latency.
    """

    median: float
    p99: float | None = None

    def draw(self, random: Random) -> float:
        """One call's latency in seconds."""
        if self.p99 is None:
            return self.median
        return random.lognormvariate(math.log(self.median), math.log(self.p99 / self.median) / _Z99)


def parse_latency(text: str) -> Latency:
    """Read `SECONDS` or `lognormal:MEDIAN,P99`.

    Raises:
        ValueError: One sentence that says what is wrong and what is accepted.
    """
    kind, colon, rest = text.partition(":")
    try:
        if colon:
            median, p99 = (float(number) for number in rest.split(","))
            good = kind == "lognormal" and 0 < median <= p99 < math.inf
            latency = Latency(median, p99)
        else:
            latency = Latency(float(text))
            good = 0 <= latency.median < math.inf
    except ValueError:
        good = False
    if not good:
        raise ValueError(
            f"--latency={text} is not a latency: give seconds (0.2), or lognormal:MEDIAN,P99 in seconds "
            "with a median above 0 and a P99 no smaller (lognormal:0.5,3)."
        )
    return latency
