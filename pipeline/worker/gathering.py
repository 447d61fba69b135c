"""Gather messages into batches. A batch begins when it is full or its first message has waited long."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.worker.hand import Held

# These two bound the size of a batch's files and the memory that a batch takes.
MOST_MESSAGES = 1_000
MOST_BYTES = 10_000_000
LEAST_MESSAGES = 10
# The longest time, in seconds, that a message waits for others.
WAIT_SECONDS = 5.0
# A batch is acknowledged as a whole, so it holds no more than can be asked in about this time.
WORK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When a batch is full: by its messages, its bytes, or the seconds that its first message waits."""

    messages: int = MOST_MESSAGES
    bytes: int = MOST_BYTES
    seconds: float = WAIT_SECONDS


def limits_for(options: RunOptions) -> Limits:
    """Return the limits that suit a run's pace: from Little's law, or from its rate where that gives less."""
    per_second = options.max_in_flight / options.expected_latency_seconds
    if options.requests_per_minute is not None:
        per_second = min(per_second, options.requests_per_minute / 60)
    return Limits(messages=max(LEAST_MESSAGES, min(MOST_MESSAGES, int(per_second * WORK_SECONDS))))


class Gathering:
    """Messages on their way to a batch, oldest first."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: deque[Held] = deque()
        self._bytes = 0

    def add(self, message: Held) -> None:
        """Add a message."""
        self._waiting.append(message)
        self._bytes += message.size

    def is_due(self, now: float) -> bool:
        """Whether a batch should begin; `now` is in seconds, monotonic."""
        if not self._waiting:
            return False
        full = len(self._waiting) >= self._limits.messages or self._bytes >= self._limits.bytes
        return full or now - self._waiting[0].since >= self._limits.seconds

    def take(self) -> list[Held]:
        """Return the next batch. It has at least one message, however large that is."""
        batch: list[Held] = []
        size = 0
        while self._waiting and len(batch) < self._limits.messages:
            size += self._waiting[0].size
            if batch and size > self._limits.bytes:
                break
            batch.append(self._waiting.popleft())
            self._bytes -= batch[-1].size
        return batch

    def take_all(self) -> list[Held]:
        """Return every message, so that all can be given back."""
        everything, self._waiting, self._bytes = list(self._waiting), deque(), 0
        return everything
