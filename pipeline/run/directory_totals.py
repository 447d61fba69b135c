"""Totals of an output directory over all its runs: questions answered, still failed, and made good."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from groundrows.pipeline.run.accounting import Account
from groundrows.pipeline.storage import summaries
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import columns_of, readable_rows

# Failures of these stages are matched by the question's ID. A record that failed earlier is no question yet,
# so its failure is matched by its origin (file and line).
_OF_QUESTIONS = ("generate", "flatten")
_FAILED = columns_of("failures", "question_id", "turn_index", "stage", "origin", "failed_at")
# Files of the first versions have no column `question`.
_ANSWERED = columns_of(
    "answers", "question_id", "turn_index", "answered_at", "question", missing={"question": ""}
)

_TABLES = """
CREATE TABLE failed (
  question_id TEXT, origin TEXT, turn_index INTEGER, at REAL, is_question INTEGER,
  PRIMARY KEY (question_id, origin)
) WITHOUT ROWID;
CREATE TABLE answered (
  question_id TEXT, turn_index INTEGER, asked BLOB, at REAL, PRIMARY KEY (question_id, turn_index, asked)
) WITHOUT ROWID;
"""
_LATEST_FAILURE = """
INSERT INTO failed VALUES (?,?,?,?,?)
ON CONFLICT DO UPDATE SET turn_index = excluded.turn_index, at = excluded.at WHERE excluded.at > at
"""
_LATEST_ANSWER = "INSERT INTO answered VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)"
_OPEN = """
CREATE TEMP TABLE open AS SELECT * FROM failed WHERE NOT EXISTS (
  SELECT 1 FROM answered WHERE answered.question_id = failed.question_id
  AND answered.turn_index = failed.turn_index AND answered.at > failed.at
)
"""
_COUNTS = """
SELECT
  (SELECT count(*) FROM answered WHERE turn_index = 0 AND question_id NOT IN
    (SELECT question_id FROM open WHERE is_question AND turn_index > 0)),
  (SELECT count(*) FROM open),
  (SELECT count(*) FROM failed)
"""


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a directory.

    Attributes:
        answered: Number of questions of which every turn is answered.
        failed_open: Number of records that failed and that no later run answered.
        made_good: Number of records that failed and that a later run answered.
        runs: Number of runs that finished in the directory.
    """

    answered: int
    failed_open: int
    made_good: int
    runs: int


def totals_after(where: Output, account: Account, *, rows_are_many: bool = False) -> Totals:
    """Return the totals of a directory in which a run is about to finish.

    They are the run's own figures when it wrote the only rows. Otherwise the rows of all runs are read.

    Args:
        where: The directory, with the run's files under their final names.
        account: What the run did.
        rows_are_many: Don't read the rows; add the run's figures to the totals of the run before. A failure
            that this run made good then still counts as failed.

    Raises:
        UsageError: A file can't be read.
    """
    runs = summaries.count(where.path) + 1
    if not where.kept_files:
        return Totals(account.answered, account.failed, 0, runs)
    before = _before(where)
    if before is not None and not any(account.rows.values()):
        return Totals(before.answered, before.failed_open, before.made_good, runs)
    if before is not None and rows_are_many:
        return Totals(
            before.answered + account.answered, before.failed_open + account.failed, before.made_good, runs
        )
    return _of_rows(where, runs)


def _before(where: Output) -> Totals | None:
    """Return the totals in the last run's summary, or None when it has none, as in the first versions."""
    said = (summaries.earlier(where.path) or {}).get("directory")
    try:
        return Totals(**said) if isinstance(said, Mapping) else None
    except TypeError:
        return None


def _of_rows(where: Output, runs: int) -> Totals:
    # "" makes a temporary file, which keeps memory bounded and which SQLite removes.
    with closing(sqlite3.connect("", isolation_level=None)) as db:
        db.executescript(_TABLES)
        db.execute("BEGIN")
        db.executemany(_LATEST_FAILURE, _failures(where))
        db.executemany(_LATEST_ANSWER, _answers(where))
        db.execute(_OPEN)
        answered, failed_open, failed = db.execute(_COUNTS).fetchone()
        return Totals(answered, failed_open, failed - failed_open, runs)


def _failures(where: Output) -> Iterator[tuple[str, str, int, float, bool]]:
    for row in _rows(where, "failures", _FAILED):
        # A failed check is not a failed record: the record's answer exists.
        if row["stage"] != "check":
            is_question = row["stage"] in _OF_QUESTIONS
            origin = "" if is_question else row["origin"]
            yield row["question_id"], origin, row["turn_index"], _seconds(row["failed_at"]), is_question


def _answers(where: Output) -> Iterator[tuple[str, int, bytes, float]]:
    for row in _rows(where, "answers", _ANSWERED):
        # Two different questions may have the same ID, so the question's text is part of the key.
        asked = hashlib.blake2b(row["question"].encode("utf-8", "surrogatepass"), digest_size=16).digest()
        yield row["question_id"], row["turn_index"], asked, _seconds(row["answered_at"])


def _rows(where: Output, table: str, columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return readable_rows(where.table_files(table), columns)


def _seconds(moment: datetime) -> float:
    return moment.timestamp()
