"""What people said of answers: right, wrong or unsure, and a note. Kept in the run's directory.

Every verdict is kept, and the last one on an answer counts. Who gives one says which one they saw last: where
somebody else has given another meanwhile, nothing is written, and theirs is shown.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from groundrows.pipeline.storage.uris import is_remote
from groundrows.schemas.errors import UsageError
from groundrows.schemas.wording import reason_of

FILE = "verdicts.sqlite"
VERDICTS = ("right", "wrong", "unsure")
# Neither a verdict nor a note: it takes back what was said.
NONE = ""
LONGEST_NOTE = 10_000
# Another window writes for a moment only.
WAIT_SECONDS = 10.0

_TABLE = """
    CREATE TABLE IF NOT EXISTS verdicts (
      version INTEGER PRIMARY KEY AUTOINCREMENT,
      run_id TEXT NOT NULL,
      answer_id TEXT NOT NULL,
      answered_at INTEGER NOT NULL,
      verdict TEXT NOT NULL CHECK (verdict IN ('right', 'wrong', 'unsure', '')),
      note TEXT NOT NULL,
      judged_at INTEGER NOT NULL
    ) STRICT
"""
_INDEX = "CREATE INDEX IF NOT EXISTS by_answer ON verdicts (run_id, answer_id, answered_at, version)"


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer: what tells it from all others. `answered_at` is in microseconds since the epoch."""

    run_id: str
    answer_id: str
    answered_at: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on an answer.

    Attributes:
        version: Which of all verdicts it is; 0 stands for none.
        verdict: One of `VERDICTS`, or empty.
        note: Any text.
        judged_at: When it was given; None where there is none.
    """

    version: int = 0
    verdict: str = NONE
    note: str = ""
    judged_at: datetime | None = None


class ConflictError(Exception):
    """Another verdict was given meanwhile, which is the attribute `current`."""

    def __init__(self, current: Verdict) -> None:
        super().__init__("another verdict was given meanwhile")
        self.current = current


class Verdicts:
    """The verdicts in a run's directory. It may be used from several threads, and by several processes."""

    def __init__(self, directory: str) -> None:
        """Open them; the file is made with the first verdict."""
        self._path = os.path.join(directory, FILE)
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self.writable = not is_remote(directory) and os.access(directory, os.W_OK, effective_ids=True)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def state(self) -> tuple[int, int]:
        """Something that changes when a verdict is given, here or in another process."""
        with self._opened() as db:
            if db is None:
                return (0, 0)
            (last,) = db.execute("SELECT coalesce(max(version), 0) FROM verdicts").fetchone()
            return (1, last)

    def all(self) -> list[tuple[Judged, Verdict]]:
        """The verdicts that count."""
        with self._opened() as db:
            if db is None:
                return []
            rows = db.execute(
                "SELECT run_id, answer_id, answered_at, max(version), verdict, note, judged_at FROM verdicts "
                "GROUP BY run_id, answer_id, answered_at"
            ).fetchall()
        found = [(Judged(*row[:3]), _verdict(row[3:])) for row in rows]
        return [(answer, verdict) for answer, verdict in found if verdict.verdict or verdict.note]

    def of(self, answer: Judged) -> Verdict:
        """The verdict on an answer."""
        with self._opened() as db:
            return Verdict() if db is None else _current(db, answer)

    def give(self, answer: Judged, verdict: str, note: str, seen: int) -> Verdict:
        """Write a verdict down; it is on the disk when this returns.

        Args:
            answer: Of which answer.
            verdict: One of `VERDICTS`, or empty.
            note: Any text of up to `LONGEST_NOTE` characters.
            seen: The version that whoever gives it saw last.

        Raises:
            ConflictError: It is not the last one any more.
            UsageError: The verdict is none, the note is too long, or nothing can be written.
        """
        if verdict not in (*VERDICTS, NONE):
            raise UsageError(f"A verdict is one of {', '.join(VERDICTS)}.")
        if len(note) > LONGEST_NOTE:
            raise UsageError(f"The note is longer than {LONGEST_NOTE:,} characters: shorten it.")
        if not self.writable:
            raise UsageError("This run's directory can't be written: copy it to where verdicts can be kept.")
        with self._opened(make=True) as db:
            assert db is not None
            try:
                db.execute("BEGIN IMMEDIATE")
                current = _current(db, answer)
                if current.version != seen:
                    raise ConflictError(current)
                now = int(datetime.now(UTC).timestamp() * 1_000_000)
                db.execute(
                    "INSERT INTO verdicts (run_id, answer_id, answered_at, verdict, note, judged_at) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (answer.run_id, answer.answer_id, answer.answered_at, verdict, note, now),
                )
                given = _current(db, answer)
                db.execute("COMMIT")
                return given
            except sqlite3.Error as error:
                raise UsageError(f"The verdict can't be written to {self._path}: {error}.") from None
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def _opened(self, make: bool = False) -> Iterator[sqlite3.Connection | None]:
        with self._lock:
            if self._db is None and (make or os.path.exists(self._path)):
                self._db = _connected(self._path)
            yield self._db


def _connected(path: str) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        # What was said to be kept survives a power cut, too.
        db.execute("PRAGMA synchronous = FULL")
        db.execute(_TABLE)
        db.execute(_INDEX)
    except sqlite3.Error as error:
        raise UsageError(
            f"The verdicts in {path} can't be read: {reason_of(error)}; mend the file or take it away."
        ) from None
    return db


def _current(db: sqlite3.Connection, answer: Judged) -> Verdict:
    row = db.execute(
        "SELECT version, verdict, note, judged_at FROM verdicts "
        "WHERE run_id = ? AND answer_id = ? AND answered_at = ? ORDER BY version DESC LIMIT 1",
        (answer.run_id, answer.answer_id, answer.answered_at),
    ).fetchone()
    return Verdict() if row is None else _verdict(row)


def _verdict(row: tuple[int, str, str, int]) -> Verdict:
    version, verdict, note, judged_at = row
    return Verdict(version, verdict, note, datetime.fromtimestamp(judged_at / 1_000_000, UTC))


def given(directory: str) -> list[tuple[Judged, Verdict]]:
    """The verdicts that count in a run's directory, local or `gs://`; the directory is only read."""
    path = os.path.join(directory, FILE)
    if is_remote(directory) or not os.path.exists(path):
        return []
    with closing(Verdicts(directory)) as verdicts:
        return verdicts.all()
