"""Failures published to a topic, before their messages are acknowledged."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from google.api_core import exceptions
from google.cloud.pubsub_v1 import PublisherClient

from pipeline import preflight
from pipeline.errors import UsageError, one_line
from pipeline.failures_topic import failure_message
from schemas.rows import FailureRow

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
            preflight.check_credentials()
        self._name = name
        self._client: Any = PublisherClient()
        try:
            self._client.get_topic(topic=name, timeout=CHECK_SECONDS, retry=None)
        except exceptions.PermissionDenied:
            pass  # whoever may publish need not be allowed to look
        except exceptions.GoogleAPICallError as error:
            self.close()
            said = one_line(getattr(error, "message", error)).rstrip(".")
            raise UsageError(
                f"--failures_topic={name} can't be published to: {said}; create it, or name another."
            ) from None

    def publish(self, rows: Iterable[FailureRow]) -> None:
        """Publish a message a row; returns when the server has them all.

        Raises:
            google.api_core.exceptions.GoogleAPICallError: It has not.
        """
        sent = []
        for row in rows:
            message = failure_message(row)
            sent.append(self._client.publish(self._name, message.data, **message.attributes))
        for each in sent:
            each.result(PUBLISH_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._client.stop()
        self._client.transport.close()
