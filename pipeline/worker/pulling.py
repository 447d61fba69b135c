"""Two threads beside the work: one pulls while there is room, one extends deadlines of messages in hand."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from groundrows.pipeline.worker.hand import Hand, Held
from groundrows.pipeline.worker.subscription import Subscription
from groundrows.schemas.errors import PullError, SubscriptionError
from groundrows.transforms.generate.calling.leases import seconds_passed

_LOGGER = logging.getLogger(__name__)
_FULL_SECONDS = 0.1
_AGAIN_SECONDS = 1.0
# Who is to end when nothing comes can't wait for ever to learn whether something does.
FAILING_SECONDS = 180.0


class Puller:
    """Pulls messages into a queue while fewer are in hand than the limits allow.

    Args:
        subscription: Where to pull from.
        hand: Where what was pulled is held.
        most_messages: Maximum number of messages in hand.
        most_bytes: Maximum number of their bytes. A single pull may go beyond it.
        failing_seconds: Give up after pulls have failed for this long without a success; None for never.

    Attributes:
        arrived: The messages to be asked, in the order they came.
        quiet_since: The monotonic time in seconds since which pulls have succeeded and brought nothing.
            None while it is unknown whether a message waits.
        error: Why pulling ended by itself, or None.
    """

    def __init__(
        self,
        subscription: Subscription,
        hand: Hand,
        most_messages: int,
        most_bytes: int,
        failing_seconds: float | None = None,
    ) -> None:
        self._subscription = subscription
        self._hand = hand
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._failing_seconds = failing_seconds
        self._failing_since: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groundrows-pull", daemon=True)
        self.arrived: SimpleQueue[Held] = SimpleQueue()
        self.quiet_since: float | None = None
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop pulling. Messages that a pull under way still brings are given back."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the last pull to end."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                room = self._most_messages - self._hand.count
                if room > 0 and self._hand.size < self._most_bytes:
                    self._pull(room)
                else:
                    self._stop.wait(_FULL_SECONDS)
        except Exception as error:  # whoever waits for messages must hear of it
            self.error = error

    def _pull(self, room: int) -> None:
        began, asked_at = time.monotonic(), seconds_passed()
        try:
            received = self._subscription.pull(room)
        except PullError as error:
            self._failed(error, began)
            return
        self._failing_since = None
        if self.quiet_since is None and not received:
            self.quiet_since = began
        if self._stop.is_set():
            self._subscription.give_back([each.ack_id for each in received])
            return
        done = []
        for each in received:
            now = self.quiet_since = time.monotonic()
            if self._hand.is_done(each, now):
                done.append(each.ack_id)
            elif (held := self._hand.take(each, now, asked_at + self._subscription.ack_seconds)) is not None:
                self.arrived.put(held)
        if done:
            self._subscription.acknowledge(done)

    def _failed(self, error: PullError, began: float) -> None:
        name = self._subscription.name
        self.quiet_since = None
        if self._failing_since is None:
            self._failing_since = began
        lasted = time.monotonic() - self._failing_since
        if self._failing_seconds is not None and lasted >= self._failing_seconds:
            raise SubscriptionError(
                f"Pulling from {name} has failed for {lasted:.0f} s: {error}; see to that and start the "
                "worker again."
            )
        _LOGGER.warning("Pulling from %s failed: %s; it is tried again.", name, error)
        self._stop.wait(_AGAIN_SECONDS)


@contextmanager
def kept(subscription: Subscription, hand: Hand) -> Iterator[None]:
    """Extend the deadlines of what is in hand while the block lasts, so that no other worker gets it."""
    stop = threading.Event()

    def keep() -> None:
        pause = subscription.ack_seconds / 3
        while not stop.wait(pause):
            began, ack_ids = seconds_passed(), hand.ack_ids()
            try:
                kept_ids = subscription.keep(ack_ids)
            except Exception as error:
                _LOGGER.warning("Keeping the messages in hand failed: %s", type(error).__name__)
                kept_ids = []
            hand.kept(kept_ids, began, began + subscription.ack_seconds)
            # Where it failed the next time may go better, and the sooner it does the more is kept.
            pause = subscription.ack_seconds / (3 if len(kept_ids) == len(ack_ids) else 10)

    thread = threading.Thread(target=keep, name="groundrows-keep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
