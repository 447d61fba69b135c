"""The ledger in a SQLite file. It is the default, because it needs no installation and no server."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard

from groundrows.schemas.errors import LedgerError, NoLedgerError
from groundrows.transforms.generate.ledger import rows_file
from groundrows.transforms.generate.ledger.base import Entry, Leased, ModelSummary, run_of
from groundrows.transforms.generate.ledger.packing import pack, pack_many, unpack
from groundrows.transforms.generate.ledger.rows_file import RowsFile

# "GRws". It is in the file's header, so that another program's database is never taken for a ledger.
APPLICATION_ID = 0x47527773
SCHEMA_VERSION = 1
BUSY_SECONDS = 30.0

_TABLES = """
CREATE TABLE responses (
  key BLOB NOT NULL UNIQUE,
  question_id TEXT NOT NULL,
  turn_index INTEGER NOT NULL,
  model_id TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  latency_ms REAL NOT NULL,
  asked_at INTEGER NOT NULL,
  answered_at INTEGER NOT NULL,
  response BLOB NOT NULL,
  first_part_ms REAL,
  unread_json BLOB
);
CREATE TABLE claims (
  run_id TEXT NOT NULL, key BLOB NOT NULL, origin TEXT NOT NULL, PRIMARY KEY (run_id, key)
) WITHOUT ROWID;
CREATE TABLE budgets (run_id TEXT PRIMARY KEY, reserved INTEGER NOT NULL) WITHOUT ROWID;
"""
# Tables that later versions added. The format's version is unchanged: earlier versions ignore these tables,
# and the trigger ends leases also when an earlier version stores a response.
_LATER_TABLES = (
    "CREATE TABLE IF NOT EXISTS holders"
    " (holder TEXT PRIMARY KEY, run_id TEXT NOT NULL, alive_until REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS leases (key BLOB PRIMARY KEY, holder TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TRIGGER IF NOT EXISTS answered AFTER INSERT ON responses"
    " BEGIN DELETE FROM leases WHERE key = NEW.key; END",
)
_COLUMNS = "key, question_id, turn_index, model_id, attempts, latency_ms, asked_at, answered_at, response"
# Columns that later versions added. The format's version is unchanged: earlier versions leave them out.
_LATER = {"first_part_ms": "REAL", "unread_json": "BLOB"}
_INSERT = f"INSERT OR REPLACE INTO responses ({_COLUMNS}, {', '.join(_LATER)}) VALUES "
_MOST_PARAMETERS = 500
# The number of rows that one statement inserts. Each statement releases the interpreter's lock, and getting
# it back takes up to a switch interval when another thread is busy. So fewer statements are faster.
_ROWS_A_STATEMENT = 45


class SqliteLedger:
    """Responses in a SQLite file in WAL mode. Several processes may share it.

    Commits don't wait for the disk (no fsync). A killed process loses nothing, but a machine that loses power
    may lose the latest entries. A ledger that has lost entries, in this way or with its `-wal` file, is
    refused when it is opened (see `rows_file.py`).

    When a file of an earlier version is opened for writing, it gets the columns that it lacks; the earlier
    version can still use it. When it is opened only for reading, it is not changed, and these columns are
    null.

    Args:
        path: The file; created when missing.
        read_only: Open an existing file only to read it. Nothing is created or changed.

    Raises:
        LedgerError: The file is damaged, has lost entries, is not a ledger, or can't be opened. It is not
            changed.
        NoLedgerError: `read_only` is true and there is no file.
    """

    def __init__(self, path: str, read_only: bool = False) -> None:
        if read_only and not Path(path).exists():
            raise NoLedgerError(f"There is no ledger at {path}; check the path.")
        self._path = path
        # One lock and one connection are enough, because SQLite writes one transaction at a time anyway.
        self._lock = threading.Lock()
        self._rows_file: RowsFile | None = None
        self._unsettled = False
        try:
            self._db = _open_to_read(path) if read_only else _open_to_write(path)
            try:
                self._columns = _columns_to_read(self._db)
                if not read_only:
                    self._rows_file = _open_rows_file(path, self._db)
            except BaseException:
                self._db.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise _error(
                path,
                error,
                f"The ledger {path} can't be used: {error}. Name another file with --ledger, or move this "
                "one away to start a new one.",
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._failing() as db, _transaction_on(db):
            yield db

    @contextmanager
    def _failing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except (sqlite3.Error, OSError) as error:
                raise _error(
                    self._path,
                    error,
                    f"The ledger {self._path} failed: {error}. The answers so far are kept; free space on "
                    "the disk or name another file with --ledger, and run the same command again.",
                ) from None

    def _select(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._lock, self._reading():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _error(
                self._path,
                error,
                f"The ledger {self._path} can't be read: {error}. Move it away to start a new one.",
            ) from None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """See `Ledger.get_many`."""
        found: dict[bytes, Entry] = {}
        for part in _parts(keys):
            with self._lock, self._reading():
                rows = self._rows(self._db, part)
            found.update((entry.key, entry) for entry in map(self._entry, rows))
        return found

    def _found(self, db: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        return {entry.key: entry for entry in map(self._entry, self._rows(db, keys))}

    def _rows(self, db: sqlite3.Connection, keys: Sequence[bytes]) -> list[tuple[Any, ...]]:
        marks = ",".join("?" * len(keys))
        return db.execute(f"SELECT {self._columns} FROM responses WHERE key IN ({marks})", keys).fetchall()

    def put_many(self, entries: Sequence[Entry]) -> None:
        """See `Ledger.put_many`."""
        rows = [
            (
                entry.key,
                entry.question_id,
                entry.turn_index,
                entry.model_id,
                entry.attempts,
                entry.latency_ms,
                _micros(entry.asked_at),
                _micros(entry.answered_at),
                packed,
                entry.first_part_ms,
                None if entry.unread_json is None else pack(entry.unread_json.encode()),
            )
            for entry, packed in zip(entries, pack_many([entry.response for entry in entries]), strict=True)
        ]
        if len(rows) <= _ROWS_A_STATEMENT:
            # A single statement is a transaction of its own.
            with self._failing() as db:
                self._note(_insert(db, _INSERT, rows))
        else:
            with self._failing() as db:
                with _transaction_on(db):
                    last = _insert(db, _INSERT, rows)
                self._note(last)

    def _note(self, row: int) -> None:
        self._unsettled = True
        if self._rows_file is not None:
            self._rows_file.note(row)

    def settle(self) -> None:
        """See `Ledger.settle`. Moves stored entries from the `-wal` file to the main file."""
        with self._failing() as db:
            if self._unsettled:
                self._unsettled = False
                _checkpoint(db)

    def lease(self, holder: str, keys: Sequence[bytes], seconds: float) -> Leased:
        """See `Ledger.lease`. Uses the machine's clock, which all users of a file share."""
        # Answered turns are looked up first: a continued run finds most of them and need not write.
        stored = self.get_many(keys)
        wanted = [key for key in keys if key not in stored]
        if not wanted:
            return Leased(stored, frozenset())
        taken: set[bytes] = set()
        with self._transaction() as db:
            now = time.time()
            row = (holder, run_of(holder), now + seconds)
            db.execute("INSERT OR REPLACE INTO holders VALUES (?,?,?)", row)
            for part in _parts(wanted):
                marks = ",".join("?" * len(part))
                found = self._found(db, part)
                stored.update(found)
                taken.update(
                    bytes(key)
                    for (key,) in db.execute(
                        f"SELECT key FROM leases NATURAL JOIN holders WHERE key IN ({marks})"
                        " AND holder <> ? AND alive_until > ?",
                        [*part, holder, now],
                    )
                )
                _insert(
                    db,
                    "INSERT OR REPLACE INTO leases VALUES ",
                    [(key, holder) for key in part if key not in found and key not in taken],
                )
        return Leased(stored, frozenset(taken))

    def renew(self, holder: str, seconds: float) -> bool:
        """See `Ledger.renew`."""
        with self._failing() as db:
            now = time.time()
            done = db.execute(
                "UPDATE holders SET alive_until = ? WHERE holder = ? AND alive_until > ?",
                [now + seconds, holder, now],
            )
            return done.rowcount == 1

    def end_leases(self, holder: str, keys: Sequence[bytes] | None = None) -> None:
        """See `Ledger.end_leases`."""
        with self._transaction() as db:
            if keys is None:
                db.execute("DELETE FROM leases WHERE holder = ?", [holder])
                db.execute("DELETE FROM holders WHERE holder = ?", [holder])
            else:
                mine = [(key, holder) for key in keys]
                db.executemany("DELETE FROM leases WHERE key = ? AND holder = ?", mine)

    def claim(self, run_id: str, claims: Mapping[bytes, str]) -> dict[bytes, str]:
        """See `Ledger.claim`."""
        holders: dict[bytes, str] = {}
        keys = list(claims)
        # One transaction, because another process could remove an existing claim before it is read.
        with self._transaction() as db:
            rows = [(run_id, key, origin) for key, origin in claims.items()]
            _insert(db, "INSERT OR IGNORE INTO claims VALUES ", rows)
            for part in _parts(keys):
                marks = ",".join("?" * len(part))
                for key, origin in db.execute(
                    f"SELECT key, origin FROM claims WHERE run_id = ? AND key IN ({marks})", [run_id, *part]
                ):
                    holders[bytes(key)] = str(origin)
        return holders

    def release(self, run_id: str, claims: Mapping[bytes, str]) -> None:
        """See `Ledger.release`."""
        with self._transaction() as db:
            db.executemany(
                "DELETE FROM claims WHERE run_id = ? AND key = ? AND origin = ?",
                [(run_id, key, origin) for key, origin in claims.items()],
            )

    def forget_claims(self, run_id: str) -> None:
        """See `Ledger.forget_claims`."""
        with self._transaction() as db:
            db.execute("DELETE FROM claims WHERE run_id = ?", [run_id])
            db.execute("DELETE FROM holders WHERE run_id = ?", [run_id])

    def reserve(self, run_id: str, limit: int, count: int) -> int:
        """See `Ledger.reserve`."""
        with self._transaction() as db:
            row = db.execute("SELECT reserved FROM budgets WHERE run_id = ?", [run_id]).fetchone()
            taken = row[0] if row else 0
            granted = max(0, min(count, limit - taken))
            db.execute("INSERT OR REPLACE INTO budgets VALUES (?,?)", [run_id, taken + granted])
            return granted

    def give_back(self, run_id: str, count: int) -> None:
        """See `Ledger.give_back`."""
        with self._transaction() as db:
            db.execute("UPDATE budgets SET reserved = max(0, reserved - ?) WHERE run_id = ?", [count, run_id])

    def count(self, name: str, units: int) -> int:
        """See `Ledger.count`. The budgets of calls are in the same table, under their runs' IDs."""
        with self._transaction() as db:
            row = db.execute("SELECT reserved FROM budgets WHERE run_id = ?", [name]).fetchone()
            counted = max(0, (row[0] if row else 0) + units)
            if units:
                db.execute("INSERT OR REPLACE INTO budgets VALUES (?,?)", [name, counted])
            return counted

    def summary(self) -> list[ModelSummary]:
        """See `Ledger.summary`."""
        rows = self._select(
            "SELECT model_id, count(*), sum(length(response)), min(asked_at), max(asked_at)"
            " FROM responses GROUP BY model_id ORDER BY model_id",
            [],
        )
        return [
            ModelSummary(str(model), int(count), int(size), _moment(oldest), _moment(newest))
            for model, count, size, oldest, newest in rows
        ]

    def entries(self) -> Iterable[Entry]:
        """See `Ledger.entries`."""
        last = 0
        while rows := self._select(
            f"SELECT {self._columns}, rowid FROM responses WHERE rowid > ? ORDER BY rowid LIMIT 500", [last]
        ):
            for row in rows:
                yield self._entry(row[:-1])
            last = int(rows[-1][-1])

    def rewrite(self, changed: Callable[[Entry], Entry | None]) -> int:
        """See `Ledger.rewrite`. All entries change together. The file keeps no data of the old ones.

        The changed entries are first collected in a temporary table, so that other users wait only while
        they are copied.
        """
        with self._failing() as db:
            db.execute("CREATE TEMP TABLE changed (key BLOB, answered_at INT, response BLOB, unread BLOB)")
        try:
            for entry in self.entries():
                new = changed(entry)
                if new is not None:
                    unread = None if new.unread_json is None else pack(new.unread_json.encode())
                    row = (entry.key, _micros(entry.answered_at), pack(new.response), unread)
                    with self._failing() as db:
                        db.execute("INSERT INTO changed VALUES (?,?,?,?)", row)
            with self._failing() as db:
                db.execute("PRAGMA secure_delete=ON")
            with self._transaction() as db:
                done = db.execute(
                    "UPDATE responses SET response = new.response, unread_json = new.unread"
                    " FROM changed AS new"
                    " WHERE responses.key = new.key AND responses.answered_at = new.answered_at"
                )
            # The `-wal` file also holds old responses until it is merged. This is done even when nothing
            # changed now, because an earlier process may have been killed before its merge.
            with self._failing() as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            with self._failing() as db:
                db.execute("DROP TABLE temp.changed")
        return done.rowcount

    def close(self) -> None:
        """See `Ledger.close`."""
        with self._lock:
            self._db.close()
            if self._rows_file is not None:
                self._rows_file.close()
                self._rows_file = None

    def _entry(self, row: Sequence[Any]) -> Entry:
        try:
            return _entry(row)
        except (zstandard.ZstdError, OverflowError, TypeError, ValueError):
            raise LedgerError(
                f"The ledger {self._path} is damaged: a response in it can't be unpacked. Move it away to "
                "start a new one."
            ) from None


