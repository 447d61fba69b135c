"""The turns that earlier, finished runs answered. With `--append`, they are not asked again."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from groundrows.schemas.question import Question

Delivered = Mapping[int, frozenset[str]]
"""The turns that have rows from earlier runs. The values are the IDs of their answers without a check."""

_MOST_PARAMETERS = 500


class AnsweredTurns:
    """The set of answered turns, as pairs of a turn's name and its index.

    It is on disk, so that its size is not bounded by memory. It also holds the answers that have no check yet
    (`add_unchecked`), and claims on the questions that were left out, so that duplicates of them are found
    (`claim`).

    Args:
        path: A SQLite file. It is created when it does not exist; every run has a new one.
    """

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        # A scratch file that every run makes anew: it need not outlive a process that is killed.
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute("PRAGMA journal_mode=MEMORY")
        self._db.execute("PRAGMA cache_size=-16000")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS answered"
            " (question_id TEXT, turn_index INTEGER, PRIMARY KEY (question_id, turn_index)) WITHOUT ROWID"
        )
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS unchecked (question_id TEXT, turn_index INTEGER, answer_id TEXT,"
            " PRIMARY KEY (question_id, turn_index, answer_id)) WITHOUT ROWID"
        )
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS claims (key BLOB PRIMARY KEY, origin TEXT) WITHOUT ROWID"
        )

    def add(self, turns: Iterable[tuple[str, int]]) -> None:
        """Note turns as answered."""
        with self._transaction():
            self._db.executemany("INSERT OR IGNORE INTO answered VALUES (?,?)", turns)

    def add_unchecked(
        self, answers: Iterable[tuple[str, int, str]], quoting: Iterable[str], checked: Iterable[str]
    ) -> None:
        """Note the answers that have no check yet.

        Args:
            answers: (turn's name, turn's index, answer's ID) of every answer that has a text.
            quoting: IDs of the answers that have a support chunk with text to check them against.
            checked: IDs of the answers that have a check.
        """
        with self._transaction():
            self._db.execute("CREATE TEMP TABLE missing (answer_id TEXT PRIMARY KEY) WITHOUT ROWID")
            self._db.executemany("INSERT OR IGNORE INTO missing VALUES (?)", ((each,) for each in quoting))
            self._db.executemany("DELETE FROM missing WHERE answer_id = ?", ((each,) for each in checked))
            self._db.executemany(
                "INSERT OR IGNORE INTO unchecked SELECT ?, ?, answer_id FROM missing WHERE answer_id = ?",
                answers,
            )
            self._db.execute("DROP TABLE missing")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def of(self, question_ids: Sequence[str]) -> dict[str, frozenset[int]]:
        """Return the indices of the answered turns, by turn's name."""
        found: dict[str, set[int]] = {}
        for question_id, turn_index in self._rows("question_id, turn_index FROM answered", question_ids):
            found.setdefault(question_id, set()).add(turn_index)
        return {question_id: frozenset(turns) for question_id, turns in found.items()}

    def unchecked(self, question_ids: Sequence[str]) -> dict[tuple[str, int], frozenset[str]]:
        """Return the IDs of the answers that have no check yet, by turn's name and index."""
        with self._lock:
            if self._db.execute("SELECT 1 FROM unchecked LIMIT 1").fetchone() is None:
                return {}
        found: dict[tuple[str, int], set[str]] = {}
        rows = self._rows("question_id, turn_index, answer_id FROM unchecked", question_ids)
        for question_id, turn_index, answer_id in rows:
            found.setdefault((question_id, turn_index), set()).add(answer_id)
        return {turn: frozenset(answers) for turn, answers in found.items()}

    def _rows(self, columns: str, question_ids: Sequence[str]) -> Iterator[Any]:
        for start in range(0, len(question_ids), _MOST_PARAMETERS):
            part = question_ids[start : start + _MOST_PARAMETERS]
            marks = ",".join("?" * len(part))
            with self._lock:
                rows = self._db.execute(f"SELECT {columns} WHERE question_id IN ({marks})", part).fetchall()
            yield from rows

    def claim(self, claims: Mapping[bytes, str]) -> dict[bytes, str]:
        """Note the first record that asks each question that is left out. Works like `Ledger.claim`.

        Args:
            claims: The origin of the record that asks a question, by the question's key.
        """
        holders = dict(claims)
        keys = list(claims)
        for start in range(0, len(keys), _MOST_PARAMETERS // 2):
            part = keys[start : start + _MOST_PARAMETERS // 2]
            rows = ",".join(["(?,?)"] * len(part))
            values = [value for key in part for value in (key, claims[key])]
            with self._lock:
                done = self._db.execute(f"INSERT OR IGNORE INTO claims VALUES {rows}", values)
                if done.rowcount == len(part):
                    continue
                marks = ",".join("?" * len(part))
                found = self._db.execute(f"SELECT key, origin FROM claims WHERE key IN ({marks})", part)
                holders.update(found.fetchall())
        return holders

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()


def turn_name(question_id: str, text: str) -> str:
    """Return the name under which a turn is noted. It has the text, so that a changed question is asked."""
    return f"{question_id}\0{hashlib.sha256(text.encode()).hexdigest()}"


def is_complete(question: Question, delivered: Delivered) -> bool:
    """Whether all turns of a question are answered and all their answers are checked."""
    return len(delivered) == len(question.turns) and not any(delivered.values())


def delivered_turns(answered: AnsweredTurns | None, questions: Sequence[Question]) -> list[Delivered]:
    """Return the turns that are answered already, for each question.

    Only the turns before the first unanswered one count: a new answer changes the history of later turns.
    """
    if answered is None:
        return [{}] * len(questions)
    names = [[turn_name(question.question_id, text) for text in question.turns] for question in questions]
    all_names = [name for turns in names for name in turns]
    there, unchecked = answered.of(all_names), answered.unchecked(all_names)
    delivered: list[Delivered] = []
    for turns in names:
        known = takewhile(lambda turn: turn[0] in there.get(turn[1], ()), enumerate(turns))
        delivered.append({index: unchecked.get((name, index), frozenset()) for index, name in known})
    return delivered
