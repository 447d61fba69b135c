import logging
from typing import Any

import pytest
from google.api_core import exceptions

from groundrows.pipeline.worker import subscription as module
from groundrows.pipeline.worker.subscription import Subscription

NAME = "projects/p/subscriptions/s"


class Client:
    """Stands in for Pub/Sub: a subscription that is there at first, and acknowledges by `failure`."""

    failure: Exception | None = None
    acknowledged = 0

    def get_subscription(self, **asked: Any) -> Any:
        return type("Found", (), {"ack_deadline_seconds": 10})

    def acknowledge(self, **asked: Any) -> None:
        self.acknowledged += 1
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:9")
    monkeypatch.setattr(module, "_client", lambda: made)
    monkeypatch.setattr(module, "ACK_WAITS_SECONDS", (0.0, 0.0))
    return made


def test_messages_of_a_subscription_that_is_gone_are_not_said_to_come_again(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    subscription = Subscription(NAME)
    client.failure = exceptions.NotFound("Resource not found")
    with caplog.at_level(logging.WARNING):
        subscription.acknowledge(["a", "b"])
    assert client.acknowledged == 1  # it does not come back
    assert caplog.messages == [
        f"2 messages were not acknowledged, as {NAME} is gone and they with it; their rows are written."
    ]


def test_what_was_not_acknowledged_otherwise_comes_again(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    subscription = Subscription(NAME)
    client.failure = exceptions.ServiceUnavailable("away")
    with caplog.at_level(logging.WARNING):
        subscription.acknowledge(["a", "b"])
    assert client.acknowledged == 3
    assert caplog.messages == [f"2 messages of {NAME} were not acknowledged and come again: away."]
