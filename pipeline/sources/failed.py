"""Which failures of earlier runs to ask again: each record once, by its latest failure."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from groundrows.pipeline.storage.files import open_for_writing
from groundrows.pipeline.storage.row_files import columns_of, readable_rows
from groundrows.pipeline.storage.row_formats.known import format_of
from groundrows.schemas.ids import hashed_id
from groundrows.schemas.tables import TABLES

_TABLES = """
CREATE TABLE failed (
  place INTEGER PRIMARY KEY, failure_id TEXT, record TEXT, generation INTEGER, failed_at REAL, run_id TEXT,
  question_id TEXT, turn_index INTEGER, code TEXT, retryable INTEGER, is_check INTEGER
);
CREATE TABLE taken (identity TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE chosen (place INTEGER PRIMARY KEY);
CREATE TABLE made_good (question_id TEXT, turn_index INTEGER, run_id TEXT, at REAL, is_check INTEGER);
"""
NO_RECORD = "no_record"
OLDER = "older"
ANSWERED = "answered_since"
CAPPED = "at_max_generations"
UNWANTED = "not_asked_for"


@dataclass(frozen=True, slots=True)
class FailureFilter:
    """Which failures are wanted.

    Attributes:
        only_retryable: Only those that may go well another time.
        codes: Only those of these codes, or None for all.
        max_generations: A record that was replayed so often is not replayed again.
    """

    only_retryable: bool
    codes: frozenset[str] | None
    max_generations: int


class FailedRecords:
    """The failures found and those chosen, noted in a scratch file that SQLite removes by itself.

    Two failures are of the same record when they have the same id, or the same bytes from the same origin;
    the one with the longest history, and of those the latest, stands for it. Failed checks and failures of
    the question itself are made good apart from each other, so each kind has one that stands for the record;
    where both are to be replayed, the record is so once. A failure is left out when

    - `no_record`: its row holds no whole record, as when an archive could not be read;
    - `older`: another failure stands for the record;
    - `answered_since`: a later run, whose rows were given too, answered the turn that failed, or checked it
      where a check had failed;
    - `not_asked_for`: it is of another code, or not retryable;
    - `at_max_generations`: it was replayed often enough; its row stays where it is.

    Args:
        failures: Files of the failures table.
        answers: Files of the answers table.
        checks: Files of the grounding_checks table.
        wanted: The filter.

    Attributes:
        found: Failures there are.
        left_out: How many of them are left out, by reason; the rest is chosen.

    Raises:
        UsageError: A file can't be read.
    """

    def __init__(
        self,
        failures: Sequence[str],
        answers: Sequence[str],
        checks: Sequence[str],
        wanted: FailureFilter,
    ) -> None:
        self.found = 0
        self.left_out = dict.fromkeys((NO_RECORD, OLDER, ANSWERED, CAPPED, UNWANTED), 0)
        self._files = failures
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(_TABLES)
        self._db.execute("BEGIN")
        self._note_failures()
        self._note_made_good(answers, "answers", "answered_at", is_check=False)
        self._note_made_good(checks, "grounding_checks", "checked_at", is_check=True)
        self._db.execute("CREATE INDEX by_turn ON made_good (question_id, turn_index)")
        self._choose(wanted)

    @property
    def chosen(self) -> int:
        """Failures to replay."""
        return self.found - sum(self.left_out.values())

    def write(self, path: str) -> None:
        """Copy the chosen rows, as they are and in their order, to a row file."""
        wanted = self._db.execute("SELECT place FROM chosen ORDER BY place")
        following = wanted.fetchone()
        with open_for_writing(path) as file:
            writer = format_of(path).writer(file, TABLES["failures"].schema)
            for place, row in enumerate(_rows(self._files, TABLES["failures"].schema)):
                if following is not None and place == following[0]:
                    writer.write_values(row)
                    following = wanted.fetchone()
            writer.close()

    def close(self) -> None:
        """Let go of the scratch file."""
        self._db.close()

    def _note_failures(self) -> None:
        for place, row in enumerate(_rows(self._files, TABLES["failures"].schema)):
            self.found += 1
            # What failed to be read is no record: of a line too long, say, the row holds the beginning.
            if not row["record"] or row["stage"] == "read":
                self.left_out[NO_RECORD] += 1
                continue
            values = (
                place,
                row["failure_id"],
                hashed_id("record", row["origin"], row["record"]),
                len(row["history"]),
                _seconds(row["failed_at"]),
                row["run_id"],
                row["question_id"],
                row["turn_index"],
                row["code"],
                row["retryable"],
                row["stage"] == "check",
            )
            self._db.execute("INSERT INTO failed VALUES (?,?,?,?,?,?,?,?,?,?,?)", values)

    def _note_made_good(self, files: Sequence[str], table: str, moment: str, *, is_check: bool) -> None:
        self._db.executemany(
            "INSERT INTO made_good VALUES (?,?,?,?,?)",
            (
                (row["question_id"], row["turn_index"], row["run_id"], _seconds(row[moment]), is_check)
                for row in _rows(files, columns_of(table, "run_id", "question_id", "turn_index", moment))
            ),
        )

    def _choose(self, wanted: FailureFilter) -> None:
        latest_first = self._db.execute(
            "SELECT place, failure_id, record, generation, code, retryable, is_check, EXISTS ("
            "  SELECT 1 FROM made_good WHERE made_good.question_id = failed.question_id"
            "  AND made_good.turn_index = failed.turn_index AND made_good.run_id != failed.run_id"
            "  AND made_good.at > failed.failed_at AND made_good.is_check = failed.is_check"
            ") FROM failed ORDER BY generation DESC, failed_at DESC, place"
        )
        for place, failure_id, record, generation, code, retryable, is_check, made_good in latest_first:
            if not self._take(f"{is_check} {failure_id}", f"{is_check} {record}"):
                self.left_out[OLDER] += 1
            elif made_good:
                self.left_out[ANSWERED] += 1
            elif (wanted.only_retryable and not retryable) or code not in (wanted.codes or (code,)):
                self.left_out[UNWANTED] += 1
            elif not self._take(failure_id, record):
                self.left_out[OLDER] += 1
            elif generation >= wanted.max_generations:
                self.left_out[CAPPED] += 1
            else:
                self._db.execute("INSERT INTO chosen VALUES (?)", [place])

    def _take(self, *identities: str) -> bool:
        """Whether nothing with any of these identities was taken before; they are from now on."""
        new = [
            self._db.execute("INSERT OR IGNORE INTO taken VALUES (?)", [identity]).rowcount
            for identity in identities
        ]
        return all(new)


def _rows(files: Iterable[str], columns: Any) -> Iterator[Any]:
    return readable_rows(files, columns)


def _seconds(moment: datetime) -> float:
    return moment.timestamp()
