"""Time spans for people."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """A time span: 3.2 s, 4 min 10 s, 5 h 2 min, 3 d 4 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    for large, small, unit, below in ((60, 1, "min", "s"), (3_600, 60, "h", "min")):
        if seconds < large * (60 if unit == "min" else 48):
            whole, rest = divmod(math.floor(seconds), large)
            return f"{whole} {unit} {rest // small} {below}"
    whole, rest = divmod(math.floor(seconds), 86_400)
    return f"{whole} d {rest // 3_600} h"


def coarse_duration(seconds: float) -> str:
    """A time span for a line that is rewritten, so always of two digits: 57 s, 1 min 02 s, 1 h 00 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
