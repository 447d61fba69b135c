"""What a worker has in hand: messages that were pulled, and neither acknowledged nor given back."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from groundrows.pipeline.worker.subscription import Received
from groundrows.schemas.record import Record
from groundrows.transforms.generate.calling.leases import seconds_passed

# In seconds. Pub/Sub and Dataflow remember the ids that a publisher gives its messages for as long.
REMEMBERED_SECONDS = 600.0
# Before its deadline a message counts as gone for so long: a request takes its time to leave.
MARGIN_SECONDS = 1.0


@dataclass(slots=True)
class Held:
    """A message in hand.

    Attributes:
        record: What it asks.
        size: Bytes.
        since: When it was pulled, in seconds, monotonic.
        message_ids: The message's id, and those of others that a publisher gave the same id.
        until: When others may get it unless it is kept, in seconds of the hand's clock.
        ack_ids: One for every delivery.
    """

    record: Record
    size: int
    since: float
    message_ids: set[str]
    until: float = math.inf
    ack_ids: list[str] = field(default_factory=list)


class Hand:
    """The messages in hand, by origin, and the origins that were done lately. Safe to use from threads.

    No message is in hand twice. Pub/Sub delivers a message again when its deadline is missed; if the first
    delivery is still being worked on, the question would otherwise be asked twice at the same time.

    A message is this worker's to ask only while its deadline has surely not passed. Where keeping it failed,
    or the whole process stood still, others may have it. It is this worker's again when it is delivered anew.

    Args:
        clock: Seconds, monotonic, going on while the process stands still.

    Attributes:
        repeated: Number of messages that a publisher had sent before under the same id.
    """

    def __init__(self, clock: Callable[[], float] = seconds_passed) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}
        self._done: OrderedDict[str, tuple[float, set[str]]] = OrderedDict()
        self._bytes = 0
        self.repeated = 0

    def take(self, received: Received, now: float, until: float = math.inf) -> Held | None:
        """Take a message up.

        Args:
            received: The message.
            now: Seconds, monotonic.
            until: When others may get it unless it is kept, in seconds of the hand's clock.

        Returns:
            The message in hand if it is to be asked. None if one of the same origin is in hand already: then
        both are acknowledged or given back together.
        """
        origin = received.record.origin
        with self._lock:
            held = self._held.get(origin)
            if held is not None:
                self._count(received, held.message_ids)
                held.ack_ids.append(received.ack_id)
                held.until = max(held.until, until)
                return None
            new = Held(received.record, received.size, now, {received.message_id}, until, [received.ack_id])
            self._held[origin] = new
            self._bytes += new.size
            return new

    def is_done(self, received: Received, now: float) -> bool:
        """Whether a message of this origin was answered minutes ago and only needs an acknowledgement."""
        with self._lock:
            while self._done and now - next(iter(self._done.values()))[0] > REMEMBERED_SECONDS:
                self._done.popitem(last=False)
            done = self._done.get(received.record.origin)
            if done is None:
                return False
            self._count(received, done[1])
            return True

    def _count(self, received: Received, known: set[str]) -> None:
        if received.message_id not in known:
            known.add(received.message_id)
            self.repeated += 1

    def let_go(self, messages: Iterable[Held], *, done: bool, now: float) -> list[str]:
        """Remove messages from the hand. Returns the ids that acknowledge or give back all their deliveries.

        Args:
            messages: Messages in hand.
            done: Whether they need not be asked when they come again within a few minutes.
            now: Seconds, monotonic.
        """
        ack_ids: list[str] = []
        with self._lock:
            for held in messages:
                if self._held.get(held.record.origin) is not held:
                    continue  # it was let go before
                del self._held[held.record.origin]
                self._bytes -= held.size
                ack_ids += held.ack_ids
                if done:
                    self._done[held.record.origin] = (now, held.message_ids)
        return ack_ids

    def ack_ids(self) -> Sequence[str]:
        """The ids of all deliveries in hand."""
        with self._lock:
            return [ack_id for held in self._held.values() for ack_id in held.ack_ids]

    def kept(self, ack_ids: Iterable[str], began: float, until: float) -> None:
        """Note that deliveries were kept; what was another's before that stays so.

        Args:
            ack_ids: The deliveries.
            began: When the server was asked to keep them, in seconds of the hand's clock.
            until: When others may get them now, likewise.
        """
        kept = set(ack_ids)
        with self._lock:
            for held in self._held.values():
                if began < held.until - MARGIN_SECONDS and not kept.isdisjoint(held.ack_ids):
                    held.until = max(held.until, until)

    def is_ours(self, origin: str) -> bool:
        """Whether no other worker can have a message of this origin: it is to be asked here."""
        with self._lock:
            held = self._held.get(origin)
            return held is None or self._clock() < held.until - MARGIN_SECONDS

    @property
    def count(self) -> int:
        """The number of messages in hand."""
        return len(self._held)

    @property
    def size(self) -> int:
        """The size of all messages in hand, in bytes."""
        return self._bytes
