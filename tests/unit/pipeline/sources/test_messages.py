"""Messages as records: nothing of a message is lost, and none is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from google.cloud import pubsub_v1
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.run.accounting import counters_of
from groundrows.pipeline.sinks.failures_topic import MAX_GENERATION, failure_messages
from groundrows.pipeline.sources.messages import ReadQuestions, RecordFn, record_of
from groundrows.schemas.outcome import Failure
from groundrows.schemas.question import Question, RecordSettings
from groundrows.schemas.record import Record
from groundrows.schemas.rows import FailureRow
from groundrows.transforms.parse import parse_record
from groundrows.transforms.rows.flatten import FlattenSettings, failure_row
from tests.support.table_rows import NOON

SUBSCRIPTION = "projects/some-project/subscriptions/questions"
TOPIC = "projects/some-project/topics/questions"
PUBLISHED = datetime(2025, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def message(data: bytes = b'{"question": "Why?"}', **fields: Any) -> Any:
    """A message as Pub/Sub's own client gives it."""
    given = {"data": data, "message_id": "17", "publish_time": PUBLISHED} | fields
    return pubsub_v1.types.PubsubMessage(**given)


def about(record: Record) -> Any:
    return json.loads(record.attributes or "null")


def test_a_message_is_a_record_with_all_that_came_beside_it() -> None:
    record = record_of(message(attributes={"sender": "news"}, ordering_key="k"), SUBSCRIPTION)
    assert record.body == b'{"question": "Why?"}'
    assert record.origin == f"{SUBSCRIPTION}:17"
    assert record.history == ()
    assert about(record) == {
        "message_id": "17",
        "publish_time": "2025-03-01T12:00:00.250000+00:00",
        "ordering_key": "k",
        "attributes": {"sender": "news"},
    }


def test_what_is_not_there_is_left_out() -> None:
    assert about(record_of(message(), SUBSCRIPTION)) == {
        "message_id": "17",
        "publish_time": "2025-03-01T12:00:00.250000+00:00",
        "attributes": {},
    }


def test_beams_own_messages_are_read_the_same() -> None:
    theirs = message(attributes={"sender": "news"}, ordering_key="k")
    through_beam = PubsubMessage._from_proto_str(pubsub_v1.types.PubsubMessage.serialize(theirs))
    assert record_of(through_beam, SUBSCRIPTION) == record_of(theirs, SUBSCRIPTION)


def test_the_time_is_told_in_utc() -> None:
    there = PUBLISHED.astimezone(timezone(timedelta(hours=5, minutes=30)))
    beams = PubsubMessage(b"{}", {}, "17", there)
    assert about(record_of(beams, SUBSCRIPTION))["publish_time"] == "2025-03-01T12:00:00.250000+00:00"


def test_without_an_id_the_content_tells_messages_apart() -> None:
    def origin(data: bytes) -> str:
        return record_of(PubsubMessage(data, {}), TOPIC).origin

    assert origin(b"1") == origin(b"1") != origin(b"2")
    assert origin(b"1").startswith(f"{TOPIC}:")
    assert "message_id" not in about(record_of(PubsubMessage(b"1", {}), TOPIC))


@pytest.mark.parametrize("data", [b"", None])
def test_a_message_without_data_is_a_record_that_fails(data: bytes | None) -> None:
    record = record_of(PubsubMessage(data, {"a": "b"}, "17", PUBLISHED), SUBSCRIPTION)
    failure = parse_record(record, RecordSettings())
    assert isinstance(failure, Failure)
    assert (failure.code, failure.record, failure.origin) == ("EMPTY_RECORD", b"", f"{SUBSCRIPTION}:17")


