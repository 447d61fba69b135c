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


class UnitPacer(Protocol):
    """Keeps a limit in units of which each call takes its own number. Used from one event loop.

    A call leaves once the calls before it are paid for by the time that has passed. It may take more than is
    there, since what it takes is known only when it has ended: whoever comes next waits the longer then.
    """

    async def acquire(self, units: int) -> None:
        """Return once a call may leave, by one waiter at a time; `units` is what it is expected to take."""
        ...

    def used(self, expected: int, units: int) -> None:
        """Correct what is reckoned with for a call that has acquired `expected`."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def units_per_second(per_minute: float, shards: int = 1) -> float:
    """The steady rate of one of `shards` shares of a quota in units a minute; see `charged`."""
    return per_minute / shards / (60 + CATCH_UP_SECONDS + JITTER_SECONDS)


def charged(units: int, per_minute: float) -> float:
    """What a call that takes so many units is charged with, so that no minute has more than `per_minute`.

    A minute that begins with a call has room for one call more than the steady rate allows. So each call pays
    for its part in that one as well: of equal calls, exactly the quota fits into any minute.
    """
    return units * per_minute / max(per_minute - units, per_minute / 2)


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
