"""Turns that an earlier, finished run answered: what `--append` leaves out."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from itertools import takewhile

from schemas.question import Question

_MOST_PARAMETERS = 500


class AnsweredTurns:
    """A set of (turn's name, turn) on disk, so that its size is bounded by the disk and not by memory.

    Args:
        path: A SQLite file, made when missing.
    """

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA synchronous=OFF")  # a scratch file, remade by every run
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS answered"
            " (question_id TEXT, turn_index INTEGER, PRIMARY KEY (question_id, turn_index)) WITHOUT ROWID"
        )

    def add(self, turns: Iterable[tuple[str, int]]) -> None:
        """Note turns as answered."""
        with self._lock:
            self._db.execute("BEGIN")
            try:
                self._db.executemany("INSERT OR IGNORE INTO answered VALUES (?,?)", turns)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def of(self, question_ids: Sequence[str]) -> dict[str, frozenset[int]]:
        """The answered turns of each of these questions that has any."""
        found: dict[str, set[int]] = {}
        for start in range(0, len(question_ids), _MOST_PARAMETERS):
            part = question_ids[start : start + _MOST_PARAMETERS]
            marks = ",".join("?" * len(part))
            with self._lock:
                rows = self._db.execute(
                    f"SELECT question_id, turn_index FROM answered WHERE question_id IN ({marks})", part
                ).fetchall()
            for question_id, turn_index in rows:
                found.setdefault(question_id, set()).add(turn_index)
        return {question_id: frozenset(turns) for question_id, turns in found.items()}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()


def turn_name(question_id: str, text: str) -> str:
    """Under which name a turn is noted: whose it is and what it asks, so that a changed one is another."""
    return f"{question_id}\0{hashlib.sha256(text.encode()).hexdigest()}"


def delivered_turns(answered: AnsweredTurns | None, questions: Sequence[Question]) -> list[frozenset[int]]:
    """For each question, the turns that are answered already.

    They are its first ones, without a gap: behind a turn that is new, the history of the next is another.
    """
    if answered is None:
        return [frozenset()] * len(questions)
    names = [[turn_name(question.question_id, text) for text in question.turns] for question in questions]
    there = answered.of([name for turns in names for name in turns])
    delivered = []
    for turns in names:
        known = takewhile(lambda turn: turn[0] in there.get(turn[1], ()), enumerate(turns))
        delivered.append(frozenset(index for index, _ in known))
    return delivered
