"""Failures published to a topic, before their messages are acknowledged."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from google.api_core import exceptions
from google.cloud.pubsub_v1 import PublisherClient

from groundrows.pipeline.run import preflight
from groundrows.pipeline.sinks.failures_topic import failure_message
from groundrows.schemas.errors import FailuresTopicError, UsageError
from groundrows.schemas.rows import FailureRow
from groundrows.schemas.wording import one_line

CHECK_SECONDS = 10.0
PUBLISH_SECONDS = 60.0


class FailuresTopic:
    """A topic that is there.

    Args:
        name: `projects/P/topics/T`.

    Raises:
        UsageError: It does not exist, or nobody can be asked.
    """

    def __init__(self, name: str) -> None:
        if "PUBSUB_EMULATOR_HOST" not in os.environ:
            preflight.need_credentials()
        self._name = name
        self._client: Any = PublisherClient()
        try:
            self._client.get_topic(topic=name, timeout=CHECK_SECONDS, retry=None)
        except exceptions.PermissionDenied:
            pass  # whoever may publish need not be allowed to look
        except exceptions.GoogleAPICallError as error:
            self.close()
            raise UsageError(
                f"--failures_topic={name} can't be published to: {_reason(error)}; create it, or name "
                "another."
            ) from None

    def publish(self, rows: Iterable[FailureRow]) -> None:
        """Publish a message a row; returns when the server has them all.

        Raises:
            FailuresTopicError: It has not.
        """
        sent = []
        for row in rows:
            message = failure_message(row)
            sent.append(self._client.publish(self._name, message.data, **message.attributes))
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
