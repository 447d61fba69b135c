"""Quantiles of a run's answers."""

from __future__ import annotations

import bisect
import json
import math
import pickle
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.pipeline.run.quantiles import MEASURES, RANKS, Sketches, WriteQuantiles, read_quantiles
from groundrows.pipeline.storage.output import Output
from groundrows.transforms.rows.flatten import Rows
from tests.support.made import answer


def sketches(values: Sequence[float]) -> Sketches:
    made = Sketches()
    for value in values:
        made.add(answer(latency_ms=value, grounding_score=None, support_coverage=None))
    return made


def furthest_off(found: dict[str, float], values: Sequence[float]) -> float:
    """The largest distance of a quantile's rank among the values from the rank it stands for."""
    ordered = sorted(values)
    worst = 0.0
    for name, rank in RANKS.items():
        # Rounding to four places may put a quantile beside its value, and equal values share their ranks.
        low = bisect.bisect_left(ordered, found[name] - 1e-4) / len(ordered)
        high = bisect.bisect_right(ordered, found[name] + 1e-4) / len(ordered)
        worst = max(worst, low - rank, rank - high)
    return worst


def test_of_few_answers_they_are_exact() -> None:
    found = sketches(range(101)).quantiles()["latency_ms"]
    assert found == {
        "min": 0,
        "p05": 5,
        "p25": 25,
        "p50": 50,
        "p75": 75,
        "p95": 95,
        "p99": 99,
        "max": 100,
    }


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.lists(st.floats(0, 1e6), max_size=60) | st.builds(lambda n: [float(n)] * 500, st.integers(0, 9)),
        min_size=1,
        max_size=8,
    ).filter(any),
    st.integers(0, 2**32),
)
def test_merged_they_are_right_to_two_percent_of_rank(parts: list[list[float]], seed: int) -> None:
    chance = random.Random(seed)
    # Bundles of any size, one of them large, merged in any order and by way of other workers.
    bundles = [*parts, [chance.lognormvariate(5, 2) for _ in range(chance.choice([0, 10, 1500]))]]
    chance.shuffle(bundles)
    merged = Sketches()
    for bundle in bundles:
        merged.merge(pickle.loads(pickle.dumps(sketches(bundle))))
    values = [value for bundle in bundles for value in bundle]
    found = merged.quantiles()["latency_ms"]
    assert furthest_off(found, values) <= 0.02
    assert found["min"] == pytest.approx(min(values), abs=1e-4)
    assert found["max"] == pytest.approx(max(values), abs=1e-4)
    assert list(found.values()) == sorted(found.values())


def test_a_pickled_sketch_goes_on_counting() -> None:
    first = pickle.loads(pickle.dumps(sketches([1.0, 2.0])))
    first.add(answer(latency_ms=3.0))
    first.merge(sketches([4.0]))
    found = first.quantiles()
    assert (found["latency_ms"]["min"], found["latency_ms"]["max"]) == (1, 4)
    assert found["grounding_score"]["p50"] == 0.5
    assert pickle.loads(pickle.dumps(Sketches())).quantiles() == {}


def test_merging_leaves_the_other_as_it_was() -> None:
    other = sketches([5.0])
    sketches([1.0]).merge(other)
    assert other.quantiles()["latency_ms"]["min"] == 5


def test_a_measure_that_was_never_seen_is_left_out() -> None:
    made = Sketches()
    assert made.quantiles() == {}
    made.add(answer(grounding_score=None, support_coverage=0.0))
    assert set(made.quantiles()) == {"latency_ms", "support_coverage"}


def test_the_latency_of_an_earlier_runs_call_does_not_count() -> None:
    made = sketches([100.0])
    made.add(answer(latency_ms=9_999.0, from_ledger=True, grounding_score=0.9))
    assert made.quantiles()["latency_ms"]["max"] == 100
    assert made.quantiles()["grounding_score"]["max"] == 0.9


def test_a_call_with_several_candidates_is_one_call() -> None:
    made = sketches([1.0, 2.0])
    for index in range(100):
        made.add(answer(latency_ms=50.0, candidate_index=index, grounding_score=index / 100))
    found = made.quantiles()
    assert found["latency_ms"]["p50"] == 2
    assert found["grounding_score"]["max"] == 0.99


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_does_not_get_into_the_summary(odd: float) -> None:
    made = sketches([1.0, odd])
    made.add(answer(grounding_score=odd, support_coverage=odd))
    text = json.dumps(made.quantiles(), allow_nan=False)
    assert set(json.loads(text)) == {"latency_ms"}


@pytest.fixture
def where(tmp_path: Path) -> Output:
    return Output(str(tmp_path / "out[1]"), "run", (), datetime.now(UTC))


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_through_a_pipeline(where: Output, count: int) -> None:
    values = [random.Random(count).lognormvariate(5, 1) for _ in range(count)]
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    groups = [Rows((answer(latency_ms=value),), (), (), (), answered=True) for value in values]
    made = pipeline | beam.Create(groups, reshuffle=False)
    _ = made | WriteQuantiles(where)
    pipeline.run().wait_until_finish()
    found = read_quantiles(where)
    if not count:
        assert found == {}
        return
    assert set(found) == set(MEASURES)
    assert list(found["latency_ms"]) == ["min", *RANKS, "max"]
    assert furthest_off(found["latency_ms"], values) <= 0.02
    assert set(found["grounding_score"].values()) == {0.5}


def test_where_no_question_was_answered_there_are_none(where: Output) -> None:
    assert read_quantiles(where) == {}
