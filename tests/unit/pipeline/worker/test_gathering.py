"""Batches are bounded, keep every message and its order, and never wait for ever."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.options.run import parse_run
from groundrows.pipeline.worker.gathering import LEAST_MESSAGES, MOST_MESSAGES, Gathering, Limits, limits_for
from groundrows.pipeline.worker.hand import Held
from groundrows.schemas.record import Record

OPTIONS = parse_run(
    ["--service=emulator", "--input_subscription=projects/p1/subscriptions/sub", "--output=out"]
)


def held(number: int, size: int = 10, since: float = 0.0) -> Held:
    return Held(Record(b"", f"sub:{number}"), size, since, {str(number)}, [f"ack{number}"])


def origins(batch: list[Held]) -> list[str]:
    return [message.record.origin for message in batch]


def test_nothing_is_due_when_nothing_waits():
    gathering = Gathering(Limits())
    assert not gathering.is_due(1e9)
    assert gathering.take() == []


@pytest.mark.parametrize(
    ("limits", "sizes", "now"),
    [(Limits(messages=3), (1, 1, 1), 0.0), (Limits(bytes=30), (15, 15), 0.0), (Limits(seconds=5), (1,), 5.0)],
    ids=["messages", "bytes", "seconds"],
)
def test_each_limit_alone_makes_a_batch_due(limits, sizes, now):
    gathering = Gathering(limits)
    for number, size in enumerate(sizes):
        assert not gathering.is_due(now if number else 4.9)
        gathering.add(held(number, size))
    assert gathering.is_due(now)
    assert len(gathering.take()) == len(sizes)
    assert not gathering.is_due(now)


def test_the_oldest_message_sets_the_time():
    gathering = Gathering(Limits(seconds=5))
    gathering.add(held(1, since=10))
    gathering.add(held(2, since=14))
    assert not gathering.is_due(14.9)
    assert gathering.is_due(15)


def test_a_message_larger_than_a_batch_goes_alone():
    gathering = Gathering(Limits(bytes=100))
    for number, size in enumerate((40, 500, 40)):
        gathering.add(held(number, size))
    assert [origins(gathering.take()) for _ in range(3)] == [["sub:0"], ["sub:1"], ["sub:2"]]


@given(
    sizes=st.lists(st.integers(0, 60), max_size=40),
    messages=st.integers(1, 7),
    size=st.integers(1, 100),
)
def test_batches_hold_every_message_once_in_order_and_within_the_limits(sizes, messages, size):
    gathering = Gathering(Limits(messages=messages, bytes=size))
    for number, each in enumerate(sizes):
        gathering.add(held(number, each))
    batches = []
    while batch := gathering.take():
        batches.append(batch)
    assert [origin for batch in batches for origin in origins(batch)] == [
        f"sub:{n}" for n in range(len(sizes))
    ]
    for batch in batches:
        assert len(batch) <= messages
        assert len(batch) == 1 or sum(message.size for message in batch) <= size
    assert not gathering.is_due(1e9)


def test_what_is_given_back_is_no_longer_due():
    gathering = Gathering(Limits(messages=2))
    gathering.add(held(1))
    gathering.add(held(2))
    assert origins(gathering.take_all()) == ["sub:1", "sub:2"]
    assert not gathering.is_due(1e9)
    gathering.add(held(3))
    assert not gathering.is_due(0)


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"max_in_flight": 64, "expected_latency_seconds": 5.0}, 768),
        ({"requests_per_minute": 60.0}, 60),
        ({"requests_per_minute": 1.0}, LEAST_MESSAGES),
        ({"max_in_flight": 10_000}, MOST_MESSAGES),
        ({"max_in_flight": 1, "expected_latency_seconds": 600.0}, LEAST_MESSAGES),
        ({"requests_per_minute": 1e9, "max_in_flight": 8}, 96),
    ],
)
def test_a_batch_is_about_a_minute_of_calling(changes, messages):
    assert limits_for(replace(OPTIONS, **changes)).messages == messages
