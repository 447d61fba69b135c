from __future__ import annotations

import math
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.emulator.pace import Latency, MinuteLimit, parse_latency, read_limits_file

# Eighths of a second are exact in binary, so the window's edge can be asked about exactly.
arrivals = st.lists(st.integers(0, 8 * 70), max_size=80).map(lambda gaps: [t / 8 for t in accumulate(gaps)])


@given(arrivals, st.integers(1, 6))
def test_never_more_than_the_limit_in_any_sixty_seconds_and_never_fewer_than_possible(
    times: list[float], per_minute: int
) -> None:
    limit = MinuteLimit(per_minute)
    accepted: list[float] = []
    for now in times:
        within = [t for t in accepted if now - t < 60]
        retry = limit.admit(now)
        assert (retry is None) == (len(within) < per_minute)
        if retry is None:
            accepted.append(now)
    for start in accepted:
        assert sum(start <= t < start + 60 for t in accepted) <= per_minute


@given(arrivals.filter(bool), st.integers(1, 4), st.integers(1, 4))
def test_the_advised_wait_is_right_also_after_the_limit_was_lowered(
    times: list[float], before: int, after: int
) -> None:
    limit = MinuteLimit(before)
    for now in times:
        limit.admit(now)
    limit.per_minute = after
    retry = limit.admit(times[-1])
    if retry is not None:
        assert 0 < retry <= 60
        assert limit.admit(times[-1] + retry - 0.002) is not None
        assert limit.admit(times[-1] + retry) is None


@given(arrivals, st.lists(st.integers(1, 9), min_size=80, max_size=80), st.integers(1, 12))
def test_a_limit_in_units_is_kept_as_exactly(times: list[float], units: list[int], per_minute: int) -> None:
    limit = MinuteLimit(per_minute)
    accepted: list[tuple[float, int]] = []
    for now, wanted in zip(times, units, strict=False):
        within = sum(taken for moment, taken in accepted if now - moment < 60)
        retry = limit.admit(now, wanted)
        assert (retry is None) == (within + wanted <= per_minute)
        if retry is None:
            accepted.append((now, wanted))
        elif retry == math.inf:
            assert wanted > per_minute
        else:
            later = now + retry
            assert sum(taken for moment, taken in accepted if later - moment < 60) + wanted <= per_minute
            earlier = later - 0.002
            assert sum(taken for moment, taken in accepted if earlier - moment < 60) + wanted > per_minute


def test_no_limit_accepts_and_zero_refuses_for_good() -> None:
    limit = MinuteLimit(None)
    assert [limit.admit(0.0) for _ in range(1000)] == [None] * 1000
    limit.per_minute = 0
    assert limit.admit(1e9) == math.inf


def test_a_limit_set_later_knows_the_minute_before_it() -> None:
    limit = MinuteLimit(None)
    for _ in range(5):
        limit.admit(100.0)
    limit.per_minute = 5
    assert limit.admit(130.0) == 30.0
    assert limit.admit(160.0) is None


@pytest.mark.parametrize(("text", "limit"), [("60", 60), ("0", 0), ("null", None)])
def test_reads_a_limits_file(tmp_path: Path, text: str, limit: int | None) -> None:
    file = tmp_path / "limits.json"
    file.write_text(f'{{"requests_per_minute": {text}}}')
    assert read_limits_file(file) == limit


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "7", "[" * 100_000, '{"requests_per_minute": -1}', '{"requests_per_minute": 1.5}'),
        *('{"requests_per_minute": true}', '{"requests_per_minute": "60"}'),
    ],
)
def test_a_wrong_limits_file_is_named_in_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "limits.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="requests_per_minute") as raised:
        read_limits_file(file)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_limits_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_limits_file(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "latency"),
    [("0", Latency(0.0)), ("0.25", Latency(0.25)), ("lognormal:0.5,3", Latency(0.5, 3.0))],
)
def test_a_latency_is_read(text: str, latency: Latency) -> None:
    assert parse_latency(text) == latency


@pytest.mark.parametrize(
    "text",
    [
        *("", "-1", "nan", "inf", "fast", "normal:1,2", "lognormal:", "lognormal:1", "lognormal:0,1"),
        *("lognormal:2,1", "lognormal:1,inf", "lognormal:nan,1", "lognormal:1,2,3"),
    ],
)
def test_what_is_no_latency_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="--latency=") as raised:
        parse_latency(text)
    assert "\n" not in str(raised.value)


def test_a_constant_latency_is_constant() -> None:
    assert {Latency(0.2).draw(Random(seed)) for seed in range(10)} == {0.2}


def test_a_lognormal_latency_has_its_median_and_percentile() -> None:
    random = Random(7)
    draws = sorted(Latency(0.5, 4.0).draw(random) for _ in range(20_000))
    assert draws[10_000] == pytest.approx(0.5, rel=0.05)
    assert draws[19_800] == pytest.approx(4.0, rel=0.15)


def test_the_seed_decides() -> None:
    def draws(seed: int) -> list[float]:
        random = Random(seed)
        return [Latency(1.0, 2.0).draw(random) for _ in range(5)]

    assert draws(1) == draws(1) != draws(2)


def test_median_and_percentile_may_be_equal() -> None:
    assert Latency(1.0, 1.0).draw(Random(0)) == 1.0
