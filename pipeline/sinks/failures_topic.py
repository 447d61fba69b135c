"""Publishes failures as Pub/Sub messages. Subscribers can raise alarms or ask the questions again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import apache_beam as beam
from apache_beam.io.gcp.pubsub import PubsubMessage, WriteToPubSub

from groundrows.pipeline.sources.formats.failure_rows import history_line
from groundrows.pipeline.sources.messages import FAILURE_ID, HISTORY
from groundrows.schemas.errors import UsageError
from groundrows.schemas.rows import FailureRow, Row
from groundrows.schemas.wording import one_line

# A record's generation is the number of times that it was asked again. A failure of a higher generation is
# not published, so that a record that always fails does not go round for ever. A replay has the same default.
MAX_GENERATION = 5
CHECK_SECONDS = 5.0
PUBLISH = "pubsub.topics.publish"
# Pub/Sub's own limits, in bytes.
MAX_ATTRIBUTE = 1024
MAX_MESSAGE = 10_000_000
# Bytes left free in a message for its attributes and framing.
_ROOM = 16 * (256 + MAX_ATTRIBUTE)


def failure_message(row: FailureRow) -> PubsubMessage:
    """Return the message of a failure: the record's bytes as data, and the reason in the attributes.

    Attributes are cut to Pub/Sub's limit of 1024 bytes. Some of them:

    - `generation`: the number of times that the record was asked again before this failure.
    - `history`: one line for each of the record's failures, including this one.
    - `failure_id`: the row's ID. A message that was published twice has the same one.
    - `record_omitted`: the record's size in bytes when it is too large for a message (10 MB). The message has
      no data then; the failure row holds the record.
    """
    attributes = {
        FAILURE_ID: row.failure_id,
        "question_id": row.question_id,
        "stage": row.stage,
        "code": row.code,
        "message": row.message,
        "retryable": "true" if row.retryable else "false",
        "origin": row.origin,
        "generation": str(row.generation),
        HISTORY: "\n".join((*row.history, history_line(asdict(row)))),
    }
    data = row.record
    if len(data) > MAX_MESSAGE - _ROOM:
        attributes["record_omitted"] = f"{len(data)} bytes"
        data = b""
    return PubsubMessage(data, {name: _cut(value) for name, value in attributes.items()})


def _cut(value: str) -> str:
    return value.encode()[:MAX_ATTRIBUTE].decode(errors="ignore")


class PublishFailures(beam.PTransform):
    """Takes a PCollection of groups of rows, and publishes a message for each failure row among them.

    Each message is published at least once: Beam may run a bundle (a part of the PCollection that it
    processes as one unit) a second time, and its messages are then published again.

    Args:
        topic: `projects/P/topics/T`.

    Raises:
        ValueError: `topic` does not have this form.
    """

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._write = WriteToPubSub(topic, with_attributes=True)

    def expand(self, groups: Any) -> Any:
        """Select the failures, and publish them."""
        return (
            groups
            | "Messages" >> beam.FlatMap(failure_messages).with_output_types(PubsubMessage)
            | "Publish" >> self._write
        )


def failure_messages(rows: Iterable[Row]) -> Iterator[PubsubMessage]:
    """Yield a message for each failure row, except for records that were asked again too often."""
    for row in rows:
        if isinstance(row, FailureRow) and row.generation <= MAX_GENERATION:
            yield failure_message(row)


def check_topic(name: str) -> None:
    """Check that this account can publish failures to a topic.

    An account that may publish need not have the permission to look the topic up or to list its own
    permissions. So the check refuses a topic only when it knows that publishing would fail.

    Args:
        name: `projects/P/topics/T`.

    Raises:
        UsageError: The topic does not exist, the account may not publish to it, or Pub/Sub does not answer.
    """
    # Imported here because the import takes a second and most runs don't need it.
    from google.api_core.exceptions import GoogleAPICallError, NotFound, PermissionDenied
    from google.cloud.pubsub_v1 import PublisherClient

    asked = {"resource": name, "permissions": [PUBLISH]}
    with PublisherClient() as publisher:
        try:
            publisher.get_topic(topic=name, timeout=CHECK_SECONDS, retry=None)
        except NotFound:
            raise UsageError(
                f"--failures_topic={name} does not exist: create it, or name another topic."
            ) from None
        except PermissionDenied:
            pass
        except GoogleAPICallError as error:
            raise UsageError(
                f"--failures_topic={name} can't be looked up: {one_line(error).rstrip('.')}; fix that and "
                "try again."
            ) from None
        try:
            granted = publisher.test_iam_permissions(request=asked, timeout=CHECK_SECONDS, retry=None)
        except GoogleAPICallError:
            return
        if PUBLISH not in granted.permissions:
            raise UsageError(
                f"This account may not publish to --failures_topic={name}: grant it roles/pubsub.publisher "
                "on the topic, or name another topic."
            )
