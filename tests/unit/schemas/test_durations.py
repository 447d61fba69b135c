from __future__ import annotations

import pytest

from groundrows.schemas.durations import coarse_duration, duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min 0 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 0 min"),
        (47 * 3_600 + 61, "47 h 1 min"),
        (50 * 3_600, "2 d 2 h"),
    ],
)
def test_a_duration(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3599.6, "1 h 00 min"),
        (3661, "1 h 01 min"),
        (360_000, "100 h 00 min"),
    ],
)
def test_a_duration_on_a_line_that_is_rewritten(seconds: float, text: str) -> None:
    assert coarse_duration(seconds) == text
