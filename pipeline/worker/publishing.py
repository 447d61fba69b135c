"""Failures published to a topic, before their messages are acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.api_core import exceptions
from google.cloud.pubsub_v1 import PublisherClient

from groundrows.pipeline.sinks.failures_topic import failure_messages
from groundrows.schemas.errors import FailuresTopicError
from groundrows.schemas.rows import FailureRow
from groundrows.schemas.wording import one_line

PUBLISH_SECONDS = 60.0


class FailuresTopic:
    """A topic for failures, which was checked before.

    Args:
        name: `projects/P/topics/T`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._client: Any = PublisherClient()

    def publish(self, rows: Iterable[FailureRow]) -> None:
        """Publish a message for each row. Returns when the server has them all.

        Raises:
            FailuresTopicError: The server did not take all of them.
        """
        sent = [
            self._client.publish(self._name, message.data, **message.attributes)
            for message in failure_messages(rows)
        ]
        try:
            for each in sent:
                each.result(PUBLISH_SECONDS)
        except (exceptions.GoogleAPICallError, exceptions.RetryError, TimeoutError) as error:
            raise FailuresTopicError(
                f"--failures_topic={self._name} can't be published to any more: {_reason(error)}; create it, "
                "or name another, and start the worker again: messages that failed and were not published "
                "there went back to the subscription."
            ) from None

    def close(self) -> None:
        """Close the connection."""
        self._client.stop()
        self._client.transport.close()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no reply came within {PUBLISH_SECONDS:g} s"
    return one_line(getattr(error, "message", None) or error).rstrip(".")
