"""A Pub/Sub subscription: pull messages, extend their deadlines, acknowledge them, and give them back.

Messages are pulled by single requests rather than by a stream. So the worker pulls no more than it has room
for, it can stop pulling and still keep what it has, and the server holds back nothing for a killed process
except what that process had pulled.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import grpc
from google.api_core import exceptions
from google.api_core.retry import Retry
from google.cloud.pubsub_v1 import SubscriberClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from groundrows.pipeline.sources.messages import not_there, record_of
from groundrows.pipeline.storage.credentials import need_credentials
from groundrows.schemas.errors import PullError, SubscriptionError, UsageError
from groundrows.schemas.record import Record
from groundrows.schemas.wording import one_line

_LOGGER = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
# How long a pull waits for a first message. A pull that is cut may have been given messages all the same.
# They come again only when their deadline has passed.
PULL_SECONDS = 5.0
MOST_A_PULL = 1_000
# A request takes 512 KiB, and an id may have some two hundred bytes.
IDS_A_REQUEST = 1_000
# The shortest deadline that Pub/Sub has: safe for a subscription whose own can't be looked up.
SHORTEST_ACK_SECONDS = 10
ACK_WAITS_SECONDS = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it was pulled: its record, and what acknowledges this delivery of it.

    `size` is in bytes.
    """

    record: Record
    message_id: str
    ack_id: str
    size: int


