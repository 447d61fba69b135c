"""Failures as Pub/Sub messages, for whoever wants to hear of them or to ask them again."""

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

# A record whose failures come back as questions, through whatever topics, ends here: it is published so often
# again and no more. A replay takes a record up as often by default.
MAX_GENERATION = 5
CHECK_SECONDS = 5.0
PUBLISH = "pubsub.topics.publish"
# Pub/Sub's own limits, in bytes.
MAX_ATTRIBUTE = 1024
MAX_MESSAGE = 10_000_000
# For attributes and framing beside the data.
_ROOM = 16 * (256 + MAX_ATTRIBUTE)


def failure_message(row: FailureRow) -> PubsubMessage:
    """The message that tells of a failure: the record's bytes, with the reason in the attributes.

    `generation` says how often the record had been asked again before this failure, and `history` holds a
    line for each of its failures, this one included. Attributes are cut to the 1024 bytes they may have. A
    record that is too large for a message (10 MB) is left out, and `record_omitted` says how many bytes it
    has; the row holds it all the same. `failure_id` is the row's, by which a message that was published twice
    can be told.
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
            | "Messages" >> beam.FlatMap(failure_messages).with_output_types(PubsubMessage)
            | "Publish" >> self._write
        )


def failure_messages(rows: Iterable[Row]) -> Iterator[PubsubMessage]:
    """A message for each failure among the rows, unless its record has been asked again too often."""
    for row in rows:
        if isinstance(row, FailureRow) and row.generation <= MAX_GENERATION:
            yield failure_message(row)


def check_topic(name: str) -> None:
    """Look whether failures can be published to a topic.

    Whoever may publish need not be allowed to look, nor to ask what is allowed: what can't be found out is
    not refused.

    Args:
        name: `projects/P/topics/T`.

    Raises:
        UsageError: It is not there, or may not be published to, or nobody answers.
    """
    # Here, because it takes a second and most runs don't need it.
    from google.api_core.exceptions import GoogleAPICallError, NotFound, PermissionDenied
    from google.cloud.pubsub_v1 import PublisherClient

    asked = {"resource": name, "permissions": [PUBLISH]}
    with PublisherClient() as publisher:
        try:
            publisher.get_topic(topic=name, timeout=CHECK_SECONDS, retry=None)
        except NotFound:
            raise UsageError(f"--failures_topic={name} does not exist: create it, or name another.") from None
        except PermissionDenied:
            pass
        except GoogleAPICallError as error:
            raise UsageError(
                f"--failures_topic={name} can't be looked up: {one_line(error).rstrip('.')}; see to that and "
                "try again."
            ) from None
        try:
            granted = publisher.test_iam_permissions(request=asked, timeout=CHECK_SECONDS, retry=None)
        except GoogleAPICallError:
            return
        if PUBLISH not in granted.permissions:
            raise UsageError(
                f"--failures_topic={name} may not be published to by this account: grant it "
                "roles/pubsub.publisher on the topic, or name another."
            )
