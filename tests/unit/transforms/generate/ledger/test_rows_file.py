"""A ledger that has lost what was stored in it is noticed; one that has not is opened."""

import os
import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.ledger.base import Entry
from groundrows.transforms.generate.ledger.rows_file import Noted, noted_beside
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def entries(first: int, count: int) -> list[Entry]:
    return [
        Entry(number.to_bytes(16, "big"), f"q{number}", 0, "gemini", os.urandom(100), 1, 1.5, NOW, NOW)
        for number in range(first, first + count)
    ]


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def killed(path: Path, to: Path) -> None:
    """What a process that is killed now would leave, at another place: the bytes of its files, as they are."""
    for suffix in ("", "-wal", "-shm", "-rows"):
        if beside(path, suffix).exists():
            shutil.copyfile(beside(path, suffix), beside(to, suffix))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def left(tmp_path: Path, path: Path) -> Path:
    """A ledger as a killed process left it: 10 answers are in the main file, 5 in the `-wal` file."""
    writer, left = SqliteLedger(str(path)), tmp_path / "left.sqlite"
    writer.put_many(entries(0, 10))
    writer.settle()
    writer.put_many(entries(10, 5))
    killed(path, left)
    writer.close()
    return left


def count(path: Path, read_only: bool = False) -> int:
    ledger = SqliteLedger(str(path), read_only)
    try:
        return len(list(ledger.entries()))
    finally:
        ledger.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_what_a_killed_process_left_is_whole(left: Path, read_only: bool) -> None:
    assert count(left, read_only) == 15


@pytest.mark.parametrize("read_only", [False, True])
def test_a_lost_wal_file_is_noticed_and_both_ways_out_work(
    left: Path, tmp_path: Path, read_only: bool
) -> None:
    wal = beside(left, "-wal").rename(tmp_path / "found again")
    before = left.read_bytes()
    for _ in range(2):  # to open it in vain changes nothing
        with pytest.raises(LedgerError) as caught:
            SqliteLedger(str(left), read_only)
        assert left.read_bytes() == before
    says = str(caught.value)
    assert f"{left} has lost up to 5 stored answers" in says
    assert f"{left}-wal" in says
    assert f"remove {left}-rows" in says
    assert "\n" not in says
    shutil.copyfile(wal, beside(left, "-wal"))
    assert count(left, read_only) == 15


def test_without_its_rows_file_it_goes_on_with_what_is_there(left: Path) -> None:
    beside(left, "-wal").unlink()
    beside(left, "-rows").unlink()
    assert count(left) == 10
    assert count(left) == 10


def test_only_what_was_stored_since_the_last_settling_can_be_lost(path: Path, tmp_path: Path) -> None:
    writer, left = SqliteLedger(str(path)), tmp_path / "left.sqlite"
    writer.put_many(entries(0, 10))
    writer.settle()
    killed(path, left)
    writer.close()
    beside(left, "-wal").unlink()
    assert count(left) == 10


def test_a_kill_between_a_commit_and_its_note_is_no_loss(left: Path) -> None:
    noted = noted_beside(str(left))
    assert noted is not None
    beside(left, "-rows").write_text(f"{noted.name} {noted.row - 5:020d}\n")
    assert count(left) == 15


def test_an_older_copy_in_its_place_is_noticed(path: Path, tmp_path: Path) -> None:
    writer = SqliteLedger(str(path))
    writer.put_many(entries(0, 10))
    writer.close()
    shutil.copyfile(path, tmp_path / "backup")
    writer = SqliteLedger(str(path))
    writer.put_many(entries(10, 5))
    writer.close()
    shutil.copyfile(tmp_path / "backup", path)
    with pytest.raises(LedgerError, match="an older copy"):
        SqliteLedger(str(path))
    # The copy by itself is a ledger like any other, and so is one that was moved together with its note.
    assert count(tmp_path / "backup") == 10


@pytest.mark.parametrize("another", [0, 3])
def test_another_ledger_in_its_place_is_not_measured_by_its_note(
    path: Path, tmp_path: Path, another: int
) -> None:
    """Moved away to start a new one, as errors advise, or for one from elsewhere."""
    writer = SqliteLedger(str(path))
    writer.put_many(entries(0, 10))
    writer.close()
    path.unlink()
    if another:
        other = SqliteLedger(str(tmp_path / "other.sqlite"))
        other.put_many(entries(0, another))
        other.close()
        (tmp_path / "other.sqlite").rename(path)
    for _ in range(2):
        assert count(path) == another
    noted = noted_beside(str(path))
    assert noted is not None
    assert noted.row == another


@pytest.mark.parametrize("says", [b"", b"\0\xff", b"name", b"name 12x", b"a b c\n"])
def test_a_note_that_can_not_be_read_is_made_anew(left: Path, says: bytes) -> None:
    beside(left, "-rows").write_bytes(says)
    assert count(left) == 15
    noted = noted_beside(str(left))
    assert noted is not None
    assert noted.row == 15


def test_answers_that_are_removed_on_purpose_are_not_lost(path: Path) -> None:
    writer = SqliteLedger(str(path))
    writer.put_many(entries(0, 10))
    writer.close()
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM responses WHERE rowid > 2")
        db.commit()
        db.execute("VACUUM")
    db.close()
    assert count(path) == 2
    writer = SqliteLedger(str(path))
    writer.put_many(entries(20, 3))
    writer.close()
    assert count(path) == 5


def test_answers_that_are_replaced_are_not_lost(path: Path) -> None:
    for _ in range(3):
        writer = SqliteLedger(str(path))
        for _ in range(3):
            writer.put_many(entries(0, 10))
        writer.put_many([])
        writer.close()
        assert count(path) == 10


def test_several_writers_keep_one_note(path: Path, tmp_path: Path) -> None:
    writers = [SqliteLedger(str(path)) for _ in range(3)]
    for number in range(30):
        writers[number % 3].put_many(entries(number, 1))
        SqliteLedger(str(path), read_only=True).close()
    left = tmp_path / "left.sqlite"
    killed(path, left)
    for writer in writers:
        writer.close()
    assert count(path) == 30
    assert count(left) == 30


def test_a_note_that_can_not_be_written_is_an_error_of_the_ledger(path: Path) -> None:
    beside(path, "-rows").mkdir()
    with pytest.raises(LedgerError, match="-rows"):
        SqliteLedger(str(path))


def test_a_note_is_of_one_length(path: Path) -> None:
    """So that a write replaces all of the one before."""
    writer = SqliteLedger(str(path))
    size = beside(path, "-rows").stat().st_size
    writer.put_many(entries(0, 1_234))
    assert beside(path, "-rows").stat().st_size == size
    noted = noted_beside(str(path))
    assert isinstance(noted, Noted)
    assert noted.row == 1_234
    writer.close()
