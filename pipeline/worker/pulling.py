"""Two threads beside the work: one pulls while there is room, one keeps what is in hand from others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from pipeline.worker.hand import Hand, Held
from pipeline.worker.subscription import Subscription

_LOGGER = logging.getLogger(__name__)
_FULL_SECONDS = 0.1


class Puller:
    """Pulls into a queue, as long as fewer messages are in hand than there may be.

    Args:
        subscription: Where to pull from.
        hand: Where what was pulled is held.
        most_messages: How many may be in hand.
        most_bytes: How many bytes they may have; what one pull brings goes beyond it.

    Attributes:
        arrived: The messages to be asked, in the order they came.
        last_arrival: When a message came last, or else when pulling began; seconds, monotonic.
        error: Why pulling has ended by itself, or None.
    """

    def __init__(self, subscription: Subscription, hand: Hand, most_messages: int, most_bytes: int) -> None:
        self._subscription = subscription
        self._hand = hand
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groundrows-pull", daemon=True)
        self.arrived: SimpleQueue[Held] = SimpleQueue()
        self.last_arrival = time.monotonic()
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin."""
        self.last_arrival = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Pull no more. What a pull that is under way still brings is given back."""
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
        received = self._subscription.pull(room)
        if self._stop.is_set():
            self._subscription.give_back([each.ack_id for each in received])
            return
        done = []
        for each in received:
            now = self.last_arrival = time.monotonic()
            if self._hand.is_done(each, now):
                done.append(each.ack_id)
            elif (held := self._hand.take(each, now)) is not None:
                self.arrived.put(held)
        if done:
            self._subscription.acknowledge(done)


@contextmanager
def kept(subscription: Subscription, hand: Hand) -> Iterator[None]:
    """Keep what is in hand from being delivered to others for as long as the block lasts."""
    stop = threading.Event()

    def keep() -> None:
        while not stop.wait(subscription.ack_seconds / 3):
            try:
                subscription.keep(hand.ack_ids())
            except Exception as error:  # the next time may go better
                _LOGGER.warning("Keeping the messages in hand failed: %s", type(error).__name__)

    thread = threading.Thread(target=keep, name="groundrows-keep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
