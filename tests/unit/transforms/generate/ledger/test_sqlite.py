import os
import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.schemas.errors import LedgerError, NoLedgerError
from groundrows.transforms.generate.ledger.base import Entry
from groundrows.transforms.generate.ledger.packing import pack
from groundrows.transforms.generate.ledger.sqlite import APPLICATION_ID, SCHEMA_VERSION, SqliteLedger

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def an_entry(number, response=b"response", asked_at=NOW):
    return Entry(
        key=number.to_bytes(16, "big"),
        question_id=f"q{number}",
        turn_index=0,
        model_id="gemini",
        response=response,
        attempts=1,
        latency_ms=1.5,
        asked_at=asked_at,
        answered_at=asked_at + timedelta(seconds=1),
    )


def incompressible(size):
    return os.urandom(size)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path):
    ledger = SqliteLedger(str(path))
    yield ledger
    ledger.close()


def filled(path, count=2_000):
    """A closed ledger of many pages."""
    ledger = SqliteLedger(str(path))
    ledger.put_many([an_entry(number, incompressible(200)) for number in range(count)])
    ledger.close()


def make_text(path):
    path.write_text("This is a diary, and no ledger.\n" * 100)


def make_zeros(path):
    path.write_bytes(bytes(8192))


def make_truncated(path):
    filled(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 + 100)


def make_garbled_head(path):
    filled(path)
    with path.open("r+b") as file:
        file.seek(20)
        file.write(b"\xff" * 60)


def make_garbled_schema(path):
    filled(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\x99" * 3_000)


def make_foreign(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE diary (day TEXT)")
        db.execute("INSERT INTO diary VALUES ('monday')")
    db.close()


def make_foreign_wal(path):
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE diary (day TEXT)")
    db.close()


def make_foreign_and_empty(path):
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA application_id=4711")
    db.close()


def make_newer(path):
    filled(path, 10)
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
        db.execute("CREATE TABLE novelties (x)")
    db.close()


REFUSED = [
    make_text,
    make_zeros,
    make_truncated,
    make_garbled_head,
    make_garbled_schema,
    make_foreign,
    make_foreign_wal,
    make_foreign_and_empty,
    make_newer,
]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_a_file_that_is_no_ledger_is_refused_with_a_sentence_and_left_as_it_was(make, read_only, path):
    make(path)
    before = path.read_bytes()
    with pytest.raises(LedgerError) as caught:
        SqliteLedger(str(path), read_only)
    says = str(caught.value)
    assert str(path) in says
    assert "--ledger" in says
    assert "\n" not in says
    assert path.read_bytes() == before


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="can't be used"):
        SqliteLedger(str(tmp_path))


def test_a_place_that_can_not_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="can't be used"):
        SqliteLedger(str(tmp_path / "file" / "ledger"))


def test_directories_on_the_way_are_made(tmp_path):
    SqliteLedger(str(tmp_path / "a b" / "c%20?#" / "ledger")).close()
    assert (tmp_path / "a b" / "c%20?#" / "ledger").exists()


def test_to_be_read_it_must_be_there_and_nothing_is_made(path):
    with pytest.raises(NoLedgerError):
        SqliteLedger(str(path), read_only=True)
    assert not path.exists()
    path.touch()
    with pytest.raises(LedgerError, match="empty"):
        SqliteLedger(str(path), read_only=True)
    assert path.read_bytes() == b""


def test_an_empty_file_becomes_a_ledger(path):
    path.touch()
    ledger = SqliteLedger(str(path))
    ledger.put_many([an_entry(1)])
    ledger.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    db.close()


def test_a_ledger_that_is_read_stays_as_it_was_and_can_not_be_written(path):
    filled(path, 100)
    before = path.read_bytes()
    ledger = SqliteLedger(str(path), read_only=True)
    assert len(list(ledger.entries())) == 100
    with pytest.raises(LedgerError):
        ledger.put_many([an_entry(1)])
    ledger.close()
    assert path.read_bytes() == before