class Subscription:
    """A subscription that is there. Its methods block, and each may be called from any thread.

    Args:
        name: `projects/P/subscriptions/S`.
        id_attribute: The attribute that tells a publisher's repetitions apart, or None for the message id.

    Attributes:
        ack_seconds: By how many seconds a message's deadline is extended each time. It is the subscription's
            own deadline: after a worker was killed, its messages go to another worker within that time.

    Raises:
        UsageError: There is no such subscription, it may not be pulled from, or nobody can be asked.
    """

    def __init__(self, name: str, id_attribute: str | None = None) -> None:
        if "PUBSUB_EMULATOR_HOST" not in os.environ:
            need_credentials()
        self.name = name
        self._id_attribute = id_attribute
        self._client: Any = _client()
        try:
            self.ack_seconds = self._ack_seconds()
        except BaseException:
            self.close()
            raise

    def _ack_seconds(self) -> int:
        try:
            found = self._client.get_subscription(
                subscription=self.name,
                retry=Retry(initial=0.2, maximum=2.0, timeout=CHECK_SECONDS),
                timeout=CHECK_SECONDS,
            )
        except exceptions.PermissionDenied:
            return SHORTEST_ACK_SECONDS  # whoever may pull need not be allowed to look
        except exceptions.NotFound:
            raise UsageError(not_there(f"--input_subscription={self.name}")) from None
        except (exceptions.GoogleAPICallError, exceptions.RetryError) as error:
            raise UsageError(
                f"--input_subscription={self.name} can't be reached at {_server()}: {_reason(error)}; see to "
                "that and try again."
            ) from None
        return int(found.ack_deadline_seconds) or SHORTEST_ACK_SECONDS

    def pull(self, most: int) -> list[Received]:
        """Pull up to so many messages; wait a few seconds for the first.

        Raises:
            SubscriptionError: No message will ever come.
            PullError: The pull failed, so it is unknown whether a message waits. Trying again loses nothing.
        """
        most = min(most, MOST_A_PULL)
        try:
            pulled = self._client.pull(
                subscription=self.name, max_messages=most, timeout=PULL_SECONDS, retry=None
            )
        except exceptions.DeadlineExceeded:
            return []
        except (
            exceptions.NotFound,
            exceptions.Forbidden,
            exceptions.Unauthenticated,
            exceptions.InvalidArgument,
        ) as error:
            raise SubscriptionError(
                f"{self.name} can't be pulled from any more: {_reason(error)}; see to that and start the "
                "worker again."
            ) from None
        except exceptions.GoogleAPICallError as error:
            raise PullError(_reason(error)) from None
        return [self._received(each.ack_id, each.message) for each in pulled.received_messages]

    def _received(self, ack_id: str, message: Any) -> Received:
        record = record_of(message, self.name)
        if self._id_attribute is not None and (own := message.attributes.get(self._id_attribute)):
            record = replace(record, origin=f"{self.name}:{own}")
        size = len(record.body) + len(record.attributes or "")
        return Received(record, message.message_id, ack_id, size)

    def keep(self, ack_ids: Sequence[str]) -> list[str]:
        """Extend the deadline of these deliveries; returns those for which the server accepted that.

        It accepts it for a delivery whose deadline had passed, too, unless it delivers exactly once.
        """
        return self._set_deadline(ack_ids, self.ack_seconds)

    def give_back(self, ack_ids: Sequence[str]) -> None:
        """Give these messages back: Pub/Sub delivers them to whoever pulls next."""
        self._set_deadline(ack_ids, 0)

    def _set_deadline(self, ack_ids: Sequence[str], seconds: int) -> list[str]:
        done: list[str] = []
        for part in _parts(ack_ids):
            try:
                # The client's own retries would go on for a minute, and who keeps messages tries again.
                self._client.modify_ack_deadline(
                    subscription=self.name,
                    ack_ids=part,
                    ack_deadline_seconds=seconds,
                    timeout=PULL_SECONDS,
                    retry=Retry(initial=0.2, maximum=2.0, timeout=PULL_SECONDS),
                )
                done += part
            except (exceptions.GoogleAPICallError, exceptions.RetryError) as error:
                # At worst a message comes twice, and the ledger answers the second one.
                _LOGGER.info("The deadline of %d messages was not set: %s.", len(part), _reason(error))
                said = dict(getattr(error, "metadata", None) or {})
                if any(ack_id in said for ack_id in part):
                    # Exactly-once delivery: an error names those that failed.
                    done += [ack_id for ack_id in part if ack_id not in said]
        return done

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        """Acknowledge deliveries. A message for which that fails comes again, and the ledger answers it."""
        for part in _parts(ack_ids):
            self._acknowledge(part)

    def _acknowledge(self, ack_ids: Sequence[str]) -> None:
        left = list(ack_ids)
        for wait in (*ACK_WAITS_SECONDS, None):
            try:
                # Only this loop tries again: the client's own retries would go on for a minute each time.
                self._client.acknowledge(
                    subscription=self.name, ack_ids=left, timeout=PULL_SECONDS, retry=None
                )
                return
            except exceptions.NotFound:
                _LOGGER.warning(
                    "%d messages were not acknowledged, as %s is gone and they with it; "
                    "their rows are written.",
                    len(left),
                    self.name,
                )
                return
            except exceptions.GoogleAPICallError as error:
                left = _worth_repeating(error, left)
                said: Exception = error
            except exceptions.RetryError as error:
                said = error
            if not left:
                return
            if wait is not None:
                time.sleep(wait)
        _LOGGER.warning(
            "%d messages of %s were not acknowledged and come again: %s.",
            len(left),
            self.name,
            _reason(said),
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _worth_repeating(error: Any, ack_ids: list[str]) -> list[str]:
    """Which acknowledgements to try again.

    A subscription with exactly-once delivery reports on each acknowledgement: those it does not name are
    done, and a permanent failure means that the message has been delivered again meanwhile.
    """
    said = dict(getattr(error, "metadata", None) or {})
    if any(ack_id in said for ack_id in ack_ids):
        return [ack_id for ack_id in ack_ids if said.get(ack_id, "").startswith("TRANSIENT_")]
    return ack_ids


def _parts(ack_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ack_ids), IDS_A_REQUEST):
        yield ack_ids[start : start + IDS_A_REQUEST]


def _client() -> Any:
    emulator = os.environ.get("PUBSUB_EMULATOR_HOST")
    if not emulator:
        return SubscriberClient()
    # The client's own channel to an emulator takes 4 MiB at most, and a message may have 10 MB.
    channel = grpc.insecure_channel(emulator, options=[("grpc.max_receive_message_length", -1)])
    return SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))


def _server() -> str:
    return os.environ.get("PUBSUB_EMULATOR_HOST", "pubsub.googleapis.com")


def _reason(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error
    return one_line(getattr(cause, "message", None) or cause).rstrip(".")
