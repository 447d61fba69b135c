"""The ledger as one SQLite file: the default, with nothing to install and nothing to run."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from transforms.generate.ledger.base import Entry, LedgerError, ModelSummary, NoLedgerError
from transforms.generate.ledger.packing import pack, unpack

# "GRws": written into the file's header, so that somebody else's database is never taken for a ledger.
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
  response BLOB NOT NULL
);
CREATE TABLE claims (
  run_id TEXT NOT NULL, key BLOB NOT NULL, origin TEXT NOT NULL, PRIMARY KEY (run_id, key)
) WITHOUT ROWID;
CREATE TABLE budgets (run_id TEXT PRIMARY KEY, reserved INTEGER NOT NULL) WITHOUT ROWID;
"""
_COLUMNS = "key, question_id, turn_index, model_id, attempts, latency_ms, asked_at, answered_at, response"
_MOST_PARAMETERS = 500


class SqliteLedger:
    """Responses in a SQLite file in WAL mode; several processes may share it.

    Commits are not followed by an fsync: a killed process loses nothing, a machine that loses power may
    lose the last moments.

    Args:
        path: The file; made when missing.
        read_only: Open what is there to read it alone; nothing is made and the file stays as it is.

    Raises:
        LedgerError: The file is damaged, is no ledger, or can't be opened. It is left as it was.
        NoLedgerError: It is to be read and is not there.
    """

    def __init__(self, path: str, read_only: bool = False) -> None:
        if read_only and not Path(path).exists():
            raise NoLedgerError(f"There is no ledger at {path}; check the path.")
        self._path = path
        # One lock and one connection: SQLite would serialize its writers anyway.
        self._lock = threading.Lock()
        try:
            if not read_only:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                f"file:{quote(path)}?mode={'ro' if read_only else 'rwc'}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._open(read_only)
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(
                f"The ledger {path} can't be used: {error}. Name another file with --ledger, or move this "
                "one away to start a new one."
            ) from None

    def _open(self, read_only: bool) -> None:
        existing = self._db.execute("PRAGMA application_id").fetchone()[0]
        empty = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if existing != APPLICATION_ID and (read_only or not empty):
            raise sqlite3.DatabaseError("it is empty" if empty else "it is a database of something else")
        if not read_only:
            self._prepare()
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"its format is {version}, and this version reads {SCHEMA_VERSION}")

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA cache_size=-16000")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _TABLES.strip().rstrip(";").split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id={APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        finally:
            self._db.execute("COMMIT")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                except BaseException:
                    self._db.execute("ROLLBACK")
                    raise
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                raise LedgerError(
                    f"The ledger {self._path} failed: {error}. What was answered so far is kept; free the "
                    "disk or name another file with --ledger, and run the same command again."
                ) from None

    def _select(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise LedgerError(
                    f"The ledger {self._path} can't be read: {error}. Move it away to start a new one."
                ) from None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """See `Ledger.get_many`."""
        found: dict[bytes, Entry] = {}
        for start in range(0, len(keys), _MOST_PARAMETERS):
            part = keys[start : start + _MOST_PARAMETERS]
            marks = ",".join("?" * len(part))
            for row in self._select(f"SELECT {_COLUMNS} FROM responses WHERE key IN ({marks})", part):
                entry = _entry(row)
                found[entry.key] = entry
        return found

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
                pack(entry.response),
            )
            for entry in entries
        ]
        with self._transaction() as db:
            db.executemany(f"INSERT OR REPLACE INTO responses ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", rows)

    def claim(self, run_id: str, claims: Mapping[bytes, str]) -> dict[bytes, str]:
        """See `Ledger.claim`."""
        with self._transaction() as db:
            db.executemany(
                "INSERT OR IGNORE INTO claims VALUES (?,?,?)",
                [(run_id, key, origin) for key, origin in claims.items()],
            )
        holders: dict[bytes, str] = {}
        keys = list(claims)
        for start in range(0, len(keys), _MOST_PARAMETERS):
            part = keys[start : start + _MOST_PARAMETERS]
            marks = ",".join("?" * len(part))
            for key, origin in self._select(
                f"SELECT key, origin FROM claims WHERE run_id = ? AND key IN ({marks})", [run_id, *part]
            ):
                holders[bytes(key)] = str(origin)
        return holders

    def forget_claims(self, run_id: str) -> None:
        """See `Ledger.forget_claims`. Claims of runs long gone are swept out with it."""
        with self._transaction() as db:
            db.execute("DELETE FROM claims")

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
            f"SELECT {_COLUMNS}, rowid FROM responses WHERE rowid > ? ORDER BY rowid LIMIT 500", [last]
        ):
            for row in rows:
                yield _entry(row[:-1])
            last = int(rows[-1][-1])

    def close(self) -> None:
        """See `Ledger.close`."""
        with self._lock:
            self._db.close()


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


def _entry(row: Sequence[Any]) -> Entry:
    key, question_id, turn_index, model_id, attempts, latency_ms, asked_at, answered_at, response = row
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
    )
