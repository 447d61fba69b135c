"""Where Beam's threads and the loop's thread meet: a bounded backlog, and a basket of outcomes a bundle."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from groundrows.schemas.outcome import Outcome


class Basket:
    """A bundle's finished outcomes. Filled by the loop's thread, emptied by the bundle's."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._outcomes: list[tuple[Any, Outcome]] = []
        self._expected = 0

    def expect(self, count: int) -> None:
        """So many more outcomes will come."""
        with self._lock:
            self._expected += count

    def put(self, ticket: Any, outcome: Outcome) -> None:
        """An outcome has come, for the question that was handed in with this ticket."""
        with self._lock:
            self._outcomes.append((ticket, outcome))
            self._expected -= 1
            self._lock.notify()

    def take(self) -> list[tuple[Any, Outcome]]:
        """What has come since the last time, without waiting."""
        with self._lock:
            taken, self._outcomes = self._outcomes, []
            return taken

    def drain(self) -> Iterator[list[tuple[Any, Outcome]]]:
        """Everything still expected, as it comes."""
        while True:
            with self._lock:
                while not self._outcomes and self._expected:
                    self._lock.wait()
                taken, self._outcomes = self._outcomes, []
            if not taken:
                return
            yield taken


class Backlog:
    """Bounds the questions that a process has in the air."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._lock = threading.Condition()
        self._taken = 0
        self._wanted = 0

    def add(self, count: int) -> None:
        """Wait for room for so many; more than the whole room go in alone."""
        with self._lock:
            self._wanted = count
            while self._taken and self._taken + count > self._room:
                self._lock.wait()
            self._taken += count

    def remove_one(self) -> None:
        """One is finished. Wakes a waiting thread only when there is room for all that it brings."""
        with self._lock:
            self._taken -= 1
            if not self._taken or self._taken + self._wanted <= self._room:
                self._lock.notify_all()

    @property
    def taken(self) -> int:
        """Questions in the air."""
        return self._taken
