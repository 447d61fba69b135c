"""The pace of the emulated service: how long an accepted call takes, and how many it accepts in a minute."""

from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

WINDOW_SECONDS = 60.0

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

    @property
    def mean(self) -> float:
        """What a call takes on average, in seconds."""
        if self.p99 is None:
            return self.median
        return self.median * math.exp((math.log(self.p99 / self.median) / _Z99) ** 2 / 2)

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


class MinuteLimit:
    """An exact sliding limit: never more than `per_minute` accepted units in any 60 s of arrival times.

    A call takes one unit, or so many as it says. `per_minute` may be changed at any time and holds for the
    next call: None is no limit, 0 refuses all.
    """

    def __init__(self, per_minute: int | None) -> None:
        self.per_minute = per_minute
        self._accepted: deque[tuple[float, int]] = deque()
        self._taken = 0

    def admit(self, now: float, units: int = 1) -> float | None:
        """Decide on a call that arrives at `now`, in seconds of a clock that never goes back.

        Returns:
            None when the call is accepted. Otherwise the seconds until there is room for it, rounded up to
            the millisecond, or infinity when no waiting helps.
        """
        accepted = self._accepted
        while accepted and now - accepted[0][0] >= WINDOW_SECONDS:
            self._taken -= accepted.popleft()[1]
        limit = self.per_minute
        # Counted even while there is no limit, so that a limit set later knows the minute before it.
        if limit is None or self._taken + units <= limit:
            accepted.append((now, units))
            self._taken += units
            return None
        if units > limit:
            return math.inf
        # Several old calls may have to leave the window, not just the oldest.
        too_many = self._taken + units - limit
        freed = zip(accepted, accumulate(units for _, units in accepted), strict=True)
        leaving = next(moment for (moment, _), so_far in freed if so_far >= too_many)
        return math.ceil((leaving + WINDOW_SECONDS - now) * 1000) / 1000


def read_limits_file(path: Path) -> int | None:
    """The `requests_per_minute` of a limits file, a JSON object; null means no limit.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: One sentence that says what is wrong with it.
    """
    try:
        limit = json.loads(path.read_text(encoding="utf-8"))["requests_per_minute"]
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        limit = -1
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0):
        return limit
    raise ValueError(
        f'--limits_file={path} is no limits file: it must hold {{"requests_per_minute": N}} '
        "with N a whole number from 0 up, or null for no limit."
    )
