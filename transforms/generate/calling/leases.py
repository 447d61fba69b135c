"""Leases of one process: what it may ask, and until when it may be sure of that.

A question is asked by whoever holds its lease in the ledger. The process says every few seconds that it is
alive, which keeps all its leases at once. One that stalls (it was stopped, or cut off from the ledger) can't
say so, and after a while others may ask what it held. So it trusts its leases for a shorter time than others
respect them, and takes what it has not asked yet anew, under another name, once that has passed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from uuid import uuid4

from groundrows.transforms.generate.ledger.base import Entry, Ledger

# For how long others respect the leases of a process after its last sign of life.
LEASE_SECONDS = 20.0
# For how long the process itself does: less by what a request takes to leave, and clocks to drift apart.
SURE_SECONDS = 15.0
BEAT_SECONDS = 5.0


def seconds_passed() -> float:
    """Seconds on a clock that goes on while the process is stopped or the machine asleep."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Hold:
    """One turn's wish to be asked, or its right to be: see `Leases.is_sure`.

    Args:
        key: The ledger's key of the turn.
    """

    __slots__ = ("by", "key")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.by = ""


class Leases:
    """The leases of one engine. Safe to use from threads.

    Within the process a key has one hold at a time, so that equal requests are asked one after the other.

    Args:
        ledger: Where leases are kept.
        run_id: The run's.
        clock: Seconds, monotonic.
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
        """Lease what is free; afterwards `is_sure` says of each whether it was.

        Args:
            holds: Those that want to be asked, whether they were leased before or not.

        Returns:
            The entries of those that have been answered.

        Raises:
            LedgerError: The ledger can't be asked.
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
        """Whether nobody else can be asking this now."""
        return hold.by == self._name and self._clock() < self._sure_until

    def renew(self) -> None:
        """Say that this process is alive, if it holds anything.

        Raises:
            LedgerError: The ledger can't be told.
        """
        with self._lock:
            name, began = self._name, self._clock()
            if not self._holds:
                return
        alive = self._ledger.renew(name, LEASE_SECONDS)
        with self._lock:
            if name == self._name:
                self._sure_until = max(self._sure_until, began + SURE_SECONDS) if alive else began

    def forget(self, holds: Sequence[Hold]) -> list[bytes]:
        """Let go of what was answered, or will not be asked; returns the keys that the ledger still has."""
        with self._lock:
            mine = [hold for hold in holds if self._holds.get(hold.key) is hold]
            for hold in mine:
                del self._holds[hold.key]
            return [hold.key for hold in mine if hold.by == self._name]

    def end(self, keys: Sequence[bytes]) -> None:
        """Tell the ledger that these are not asked by this process."""
        self._ledger.end_leases(self._name, keys)

    def close(self) -> None:
        """Let others ask all that this process held.

        Raises:
            LedgerError: The ledger can't be told; it will be so in a few seconds all the same.
        """
        self._ledger.end_leases(self._name)

    def _new_name(self) -> str:
        return f"{self._run_id}/{uuid4().hex}"