@given(
    st.binary(),
    st.dictionaries(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"))),
    st.text(st.characters(codec="utf-8")),
)
def test_nothing_of_any_message_is_lost(data: bytes, attributes: dict[str, str], key: str) -> None:
    record = record_of(message(data, attributes=attributes, ordering_key=key), SUBSCRIPTION)
    assert record.body == data
    assert about(record)["attributes"] == attributes
    assert about(record).get("ordering_key", "") == key
    parsed = parse_record(record, RecordSettings())
    assert json.loads(parsed.metadata or "null")["pubsub"] == about(record)
    assert parsed.record == data


# -- in the metadata ---------------------------------------------------------------------------------------


def metadata(fields: dict[str, object] | bytes) -> Any:
    data = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return json.loads(
        parse_record(record_of(message(data), SUBSCRIPTION), RecordSettings()).metadata or "null"
    )


def test_metadata_holds_it_beside_the_records_own() -> None:
    found = metadata({"question": "Why?", "title": "T", "metadata": {"n": 1}})
    assert found.pop("pubsub")["message_id"] == "17"
    assert found == {"title": "T", "n": 1}


def test_the_records_own_field_of_that_name_stays() -> None:
    for fields in ({"pubsub": 7}, {"metadata": {"pubsub": 7}}):
        found = metadata({"question": "Why?", **fields})
        assert found.pop("pubsub")["message_id"] == "17"
        assert "7" in json.dumps(found)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{", "INVALID_JSON"),
        (b"\xff", "INVALID_UTF8"),
        (b'{"question": "\\ud800"}', "LONE_SURROGATE"),
        (b"{}", "NO_QUESTION"),
    ],
)
def test_a_poison_message_says_who_sent_it(data: bytes, code: str) -> None:
    sent = record_of(message(data, attributes={"sender": "news"}), SUBSCRIPTION)
    failure = parse_record(sent, RecordSettings())
    assert isinstance(failure, Failure)
    assert (failure.code, failure.record, failure.origin) == (code, data, f"{SUBSCRIPTION}:17")
    assert json.loads(failure.metadata or "null")["pubsub"]["attributes"] == {"sender": "news"}


def test_other_records_have_none_of_it() -> None:
    question = parse_record(Record(b'{"question": "Why?"}', "a.jsonl:1"), RecordSettings())
    assert isinstance(question, Question)
    assert question.metadata is None


# -- in a graph --------------------------------------------------------------------------------------------


def payload(**given: Any) -> Any:
    """What the runner is told to read."""
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--streaming"]))
    records = pipeline | "Read" >> ReadQuestions(**given)
    assert not records.is_bounded
    assert records.element_type is Record
    transforms = pipeline.to_runner_api().components.transforms.values()
    (read,) = [each for each in transforms if each.spec.urn == "beam:transform:pubsub_read:v1"]
    return beam_runner_api_pb2.PubSubReadPayload.FromString(read.spec.payload)


def test_the_runner_reads_by_itself() -> None:
    read = payload(subscription=SUBSCRIPTION)
    assert read.subscription == SUBSCRIPTION
    assert read.with_attributes
    assert (read.topic, read.id_attribute, read.timestamp_attribute) == ("", "", "")


def test_the_attributes_for_id_and_time_reach_it() -> None:
    read = payload(topic=TOPIC, id_attribute="uid", timestamp_attribute="at")
    assert (read.topic, read.subscription) == (TOPIC, "")
    assert (read.id_attribute, read.timestamp_attribute) == ("uid", "at")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"subscription": SUBSCRIPTION, "topic": TOPIC},
        {"subscription": "questions"},
        {"topic": "questions"},
    ],
)
def test_one_source_well_written(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"topic|subscription"):
        ReadQuestions(**given)


def test_each_message_is_counted() -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    messages = [PubsubMessage(b"{}", {}, "1"), PubsubMessage(b"", {"a": "b"}, "2")]
    _ = pipeline | beam.Create(messages, reshuffle=False) | beam.ParDo(RecordFn(SUBSCRIPTION))
    result = pipeline.run()
    result.wait_until_finish()
    assert counters_of(result)["groundrows", "records_read"] == 2


# -- a message that tells of a failure


def failed_row(record: Record) -> FailureRow:
    """The row of a record that can't be asked, as a run makes it."""
    failure_of = parse_record(record, RecordSettings())
    assert isinstance(failure_of, Failure)
    return failure_row(failure_of, FlattenSettings("r1", now=lambda: NOON))


def test_a_failure_that_is_asked_again_and_again_comes_to_an_end() -> None:
    row = failed_row(record_of(message(b"{"), SUBSCRIPTION))
    assert (row.generation, row.history) == (0, ())
    published = 0
    while told := list(failure_messages([row])):
        (again,) = told
        published += 1
        came = message(again.data, attributes=again.attributes, message_id=str(published))
        before, row = row, failed_row(record_of(came, SUBSCRIPTION))
        assert (row.generation, row.record) == (published, b"{")
        assert row.history[:-1] == before.history
        assert row.history[-1] == "2025-03-01T12:00:00Z parse INVALID_JSON after 0 attempts"
        assert published < 50
    assert published == MAX_GENERATION + 1


def test_an_attribute_of_that_name_alone_is_no_history() -> None:
    record = record_of(message(attributes={"history": "long ago"}), SUBSCRIPTION)
    assert record.history == ()
