"""The rows file of a SQLite ledger: how far the ledger has come, noted beside it.

SQLite keeps what was stored last in a second file, `PATH-wal`. When that file is lost after a kill, the main
file opens as if nothing had happened, and what was stored last is asked and paid for again. So each writer
notes in `PATH-rows` which row it stored last, and whoever opens the ledger compares.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from groundrows.schemas.errors import LedgerError

SUFFIX = "-rows"
# The ledger's own name, and the last of the rows that were removed from it on purpose.
_TABLES = (
    "CREATE TABLE IF NOT EXISTS ledger (name TEXT NOT NULL, removed INTEGER NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON responses"
    " BEGIN UPDATE ledger SET removed = max(removed, OLD.rowid); END",
)


@dataclass(frozen=True, slots=True)
class Noted:
    """What a rows file says.

    Attributes:
        name: The name of the ledger that it is about. Another ledger may have taken that one's place.
        row: A row that was stored in it; rows are numbered upwards.
    """

    name: str
    row: int


def noted_beside(path: str) -> Noted | None:
    """What is noted beside a ledger; None where there is no rows file, or none that can be read."""
    with suppress(OSError, ValueError):
        with open(path + SUFFIX, encoding="ascii") as file:
            name, row = file.read().split()
        return Noted(name, int(row))
    return None


def prepare(db: sqlite3.Connection) -> None:
    """Give a ledger a name if it has none, within the transaction that is open.

    Raises:
        sqlite3.Error: It can't be written.
    """
    for statement in _TABLES:
        db.execute(statement)
    db.execute("INSERT INTO ledger SELECT ?, 0 WHERE NOT EXISTS (SELECT * FROM ledger)", [uuid4().hex])


def last_row(db: sqlite3.Connection) -> Noted:
    """A ledger's name and the last row that was stored in it and not lost.

    Raises:
        sqlite3.Error: It can't be read.
    """
    name, removed = db.execute("SELECT name, removed FROM ledger").fetchone()
    last = db.execute("SELECT max(rowid) FROM responses").fetchone()[0]
    return Noted(str(name), max(int(removed), last or 0))


def check(path: str, db: sqlite3.Connection) -> None:
    """Refuse a ledger that once had more rows than it has.

    Raises:
        LedgerError: It has lost some.
        sqlite3.Error: It can't be read.
    """
    # The note first: other processes go on writing, and the ledger is never behind the note.
    noted = noted_beside(path)
    if noted is None or not _has_name(db):
        return
    there = last_row(db)
    if there.name == noted.name and there.row < noted.row:
        raise LedgerError(
            f"The ledger {path} has lost up to {noted.row - there.row:,} stored answers, as its file "
            f"{path}-wal was taken away, an older copy took its place, or the machine lost power: put the "
            f"lost file back, or remove {path}{SUFFIX} to go on with what is there and pay for the lost "
            "answers again."
        )


def _has_name(db: sqlite3.Connection) -> bool:
    """Whether a ledger has a name; one that an earlier version made has none until it is written to."""
    found = db.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'ledger'")
    return bool(found.fetchone()[0])


class RowsFile:
    """A ledger's rows file, open to be written; made when missing. Several processes may write to it.

    The note is written after each commit and may be behind the ledger, never ahead of it.

    Args:
        path: The ledger's own file.
        noted: What it says at first.

    Raises:
        OSError: It can't be written.
    """

    def __init__(self, path: str, noted: Noted) -> None:
        self._name = noted.name
        self._row = noted.row
        self._file = os.open(path + SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._write()
        except BaseException:
            self.close()
            raise

    def note(self, row: int) -> None:
        """Note that this row is stored.

        Raises:
            OSError: It can't be written.
        """
        if row > self._row:
            self._row = row
            self._write()

    def close(self) -> None:
        """Let go of the file, which stays."""
        os.close(self._file)

    def _write(self) -> None:
        # Always as long as before, so that one write replaces all of it.
        os.pwrite(self._file, f"{self._name} {self._row:020d}\n".encode("ascii"), 0)
