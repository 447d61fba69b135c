"""The ledger of `--ledger=none`: claims and budgets in memory, which are lost when the process ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import uuid4

from groundrows.transforms.generate.ledger.base import Entry, Leased, ModelSummary


class MemoryLedger:
    """Stores no responses. Claims and budgets last as long as the process.

    A claim stores a hash of the origin rather than the origin, to save memory: each question of a run takes
    about a hundred bytes.

    Attributes:
        name: A unique name.
    """

    def __init__(self) -> None:
        self.name = uuid4().hex
        self._lock = threading.Lock()
        self._claims: dict[str, dict[bytes, int]] = {}
        self._reserved: dict[str, int] = {}

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """Nothing is kept."""
        return {}

    def put_many(self, entries: Sequence[Entry]) -> None:
        """Nothing is kept."""

    def settle(self) -> None:
        """Nothing is kept."""

    def lease(self, holder: str, keys: Sequence[bytes], seconds: float) -> Leased:
        """Return that all turns are leased, because no other process uses this ledger."""
        return Leased({}, frozenset())

    def renew(self, holder: str, seconds: float) -> bool:
        """Return True, because no other process uses this ledger."""
        return True

    def end_leases(self, holder: str, keys: Sequence[bytes] | None = None) -> None:
        """Nothing is kept."""

    def claim(self, run_id: str, claims: Mapping[bytes, str]) -> dict[bytes, str]:
        """See `Ledger.claim`; another origin's claim comes back as an empty string."""
        with self._lock:
            held = self._claims.setdefault(run_id, {})
            return {
                key: origin if held.setdefault(key, hash(origin)) == hash(origin) else ""
                for key, origin in claims.items()
            }

    def release(self, run_id: str, claims: Mapping[bytes, str]) -> None:
        """See `Ledger.release`."""
        with self._lock:
            held = self._claims.get(run_id, {})
            for key, origin in claims.items():
                if held.get(key) == hash(origin):
                    del held[key]

    def forget_claims(self, run_id: str) -> None:
        """See `Ledger.forget_claims`."""
        with self._lock:
            self._claims.pop(run_id, None)

    def reserve(self, run_id: str, limit: int, count: int) -> int:
        """See `Ledger.reserve`."""
        with self._lock:
            taken = self._reserved.get(run_id, 0)
            granted = max(0, min(count, limit - taken))
            self._reserved[run_id] = taken + granted
            return granted

    def give_back(self, run_id: str, count: int) -> None:
        """See `Ledger.give_back`."""
        with self._lock:
            self._reserved[run_id] = max(0, self._reserved.get(run_id, 0) - count)

    def count(self, name: str, units: int) -> int:
        """See `Ledger.count`."""
        with self._lock:
            counted = self._reserved[name] = max(0, self._reserved.get(name, 0) + units)
            return counted

    def reserved(self, run_id: str) -> int:
        """Return the number of calls reserved from a run's budget so far."""
        with self._lock:
            return self._reserved.get(run_id, 0)

    def start_from(self, run_id: str, count: int) -> None:
        """Take over a budget from another worker, which had reserved at most `count` calls."""
        with self._lock:
            self._reserved[run_id] = max(count, self._reserved.get(run_id, 0))

    def summary(self) -> list[ModelSummary]:
        """Nothing is kept."""
        return []

    def entries(self) -> Iterable[Entry]:
        """Nothing is kept."""
        return ()

    def rewrite(self, changed: Callable[[Entry], Entry | None]) -> int:
        """Nothing is kept."""
        return 0

    def close(self) -> None:
        """Nothing is open."""