def test_damage_inside_is_an_error_and_never_a_wrong_answer(path):
    filled(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 4))
    ledger = SqliteLedger(str(path))

    def read_all():
        for number in range(2_000):
            for found in ledger.get_many([an_entry(number).key]).values():
                assert found.question_id == f"q{number}"
        list(ledger.entries())

    with pytest.raises(LedgerError) as caught:
        read_all()
    ledger.close()
    assert str(path) in str(caught.value)


def test_a_response_that_does_not_unpack_is_an_error(path, ledger):
    ledger.put_many([an_entry(1)])
    with sqlite3.connect(path) as db:
        db.execute("UPDATE responses SET response = x'0001'")
    db.close()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.get_many([an_entry(1).key])
    with pytest.raises(LedgerError, match="damaged"):
        list(ledger.entries())


EARLIER = """
CREATE TABLE responses (
  key BLOB NOT NULL UNIQUE, question_id TEXT NOT NULL, turn_index INTEGER NOT NULL, model_id TEXT NOT NULL,
  attempts INTEGER NOT NULL, latency_ms REAL NOT NULL, asked_at INTEGER NOT NULL,
  answered_at INTEGER NOT NULL, response BLOB NOT NULL
);
CREATE TABLE claims (
  run_id TEXT NOT NULL, key BLOB NOT NULL, origin TEXT NOT NULL, PRIMARY KEY (run_id, key)
) WITHOUT ROWID;
CREATE TABLE budgets (run_id TEXT PRIMARY KEY, reserved INTEGER NOT NULL) WITHOUT ROWID;
"""
EARLIER_INSERT = """
INSERT OR REPLACE INTO responses (key, question_id, turn_index, model_id, attempts, latency_ms, asked_at,
                                  answered_at, response) VALUES (?,?,?,?,?,?,?,?,?)
"""


def write_as_earlier(db, entry):
    micros = [round(moment.timestamp() * 1_000_000) for moment in (entry.asked_at, entry.answered_at)]
    said = (entry.key, entry.question_id, entry.turn_index, entry.model_id, entry.attempts, entry.latency_ms)
    db.execute(EARLIER_INSERT, (*said, *micros, pack(entry.response)))


@pytest.fixture
def earlier(path):
    """A file as the first version made it, with one entry."""
    with sqlite3.connect(path) as db:
        db.executescript(EARLIER)
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        db.execute("PRAGMA user_version=1")
        write_as_earlier(db, an_entry(1))
    db.close()
    return path


NEW = replace(an_entry(2), first_part_ms=12.5, unread_json='{"novelty": "ä"}')


def test_an_earlier_file_is_read_and_written(earlier):
    for _ in range(2):  # the second time there is nothing left to add
        ledger = SqliteLedger(str(earlier))
        ledger.put_many([NEW])
        assert list(ledger.entries()) == [an_entry(1), NEW]
        assert ledger.get_many([an_entry(1).key, NEW.key]) == {an_entry(1).key: an_entry(1), NEW.key: NEW}
        ledger.close()


def test_an_earlier_file_that_is_only_read_stays_as_it_was(earlier):
    before = earlier.read_bytes()
    ledger = SqliteLedger(str(earlier), read_only=True)
    assert list(ledger.entries()) == [an_entry(1)]
    assert ledger.summary()[0].entries == 1
    ledger.close()
    assert earlier.read_bytes() == before


def test_the_earlier_version_can_go_on_with_a_file_of_this_one(earlier):
    ledger = SqliteLedger(str(earlier))
    ledger.put_many([NEW])
    with sqlite3.connect(earlier) as db:
        write_as_earlier(db, an_entry(3))
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    db.close()
    assert list(ledger.entries()) == [an_entry(1), NEW, an_entry(3)]
    ledger.close()