def _error(path: str, error: sqlite3.Error | OSError, says: str) -> LedgerError:
    """Return an error that says that another program locks the ledger, or else has the text `says`."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerError(
            f"The ledger {path} has been locked by another program for {BUSY_SECONDS:.0f} s: wait for it or "
            "end it, and run the same command again."
        )
    return LedgerError(says)


def _connect(path: str, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{Path(path).absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _open_to_read(path: str) -> sqlite3.Connection:
    db = _connect(path, "ro")
    try:
        if _is_new(db):
            raise sqlite3.DatabaseError("it is empty")
        rows_file.check(path, db)
    except BaseException:
        db.close()
        raise
    return db


def _open_to_write(path: str) -> sqlite3.Connection:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if Path(path).exists():
        # First a read-only connection, so that a file that is refused is not changed.
        with closing(_connect(path, "ro")) as db:
            if not _is_new(db):
                rows_file.check(path, db)
    db = _connect(path, "rwc")
    try:
        _use_wal(db)
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("PRAGMA cache_size=-16000")
        with _transaction_on(db):
            if _is_new(db):
                for statement in _TABLES.strip().rstrip(";").split(";\n"):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id={APPLICATION_ID}")
                db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            for column in _LATER.keys() - _columns_of(db):
                db.execute(f"ALTER TABLE responses ADD COLUMN {column} {_LATER[column]}")
            for statement in _LATER_TABLES:
                db.execute(statement)
            rows_file.prepare(db)
            # Remove what killed processes have left.
            db.execute("DELETE FROM holders WHERE alive_until <= ?", [time.time()])
            db.execute("DELETE FROM leases WHERE holder NOT IN (SELECT holder FROM holders)")
    except BaseException:
        db.close()
        raise
    return db


def _open_rows_file(path: str, db: sqlite3.Connection) -> RowsFile:
    # The name must not be lost with the `-wal` file.
    _checkpoint(db)
    return RowsFile(path, rows_file.last_row(db))


def _checkpoint(db: sqlite3.Connection) -> None:
    """Move committed entries to the main file, as far as current readers allow."""
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _columns_of(db: sqlite3.Connection) -> set[str]:
    return {str(row[1]) for row in db.execute("PRAGMA table_info(responses)")}


def _columns_to_read(db: sqlite3.Connection) -> str:
    there = _columns_of(db)
    return ", ".join([_COLUMNS, *(column if column in there else "NULL" for column in _LATER)])


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL mode. Retries, as SQLite does not wait here for a process that does the same."""
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > give_up:
                raise
        time.sleep(0.02)


