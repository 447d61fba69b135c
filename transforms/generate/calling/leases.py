"""The leases of one process. A lease says which process may ask a turn.

Leases are in the ledger. Every few seconds the process renews all its leases together. A process that stalls,
because it was suspended or lost its connection to the ledger, can't renew them, and after a while other
processes may ask its turns. So a process trusts its own leases for a shorter time than other processes
respect them. After that time it takes a new name, and takes new leases on the turns that it has not asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from uuid import uuid4

from groundrows.transforms.generate.ledger.base import Entry, Ledger

# The time for which other processes respect a process's leases after it renewed them.
LEASE_SECONDS = 20.0
# The time for which the process itself trusts them. It is shorter, because sending a request takes time and
# clocks differ.
SURE_SECONDS = 15.0
# The time between two renewals.
BEAT_SECONDS = 5.0


def seconds_passed() -> float:
    """Return seconds on a clock that also runs while the process is suspended or the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Hold:
    """A turn that wants a lease or has one (see `Leases.is_sure`).

    Args:
        key: The ledger's key of the turn.
    """

    __slots__ = ("by", "key")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.by = ""


class Leases:
    """The leases of one engine. Several threads may use it.

    Within the process, only one hold at a time has the lease of a key. So equal requests are asked one after
    another.

    Args:
        ledger: The ledger, which keeps the leases.
        run_id: The run's ID.
        clock: Returns seconds on a monotonic clock.
    """

    def __init__(self, ledger: Ledger, run_id: str, clock: Callable[[], float] = seconds_passed) -> None:
        self._ledger = ledger
        self._run_id = run_id
        self._clock = clock
        self._lock = threading.Lock()
        self._holds: dict[bytes, Hold] = {}
        self._name = self._new_name()
        self._sure_until = clock() + SURE_SECONDS

    def take(self, holds: Sequence[Hold]) -> dict[bytes, Entry]:
        """Take the leases that no other process has. Afterwards, `is_sure` tells which holds got theirs.

        Args:
            holds: The holds that want a lease. They may have had one before.

        Returns:
            The entries of those turns that are already answered, by key.

        Raises:
            LedgerError: The ledger can't be used.
        """
        with self._lock:
            began = self._clock()
            if began >= self._sure_until:
                self._name = self._new_name()
                self._sure_until = began + SURE_SECONDS
            name = self._name
            wanted = {hold.key: hold for hold in holds if self._holds.setdefault(hold.key, hold) is hold}
        if not wanted:
            return {}
        try:
            leased = self._ledger.lease(name, list(wanted), LEASE_SECONDS)
        except BaseException:
            self.forget(list(wanted.values()))
            raise
        with self._lock:
            if name == self._name:
                self._sure_until = max(self._sure_until, began + SURE_SECONDS)
            for key, hold in wanted.items():
                if key in leased.stored or key in leased.taken:
                    del self._holds[key]
                else:
                    hold.by = name
        return dict(leased.stored)

    def is_sure(self, hold: Hold) -> bool:
        """Whether the hold has its lease, so that no other process can ask the turn now."""
        return hold.by == self._name and self._clock() < self._sure_until

    def renew(self) -> None:
        """Renew the leases of this process, if it has any.

        Raises:
            LedgerError: The ledger can't be used.
        """
        with self._lock:
            name, began = self._name, self._clock()
            if not self._holds:
                return
        alive = self._ledger.renew(name, LEASE_SECONDS)
        with self._lock:
            if name == self._name:
                self._sure_until = max(self._sure_until, began + SURE_SECONDS) if alive else began

    def has(self, hold: Hold) -> bool:
        """Whether the ledger keeps a lease of this hold, as far as the process knows."""
        with self._lock:
            return self._holds.get(hold.key) is hold and hold.by == self._name

    def forget(self, holds: Sequence[Hold]) -> None:
        """Drop holds whose turns were answered or will not be asked. Others of this process may follow."""
        with self._lock:
            for hold in holds:
                if self._holds.get(hold.key) is hold:
                    del self._holds[hold.key]

    def end(self, keys: Sequence[bytes]) -> None:
        """End these leases in the ledger."""
        self._ledger.end_leases(self._name, keys)

    def close(self) -> None:
        """End all leases of this process.

        Raises:
            LedgerError: The ledger can't be used. The leases then end by themselves after some seconds.
        """
        self._ledger.end_leases(self._name)

    def _new_name(self) -> str:
        return f"{self._run_id}/{uuid4().hex}"
