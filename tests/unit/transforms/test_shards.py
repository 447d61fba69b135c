import math
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from groundrows.transforms.shards import LEAST_CALLS_A_MINUTE, KeyByShard, shard_of, shards_needed
from tests.support.engines import make_question


@pytest.mark.parametrize(
    ("per_minute", "latency", "in_flight", "shards"),
    [
        (60.0, 3.0, 64, 1),
        (600.0, 3.0, 64, 1),
        (6_000.0, 3.0, 64, 5),  # 300 calls in flight
        (3_840.0, 1.0, 64, 1),  # 64 exactly
        (3_900.0, 1.0, 64, 2),
        (60_000.0, 10.0, 64, 157),
        (60.0, 600.0, 4, 30),  # never fewer than two calls a minute each
        (1.0, 3_600.0, 1, 1),
        (0.1, 1.0, 64, 1),
    ],
)
def test_the_number_of_shards_is_littles_law(per_minute, latency, in_flight, shards):
    assert shards_needed(per_minute, latency, in_flight) == shards


def test_without_a_limit_there_are_some():
    assert shards_needed(None, 3.0, 64) > 1


@given(per_minute=st.floats(0.01, 1e6), latency=st.floats(0.001, 1_000), in_flight=st.integers(1, 1_000))
def test_shards_are_enough_and_each_has_a_share_to_live_on(per_minute, latency, in_flight):
    shards = shards_needed(per_minute, latency, in_flight)
    assert shards >= 1
    if shards > 1:
        assert per_minute / shards >= LEAST_CALLS_A_MINUTE
    most = max(1, int(per_minute // LEAST_CALLS_A_MINUTE))
    assert shards == most or shards * in_flight >= per_minute / 60 * latency
    assert shards == 1 or (shards - 1) * in_flight < per_minute / 60 * latency


def test_a_questions_shard_is_always_the_same():
    # Kept state belongs to a shard: another hash would be another run.
    assert [shard_of(question_id, 7) for question_id in ("", "a", "q1", "ü", "漢字")] == [1, 4, 4, 2, 0]


@given(question_id=st.text(), shards=st.integers(1, 1_000))
def test_shards_are_numbered_from_zero(question_id, shards):
    assert 0 <= shard_of(question_id, shards) < shards


def test_questions_are_spread_evenly():
    counts = Counter(shard_of(f"question {number}", 8) for number in range(8_000))
    assert len(counts) == 8
    assert max(abs(count - 1_000) for count in counts.values()) < 6 * math.sqrt(1_000)


def test_the_transform_keys_by_the_questions_id():
    asked = [make_question(f"q{number}") for number in range(20)]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        keyed = pipeline | beam.Create(asked) | KeyByShard(4)
        assert_that(keyed, equal_to([(shard_of(question.question_id, 4), question) for question in asked]))
