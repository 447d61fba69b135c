"""The interface of a pacer, and the arithmetic that keeps every period of 60 seconds within the quota."""

from __future__ import annotations

from typing import Protocol

# A call has a place in the schedule, and may start so many seconds late. Without this, each late wake-up of
# the event loop would lose a place for good. With a whole second, a pause would be followed by a burst.
CATCH_UP_SECONDS = 0.25
# The server counts calls when they arrive, and the network varies the times. This many seconds are left free,
# so that the server's count stays below its limit.
JITTER_SECONDS = 0.25


class Pacer(Protocol):
    """Says when the next call may start. Used from one event loop, by one waiter at a time."""

    async def acquire(self) -> None:
        """Wait until a call may start. The caller then sends it at once."""
        ...

    def throttled(self, sent_at: float, retry_after: float | None) -> None:
        """Note that the service refused a call because there were too many calls.

        Args:
            sent_at: When the refused call started, on the clock of `time.monotonic`.
            retry_after: Seconds that the service asked to wait, or None.
        """
        ...

    async def close(self) -> None:
        """Give back unused places in the schedule."""
        ...


class UnitPacer(Protocol):
    """Keeps a limit in units such as tokens. Each call uses a different number of units.

    Used from one event loop. The units of a call are known only when it has ended. So a call may start before
    there is room for all its units, and the next call then waits longer.
    """

    async def acquire(self, units: int) -> None:
        """Wait until a call may start that is expected to use `units`. Used by one waiter at a time."""
        ...

    def used(self, expected: int, units: int) -> None:
        """Correct the count for a call that was expected to use `expected` and used `units`."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


def units_per_second(per_minute: float, shards: int = 1) -> float:
    """Return the steady rate of one of `shards` equal parts of a quota in units per minute; see `charged`."""
    return per_minute / shards / (60 + CATCH_UP_SECONDS + JITTER_SECONDS)


def charged(units: int, per_minute: float) -> float:
    """Return the units to charge for a call, so that no period of a minute has more than `per_minute`.

    A minute that begins with a call has room for one call more than the steady rate allows. So each call is
    charged a part of that extra call. Then exactly the quota of equal calls fits into any minute.
    """
    return units * per_minute / max(per_minute - units, per_minute / 2)


def calls_per_second(per_minute: float, shards: int = 1) -> float:
    """Return the steady rate of one of `shards` equal parts of a quota per minute.

    A schedule of rate r, used at most `CATCH_UP_SECONDS` late, sends at most r·(60 + catch-up) + 1 calls in
    any 60 seconds: the 1 is the call on the boundary. One schedule may ignore it, since a count is whole
    and r·(60 + catch-up) is below the quota; N schedules have N boundaries, so each gives up one call.
    """
    share = per_minute / shards
    if shards > 1:
        share = max(share - 1, share / 2)
    return share / (60 + CATCH_UP_SECONDS + JITTER_SECONDS)
