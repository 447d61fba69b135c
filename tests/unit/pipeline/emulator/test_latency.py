from __future__ import annotations

from random import Random

import pytest

from groundrows.pipeline.emulator.latency import Latency, parse_latency


@pytest.mark.parametrize(
    ("text", "latency"),
    [("0", Latency(0.0)), ("0.25", Latency(0.25)), ("lognormal:0.5,3", Latency(0.5, 3.0))],
)
def test_parses(text: str, latency: Latency) -> None:
    assert parse_latency(text) == latency


@pytest.mark.parametrize(
    "text",
    [
        *("", "-1", "nan", "inf", "fast", "normal:1,2", "lognormal:", "lognormal:1", "lognormal:0,1"),
        *("lognormal:2,1", "lognormal:1,inf", "lognormal:nan,1", "lognormal:1,2,3"),
    ],
)
def test_refuses_in_one_sentence(text: str) -> None:
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
