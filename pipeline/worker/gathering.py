"""Messages into batches: when there are enough of them, or the first has waited long enough."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.worker.hand import Held

# A batch's files, and what a batch takes in memory, are bounded by these two.
MOST_MESSAGES = 1_000
MOST_BYTES = 10_000_000
LEAST_MESSAGES = 10
# A message waits so long for others at most.
WAIT_SECONDS = 5.0
# A batch is acknowledged as a whole, so it holds no more than can be asked in about this time.
WORK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When a batch is full: so many messages, or so many bytes, or the first waits for so many seconds."""

    messages: int = MOST_MESSAGES
    bytes: int = MOST_BYTES
    seconds: float = WAIT_SECONDS


def limits_for(options: RunOptions) -> Limits:
    """The limits that suit a run's pace: by Little's law, or by its rate where that is lower."""
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
        """One more."""
        self._waiting.append(message)
        self._bytes += message.size

    def is_due(self, now: float) -> bool:
        """Whether a batch should begin; `now` is in seconds, monotonic."""
        if not self._waiting:
            return False
        full = len(self._waiting) >= self._limits.messages or self._bytes >= self._limits.bytes
        return full or now - self._waiting[0].since >= self._limits.seconds

    def take(self) -> list[Held]:
        """The next batch; one message at least is in it, however large."""
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
        """Everything, for giving it back."""
        everything, self._waiting, self._bytes = list(self._waiting), deque(), 0
        return everything