def test_an_earlier_file_that_several_open_at_once_gets_its_columns_once(earlier):
    barrier, errors = threading.Barrier(6), []

    def open_it():
        barrier.wait(10)
        try:
            SqliteLedger(str(earlier)).close()
        except LedgerError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert errors == []


def test_json_that_does_not_unpack_is_an_error(path, ledger):
    ledger.put_many([NEW])
    with sqlite3.connect(path) as db:
        db.execute("UPDATE responses SET unread_json = x'0001'")
    db.close()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.get_many([NEW.key])


@settings(max_examples=25, deadline=None)
@given(moments=st.lists(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))))
def test_moments_come_back_to_the_microsecond(moments):
    with TemporaryDirectory() as directory:
        ledger = SqliteLedger(f"{directory}/ledger")
        entries = {
            entry.key: entry for entry in (an_entry(i, b"", moment) for i, moment in enumerate(moments))
        }
        ledger.put_many(list(entries.values()))
        assert ledger.get_many(list(entries)) == entries
        ledger.close()


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 2_345])
def test_batches_of_any_size(ledger, count):
    entries = [an_entry(number) for number in range(count)]
    ledger.put_many(entries)
    keys = [entry.key for entry in entries]
    assert ledger.get_many([*keys, b"missing"]) == dict(zip(keys, entries, strict=True))
    assert set(ledger.claim("run", {key: f"origin {key!r}" for key in keys})) == set(keys)
    assert list(ledger.entries()) == entries


def full_at(ledger, more_pages):
    """Let the file grow by so many pages and no more, as on a disk that is nearly full."""
    pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
    ledger._db.execute(f"PRAGMA max_page_count={pages + more_pages}")


def test_a_disk_that_is_full_is_an_error_and_what_was_kept_stays(path, ledger):
    ledger.put_many([an_entry(1)])
    full_at(ledger, 3)
    with pytest.raises(LedgerError) as caught:
        ledger.put_many([an_entry(number, incompressible(1_000)) for number in range(2, 100)])
    assert "full" in str(caught.value)
    assert str(path) in str(caught.value)
    # All of a batch or none of it.
    assert set(ledger.get_many([an_entry(number).key for number in range(100)])) == {an_entry(1).key}
    # Once there is room again it goes on.
    full_at(ledger, 1_000)
    ledger.put_many([an_entry(2)])
    assert len(ledger.get_many([an_entry(1).key, an_entry(2).key])) == 2


def test_every_write_fails_cleanly_on_a_full_disk(ledger):
    filling = {number.to_bytes(16, "big"): "x" * 500 for number in range(1_000)}
    full_at(ledger, 1)
    for _ in range(2):
        with pytest.raises(LedgerError, match="full"):
            ledger.claim("run", filling)
        with pytest.raises(LedgerError, match="full"):
            ledger.put_many([an_entry(number, incompressible(1_000)) for number in range(100)])
    assert ledger.reserve("run", 5, 3) in (0, 3)
    assert ledger.claim("run", {b"k": "first"}) == {b"k": "first"}


def test_another_runs_claims_are_not_forgotten(ledger):
    ledger.claim("mine", {b"k": "a"})
    ledger.claim("theirs", {b"k": "b"})
    ledger.forget_claims("mine")
    assert ledger.claim("mine", {b"k": "c"}) == {b"k": "c"}
    assert ledger.claim("theirs", {b"k": "c"}) == {b"k": "b"}


def test_closed_is_closed(path):
    ledger = SqliteLedger(str(path))
    ledger.close()
    with pytest.raises(LedgerError):
        ledger.put_many([an_entry(1)])
    with pytest.raises(LedgerError):
        ledger.get_many([b"k"])


def test_threads_that_make_the_same_ledger_at_once_all_get_it(path):
    for round_ in range(20):
        barrier = threading.Barrier(6)
        errors = []

        def open_it(where=f"{path}{round_}", barrier=barrier, errors=errors):
            barrier.wait(10)
            try:
                SqliteLedger(where).close()
            except LedgerError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=open_it) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(40)
        assert errors == []
