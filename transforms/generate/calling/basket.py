"""What Beam's threads and the event loop's thread share: a bounded backlog, and a basket for each bundle."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from groundrows.schemas.outcome import Outcome


class Basket:
    """The finished outcomes of a bundle. The loop's thread adds them, and the bundle's thread takes them."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._outcomes: list[tuple[Any, Outcome]] = []
        self._expected = 0

    def expect(self, count: int) -> None:
        """Say that `count` more outcomes will come."""
        with self._lock:
            self._expected += count

    def put(self, ticket: Any, outcome: Outcome) -> None:
        """Add the outcome of the question that was submitted with this ticket."""
        with self._lock:
            self._outcomes.append((ticket, outcome))
            self._expected -= 1
            self._lock.notify()

    def take(self) -> list[tuple[Any, Outcome]]:
        """Return the outcomes that came since the last call, without waiting."""
        with self._lock:
            taken, self._outcomes = self._outcomes, []
            return taken

    def drain(self) -> Iterator[list[tuple[Any, Outcome]]]:
        """Yield all outcomes that are still expected, as they come."""
        while True:
            with self._lock:
                while not self._outcomes and self._expected:
                    self._lock.wait()
                taken, self._outcomes = self._outcomes, []
            if not taken:
                return
            yield taken


class Backlog:
    """Limits the number of unfinished questions in a process."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._lock = threading.Condition()
        self._taken = 0
        self._wanted = 0

    def add(self, count: int) -> None:
        """Wait until there is room for `count` questions. More than the whole room wait until it is empty."""
        with self._lock:
            self._wanted = count
            while self._taken and self._taken + count > self._room:
                self._lock.wait()
            self._taken += count

    def remove_one(self) -> None:
        """Remove a finished question. Wakes a waiting thread only when its questions all have room."""
        with self._lock:
            self._taken -= 1
            if not self._taken or self._taken + self._wanted <= self._room:
                self._lock.notify_all()

    @property
    def taken(self) -> int:
        """The number of unfinished questions."""
        return self._taken
