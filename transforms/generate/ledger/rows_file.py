"""The rows file of a SQLite ledger notes its last row, so that lost rows are noticed.

SQLite keeps the latest rows in a second file, `PATH-wal`. When that file is lost after a process was killed,
SQLite opens the main file without an error, and the lost rows would be asked and paid for again. So each
writer notes its last row in `PATH-rows`. When the ledger is opened, the two are compared.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from groundrows.schemas.errors import LedgerError

SUFFIX = "-rows"
# The ledger's name, and the last row that was removed on purpose.
_TABLES = (
    "CREATE TABLE IF NOT EXISTS ledger (name TEXT NOT NULL, removed INTEGER NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON responses"
    " BEGIN UPDATE ledger SET removed = max(removed, OLD.rowid); END",
)


@dataclass(frozen=True, slots=True)
class Noted:
    """The content of a rows file.

    Attributes:
        name: The name of its ledger. The ledger beside it may be another one that replaced it.
        row: The number of a row that was stored. Row numbers increase.
    """

    name: str
    row: int


def noted_beside(path: str) -> Noted | None:
    """Read the rows file of a ledger; None when there is none or it can't be read."""
    with suppress(OSError, ValueError):
        with open(path + SUFFIX, encoding="ascii") as file:
            name, row = file.read().split()
        return Noted(name, int(row))
    return None


def prepare(db: sqlite3.Connection) -> None:
    """Give a ledger a name if it has none, within the open transaction.

    Raises:
        sqlite3.Error: The ledger can't be written.
    """
    for statement in _TABLES:
        db.execute(statement)
    db.execute("INSERT INTO ledger SELECT ?, 0 WHERE NOT EXISTS (SELECT * FROM ledger)", [uuid4().hex])


def last_row(db: sqlite3.Connection) -> Noted:
    """Return a ledger's name and its last row.

    Raises:
        sqlite3.Error: The ledger can't be read.
    """
    name, removed = db.execute("SELECT name, removed FROM ledger").fetchone()
    last = db.execute("SELECT max(rowid) FROM responses").fetchone()[0]
    return Noted(str(name), max(int(removed), last or 0))


def check(path: str, db: sqlite3.Connection) -> None:
    """Refuse a ledger that once had more rows than now.

    Raises:
        LedgerError: It has lost rows.
        sqlite3.Error: It can't be read.
    """
    # The note is read first: other processes may write meanwhile, and the ledger is never behind the note.
    noted = noted_beside(path)
    if noted is None or not _has_name(db):
        return
    there = last_row(db)
    if there.name == noted.name and there.row < noted.row:
        raise LedgerError(
            f"The ledger {path} has lost up to {noted.row - there.row:,} stored answers, because its file "
            f"{path}-wal was removed, an older copy replaced it, or the machine lost power: restore the lost "
            f"file, or remove {path}{SUFFIX} to continue without the lost answers and pay for them again."
        )


def _has_name(db: sqlite3.Connection) -> bool:
    """Whether a ledger has a name. A ledger of an earlier version gets one when it is written to."""
    found = db.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'ledger'")
    return bool(found.fetchone()[0])


class RowsFile:
    """A ledger's rows file, open for writing; created when missing. Several processes may write to it.

    The note is written after each commit. It may be behind the ledger, but never ahead of it.

    Args:
        path: The ledger's main file.
        noted: The first content.

    Raises:
        OSError: The file can't be written.
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
        """Close the file. It is not removed."""
        os.close(self._file)

    def _write(self) -> None:
        # The text always has the same length, so that one write replaces all of it.
        os.pwrite(self._file, f"{self._name} {self._row:020d}\n".encode("ascii"), 0)
