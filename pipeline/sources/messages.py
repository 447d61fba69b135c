"""Pub/Sub messages as records: what a message becomes, and the source for a Dataflow job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.io.gcp.pubsub import ReadFromPubSub
from apache_beam.metrics import Metrics

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.sources.formats.items import Item
from groundrows.schemas.errors import UsageError
from groundrows.schemas.jsontext import compact_json, derived_id
from groundrows.schemas.record import Record
from groundrows.schemas.wording import one_line
from groundrows.transforms.counters import RECORDS, RECORDS_READ

# Attributes of a message that tells of a failure.
FAILURE_ID = "failure_id"
HISTORY = "history"
LOOK_SECONDS = 5.0


class Message(Protocol):
    """A message as it was received; Beam's and Pub/Sub's own classes all fit."""

    data: bytes
    attributes: Mapping[str, str]
    message_id: str
    publish_time: datetime
    ordering_key: str


def record_of(message: Message | Any, source: str) -> Record:
    """The record that a message is.

    The body is the message's data, and the origin `SOURCE:MESSAGE_ID`: a message that is delivered again is
    thereby seen to be the same one. Message id, publish time, ordering key and attributes become the record's
    attributes, and so end up in the rows' metadata. A message that tells of a failure (see
    `sinks/failures_topic.py`) brings the record's history along.

    Args:
        message: What was received.
        source: The subscription or topic, in full.
    """
    body = bytes(message.data or b"")
    about: dict[str, object] = {}
    if message.message_id:
        about["message_id"] = message.message_id
    if message.publish_time is not None:
        about["publish_time"] = message.publish_time.astimezone(UTC).isoformat()
    if message.ordering_key:
        about["ordering_key"] = message.ordering_key
    about["attributes"] = dict(message.attributes or {})
    # Without an id there is only the content to tell messages apart by.
    origin = f"{source}:{message.message_id or derived_id(body)}"
    return Record(body, origin, _history(message.attributes or {}), compact_json(about))


def _history(attributes: Mapping[str, str]) -> tuple[str, ...]:
    """How the record failed before, where the message tells of a failure."""
    lines = attributes.get(HISTORY, "") if FAILURE_ID in attributes else ""
    return tuple(line for line in lines.split("\n") if line)


def topic_of(subscription: str) -> str | None:
    """The topic that a subscription is to, or None when that can't be found out.

    Args:
        subscription: `projects/P/subscriptions/S`.
    """
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.pubsub_v1 import SubscriberClient  # here, because it takes a second

    try:
        with SubscriberClient() as client:
            found = client.get_subscription(subscription=subscription, timeout=LOOK_SECONDS, retry=None)
    except (GoogleAPICallError, GoogleAuthError):
        return None
    return str(found.topic)


def check_there(subscription: str | None, topic: str | None) -> None:
    """Check that what a job would read from is there, since a job that reads from nothing waits for ever.

    The account that submits a job need not be the one that reads, so it may lack the permission to look.

    Args:
        subscription: `projects/P/subscriptions/S`; or else
        topic: `projects/P/topics/T`.

    Raises:
        UsageError: It does not exist, or Pub/Sub does not answer.
    """
    from google.api_core.exceptions import GoogleAPICallError, NotFound, PermissionDenied
    from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient  # here, because it takes a second

    flag = f"--input_subscription={subscription}" if subscription else f"--input_topic={topic}"
    try:
        if subscription:
            with SubscriberClient() as subscriber:
                subscriber.get_subscription(subscription=subscription, timeout=LOOK_SECONDS, retry=None)
        else:
            with PublisherClient() as publisher:
                publisher.get_topic(topic=topic, timeout=LOOK_SECONDS, retry=None)
    except NotFound:
        raise UsageError(not_there(flag)) from None
    except PermissionDenied:
        return
    except GoogleAPICallError as error:
        raise UsageError(
            f"{flag} can't be looked up: {one_line(error).rstrip('.')}; fix that and try again."
        ) from None


def not_there(flag: str) -> str:
    """The sentence about a source that does not exist; `flag` names it, as `--input_subscription=S`."""
    return f"{flag} does not exist: create it, or name another."


@dataclass(frozen=True)
class Messages:
    """A subscription or a topic as a source; see `Source`.

    Attributes:
        subscription: `projects/P/subscriptions/S`; or else
        topic: `projects/P/topics/T`.
        id_attribute: The attribute that tells repetitions apart, or None for the message id.
        timestamp_attribute: The attribute that holds the event's time, or None for the publish time.
    """

    subscription: str | None = None
    topic: str | None = None
    id_attribute: str | None = None
    timestamp_attribute: str | None = None

    @property
    def bounded(self) -> bool:
        """They have no end."""
        return False

    @property
    def paths(self) -> tuple[str, ...]:
        """None."""
        return ()

    def check(self) -> None:
        """Nothing: a worker looks it up when it begins to pull, and `check_there` for a job."""

    def notes(self) -> Iterator[str]:
        """Nothing."""
        return iter(())

    def items(self) -> Iterator[Item]:
        """Nothing, since there is no end."""
        return iter(())

    def read(self, pipeline: beam.Pipeline, *, spread: bool) -> tuple[Any, None]:
        """Read for as long as the job runs. The runner spreads the messages over workers by itself."""
        read = ReadQuestions(self.subscription, self.topic, self.id_attribute, self.timestamp_attribute)
        return pipeline | "Read" >> read, None


def messages_of(options: RunOptions) -> Messages:
    """The subscription or topic that the flags name."""
    return Messages(
        options.input_subscription, options.input_topic, options.id_attribute, options.timestamp_attribute
    )


class ReadQuestions(beam.PTransform):
    """Messages of a subscription or a topic → PCollection[Record], unbounded.

    A message is acknowledged by the runner once what the first step made of it is safe; any broken one is
    still a record, so that none comes back for ever.

    Args:
        subscription: `projects/P/subscriptions/S`; or else
        topic: `projects/P/topics/T`, read through a subscription made for the job, which sees no message that
            was published before.
        id_attribute: The attribute that tells a publisher's repetitions apart, or None for the message id.
        timestamp_attribute: The attribute that holds the event's time (RFC 3339, or milliseconds since the
            epoch), or None for the publish time.

    Raises:
        ValueError: Neither or both of subscription and topic are given, or one is badly written.
    """

    def __init__(
        self,
        subscription: str | None = None,
        topic: str | None = None,
        id_attribute: str | None = None,
        timestamp_attribute: str | None = None,
    ) -> None:
        super().__init__()
        self._source = subscription or topic or ""
        self._read = ReadFromPubSub(
            topic=topic,
            subscription=subscription,
            id_label=id_attribute,
            with_attributes=True,
            timestamp_attribute=timestamp_attribute,
        )

    def expand(self, root: beam.pvalue.PBegin) -> Any:
        """Read, and make a record of each message."""
        return (
            root
            | "Messages" >> self._read
            | "Records" >> beam.ParDo(RecordFn(self._source)).with_output_types(Record)
        )


class RecordFn(beam.DoFn):
    """Messages → records, counted."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._records_read = Metrics.counter(RECORDS, RECORDS_READ)

    def process(self, message: Any) -> Iterator[Record]:
        """Give the message's record."""
        self._records_read.inc()
        yield record_of(message, self._source)