def _is_new(db: sqlite3.Connection) -> bool:
    """Whether the file is empty.

    Raises:
        sqlite3.Error: The file holds something other than a ledger of this version.
    """
    # The tables are read first: when another process creates the ledger now, it writes its mark with them.
    empty = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    mark = db.execute("PRAGMA application_id").fetchone()[0]
    if mark != APPLICATION_ID:
        if empty and mark == 0:
            return True
        raise sqlite3.DatabaseError("it is a database of another program")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"its format is {version}, and this version reads {SCHEMA_VERSION}")
    return False


def _parts(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), _MOST_PARAMETERS):
        yield keys[start : start + _MOST_PARAMETERS]


def _insert(db: sqlite3.Connection, insert: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows; return the number of the last one, or 0 when there is none."""
    last = 0
    for start in range(0, len(rows), _ROWS_A_STATEMENT):
        part = rows[start : start + _ROWS_A_STATEMENT]
        marks = f"({','.join('?' * len(part[0]))})"
        done = db.execute(insert + ",".join([marks] * len(part)), [value for row in part for value in row])
        last = done.lastrowid or 0
    return last


@contextmanager
def _transaction_on(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # SQLite itself ends the transaction in some cases, as when the disk is full.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


def _entry(row: Sequence[Any]) -> Entry:
    key, question_id, turn_index, model_id, attempts, latency_ms, asked_at, answered_at, response = row[:9]
    first_part_ms, unread_json = row[9:]
    return Entry(
        key=bytes(key),
        question_id=str(question_id),
        turn_index=int(turn_index),
        model_id=str(model_id),
        response=unpack(response),
        attempts=int(attempts),
        latency_ms=float(latency_ms),
        asked_at=_moment(asked_at),
        answered_at=_moment(answered_at),
        first_part_ms=None if first_part_ms is None else float(first_part_ms),
        unread_json=None if unread_json is None else unpack(unread_json).decode(),
    )
