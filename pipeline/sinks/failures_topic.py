"""Failures as Pub/Sub messages, for whoever wants to hear of them or to ask them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.gcp.pubsub import PubsubMessage, WriteToPubSub

from groundrows.schemas.rows import FailureRow, Row

# Pub/Sub's own limits, in bytes.
MAX_ATTRIBUTE = 1024
MAX_MESSAGE = 10_000_000
# For attributes and framing beside the data.
_ROOM = 16 * (256 + MAX_ATTRIBUTE)


def failure_message(row: FailureRow) -> PubsubMessage:
    """The message that tells of a failure: the record's bytes, with the reason in the attributes.

    Attributes are cut to the 1024 bytes they may have. A record that is too large for a message (10 MB) is
    left out, and `record_omitted` says how many bytes it has; the row holds it all the same. `failure_id` is
    the row's, by which a message that was published twice can be told.
    """
    attributes = {
        "failure_id": row.failure_id,
        "question_id": row.question_id,
        "stage": row.stage,
        "code": row.code,
        "message": row.message,
        "retryable": "true" if row.retryable else "false",
        "origin": row.origin,
    }
    data = row.record
    if len(data) > MAX_MESSAGE - _ROOM:
        attributes["record_omitted"] = f"{len(data)} bytes"
        data = b""
    return PubsubMessage(data, {name: _cut(value) for name, value in attributes.items()})


def _cut(value: str) -> str:
    return value.encode()[:MAX_ATTRIBUTE].decode(errors="ignore")


class PublishFailures(beam.PTransform):
    """PCollection of groups of rows -> a message for each failure row among them; what comes out is done.

    A bundle that is tried again publishes again: expect each message at least once.

    Args:
        topic: `projects/P/topics/T`.

    Raises:
        ValueError: The topic is badly written.
    """

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._write = WriteToPubSub(topic, with_attributes=True)

    def expand(self, groups: Any) -> Any:
        """Pick the failures, and publish them."""
        return (
            groups
            | "Messages" >> beam.FlatMap(_messages).with_output_types(PubsubMessage)
            | "Publish" >> self._write
        )


def _messages(group: Iterable[Row]) -> Iterator[PubsubMessage]:
    for row in group:
        if isinstance(row, FailureRow):
            yield failure_message(row)
