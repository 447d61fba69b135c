"""Failures as messages: what Pub/Sub takes, and what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from google.cloud import pubsub_v1
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.sinks.failures_topic import MAX_MESSAGE, PublishFailures, failure_message
from tests.support.made import answer, failure
from tests.support.services import PubSub
from tests.support.streams import Come, Wait, play

PROJECT = "demo-project"
TEXT = st.text(st.characters(codec="utf-8"))


def test_the_record_is_the_data_and_the_reason_is_in_the_attributes() -> None:
    row = failure(record=b'{"id": 1}', failure_id="f1", question_id="q1", retryable=False, origin="s:17")
    message = failure_message(row)
    assert message.data == b'{"id": 1}'
    assert message.attributes == {
        "failure_id": "f1",
        "question_id": "q1",
        "stage": "generate",
        "code": "UNAVAILABLE",
        "message": "Away.",
        "retryable": "false",
        "origin": "s:17",
        "generation": "0",
        "history": "2025-03-01T12:00:00Z generate UNAVAILABLE after 1 attempt",
    }
    assert failure_message(failure(retryable=True)).attributes["retryable"] == "true"


@given(TEXT, TEXT, st.integers(1000, 1030), st.sampled_from("aé€😀"), st.binary())
def test_every_failure_fits_into_a_message(
    text: str, question_id: str, length: int, character: str, record: bytes
) -> None:
    long = text + character * length
    row = failure(message=long, origin=long, question_id=question_id, record=record)
    message = failure_message(row)
    for name, value in message.attributes.items():
        assert len(name.encode()) <= 256
        assert len(value.encode()) <= 1024
    cut = message.attributes["message"]
    assert long.startswith(cut)
    # No more is cut off than must be.
    assert cut == long or len(cut.encode()) > 1024 - 4
    sent = pubsub_v1.types.PubsubMessage.deserialize(message._to_proto_str(for_publish=True))
    assert (sent.data, dict(sent.attributes)) == (record, message.attributes)


@pytest.mark.parametrize("size", [MAX_MESSAGE - 30_000, MAX_MESSAGE - 10, MAX_MESSAGE, 50_000_000])
def test_a_record_too_large_for_a_message_is_left_out(size: int) -> None:
    long = "😀" * 2_000
    message = failure_message(failure(record=b"x" * size, message=long, origin=long, question_id=long))
    assert len(message._to_proto_str(for_publish=True)) <= MAX_MESSAGE
    omitted = size > MAX_MESSAGE - 30_000
    assert len(message.data) == (0 if omitted else size)
    assert message.attributes.get("record_omitted") == (f"{size} bytes" if omitted else None)


@pytest.mark.parametrize("topic", ["", "failures", "projects/p/subscriptions/s"])
def test_a_topic_that_is_none_is_refused_when_the_graph_is_built(topic: str) -> None:
    with pytest.raises(ValueError, match="topic must be in the form"):
        PublishFailures(topic)


# -- published -----------------------------------------------------------------------------------------------


@pytest.fixture
def topic(pubsub: PubSub, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic of the emulator that every client of this process talks to meanwhile."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    name = f"projects/{PROJECT}/topics/{request.node.name.split('[')[0]}"
    pubsub_v1.PublisherClient().create_topic(name=name)
    subscription = name.replace("topics", "subscriptions")
    pubsub_v1.SubscriberClient().create_subscription(name=subscription, topic=name)
    return name


def received(topic: str, count: int) -> list[Any]:
    """The messages published to a topic, once there are so many."""
    with pubsub_v1.SubscriberClient() as client:
        subscription, found = topic.replace("topics", "subscriptions"), []
        while len(found) < count:
            pulled = client.pull(subscription=subscription, max_messages=1000, timeout=20).received_messages
            client.acknowledge(subscription=subscription, ack_ids=[each.ack_id for each in pulled])
            found += [each.message for each in pulled]
        return found


def codes(messages: Sequence[Any]) -> list[tuple[bytes, str]]:
    return sorted((message.data, message.attributes["code"]) for message in messages)


def test_a_run_over_archives_publishes_its_failures(topic: str) -> None:
    failures = [failure(record=b"%d" % n, code=f"CODE_{n % 7}", message="né " * 1000) for n in range(250)]
    groups = [*((answer(), row) for row in failures), (answer(),), ()]
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    _ = pipeline | beam.Create(groups, reshuffle=False) | PublishFailures(topic)
    pipeline.run().wait_until_finish()
    messages = received(topic, len(failures))
    assert codes(messages) == codes([failure_message(row) for row in failures])
    assert {len(message.attributes["message"].encode()) for message in messages} == {1024}


def test_a_stream_publishes_its_failures(topic: str) -> None:
    def element(number: int) -> Any:
        return (failure(record=b"%d" % number),)

    play([Come((1, 2)), Wait(5), Come((3,))], element, lambda groups: groups | PublishFailures(topic))
    assert [data for data, _ in codes(received(topic, 3))] == [b"0", b"1", b"2"]


def test_a_topic_that_is_not_there_is_no_silent_loss(topic: str) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    _ = pipeline | beam.Create([(failure(),)], reshuffle=False) | PublishFailures(f"{topic}_gone")
    with pytest.raises(Exception, match="not found"):
        pipeline.run().wait_until_finish()
