"""The interface of a pacer, and the arithmetic that keeps any sliding minute under the quota."""

from __future__ import annotations

from typing import Protocol

# How late a call may use its place in the schedule. Without any, every late wake-up of the event loop
# would lose a place for good; with a second's worth, a pause would be followed by a burst.
CATCH_UP_SECONDS = 0.25
# Calls leave on schedule and arrive with the network's jitter; room for it keeps the server's own count,
# which is by arrival, under its limit.
JITTER_SECONDS = 0.25


class Pacer(Protocol):
    """Says when the next call may leave. Used from one event loop, by one waiter at a time."""

    async def acquire(self) -> None:
        """Return once a call may leave; the caller sends it at once."""
        ...

    def answered(self, sent_at: float) -> None:
        """The service accepted a call, whatever it answered.

        Args:
            sent_at: When the call left, on `time.monotonic`'s clock.
        """
        ...

    def throttled(self, sent_at: float, retry_after: float | None) -> None:
        """The service refused a call because there are too many.

        Args:
            sent_at: When the refused call left, on `time.monotonic`'s clock.
            retry_after: Seconds the service asked to wait, or None.
        """
        ...

    async def close(self) -> None:
        """Give back what was leased and not used."""
        ...


def calls_per_second(per_minute: float, shards: int = 1) -> float:
    """The steady rate of one of `shards` shares of a per-minute quota.

    A schedule of rate r, used at most `CATCH_UP_SECONDS` late, sends at most r·(60 + catch-up) + 1 calls in
    any 60 seconds: the 1 is the call on the boundary. One schedule may ignore it, since a count is whole
    and r·(60 + catch-up) is below the quota; N schedules have N boundaries, so each gives up one call.
    """
    share = per_minute / shards
    if shards > 1:
        share = max(share - 1, share / 2)
    return share / (60 + CATCH_UP_SECONDS + JITTER_SECONDS)
