"""A run whose calling stops before the end: it says so, and what it says to do works."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.run import session
from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.calling import shared
from groundrows.transforms.generate.ledger import sqlite
from groundrows.transforms.generate.ledger.redis import RedisLedger
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from tests.support.services import free_port, redis_server
from tests.support.tools import Groundrows, is_one_sentence, prompts_of, rows, run_json, write_lines

COUNT = 120
IN_FLIGHT = 4
ADVICE = "run the same command again"


@pytest.fixture(autouse=True)
def _interpreter_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "tune_interpreter", lambda: None)


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


@pytest.fixture
def address(calls: Path) -> Iterator[str]:
    flags = ["--answers=canned", "--latency=0.01", f"--call_log={calls}"]
    with running_emulator("--port=0", *flags) as emulator:
        yield emulator.address


@pytest.fixture
def groundrows(capsys: pytest.CaptureFixture[str], address: str) -> Groundrows:
    """The program, asking the emulator at `address`."""
    return Groundrows(capsys, "--service=emulator", f"--endpoint={address}")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    records = [
        {"id": f"q{number}", "question": f"When was bridge {number} built?"} for number in range(COUNT)
    ]
    return write_lines(tmp_path / "archive.jsonl", [*records, b"{"])


def command(archive: Path, out: Path, *flags: str) -> list[str]:
    always = [f"--input={archive}", f"--output={out}", f"--max_in_flight={IN_FLIGHT}", "--batch_size=4"]
    return [*always, "--quiet", *flags]


def broken_after(count: int, before: Callable[..., Any]) -> Callable[..., Any]:
    """A ledger's `put_many` on a disk that is full once it holds so many entries."""
    stored = 0

    def put_many(self: Any, entries: Any) -> None:
        nonlocal stored
        if stored >= count:
            raise LedgerError("The ledger can't be used: database or disk is full; make room.")
        stored += len(entries)
        before(self, entries)

    return put_many


def check_taken_up(out: Path, calls: Path, *, paid_twice: int = 0) -> None:
    """Everything is answered once, in rows and, but for what was in flight, in calls."""
    run = run_json(out)
    assert run["balanced"]
    assert run["answered"] + run["already_answered"] == COUNT
    assert (run["records_read"], run["failed"], run["failures_by_code"]) == (
        COUNT + 1,
        1,
        {"INVALID_JSON": 1},
    )
    assert sorted(row["question_id"] for row in rows(out, "answers")) == sorted(f"q{n}" for n in range(COUNT))
    assert len(rows(out, "failures")) == 1
    asked = prompts_of(calls)
    assert len(set(asked)) == COUNT
    assert len(asked) <= COUNT + paid_twice


@pytest.mark.parametrize("again", [[], ["--overwrite"], ["--append"]], ids=str)
def test_a_ledger_on_a_full_disk(
    groundrows: Groundrows,
    archive: Path,
    tmp_path: Path,
    calls: Path,
    monkeypatch: pytest.MonkeyPatch,
    again: list[str],
) -> None:
    out = tmp_path / "out"
    flags = command(archive, out, *again)
    with monkeypatch.context() as patched:
        patched.setattr(SqliteLedger, "put_many", broken_after(20, SqliteLedger.put_many))
        result = groundrows("run", *flags)
    assert result.code == 1
    assert ADVICE in result.err
    assert is_one_sentence(result.err.splitlines()[-1])
    assert not (out / "run.json").exists()
    answered = len(rows(out, "answers"))
    assert 20 <= answered < COUNT
    assert f" {answered} of {COUNT + 1} records are answered" in result.err
    # What it says to do.
    assert groundrows("run", *flags).code == 0
    check_taken_up(out, calls)
    assert run_json(out)["already_answered"] == answered


LOCKER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_program_that_locks(ledger: Path) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", LOCKER, ledger], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as locker:
        assert locker.stdout is not None
        assert locker.stdout.readline() == b"locked\n"
        yield
        locker.kill()


def test_a_sqlite_ledger_that_another_program_keeps_locked(
    capsys: pytest.CaptureFixture[str],
    address: str,
    archive: Path,
    tmp_path: Path,
    calls: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groundrows = Groundrows(capsys, "--service=emulator", f"--endpoint={address}")
    out = tmp_path / "out"
    ledger = out / ".groundrows" / "ledger.sqlite"
    flags = command(archive, out)
    before = SqliteLedger.put_many
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.3)
    with ExitStack() as locks:

        def put_many(self: Any, entries: Any) -> None:
            before(self, entries)
            if len(prompts_of(calls)) > 20 and not locked:
                locked.append(ledger)
                locks.enter_context(another_program_that_locks(ledger))

        locked: list[Path] = []
        with monkeypatch.context() as patched:
            patched.setattr(SqliteLedger, "put_many", put_many)
            result = groundrows("run", *flags)
        assert locked
        assert (result.code, (out / "run.json").exists()) == (1, False)
        assert ADVICE in result.err
        assert is_one_sentence(result.err.splitlines()[-1])
        # As long as it is locked, that is what the same command says.
        asked = len(prompts_of(calls))
        for told in (groundrows("run", *flags), groundrows("run", *flags, "--overwrite")):
            assert told.code == 2
            assert f"The ledger {ledger} has been locked by another program" in told.err
            assert ADVICE in told.err
            assert is_one_sentence(told.err.splitlines()[-1])
        assert len(prompts_of(calls)) == asked
    assert groundrows("run", *flags).code == 0
    check_taken_up(out, calls)


def test_a_redis_that_comes_back_empty(
    groundrows: Groundrows,
    archive: Path,
    tmp_path: Path,
    calls: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    stored = 0
    before = RedisLedger.put_many

    def put_many(self: Any, entries: Any) -> None:
        nonlocal stored
        before(self, entries)
        stored += len(entries)
        if 20 <= stored < 20 + len(entries):
            self._redis.flushall()

    with redis_server() as server:
        flags = command(archive, out, f"--ledger=redis://127.0.0.1:{server.port}/0")
        with monkeypatch.context() as patched:
            patched.setattr(RedisLedger, "put_many", put_many)
            result = groundrows("run", *flags)
        assert (result.code, (out / "run.json").exists()) == (1, False)
        assert ADVICE in result.err
        assert groundrows("run", *flags).code == 0
    check_taken_up(out, calls)


def test_a_redis_that_is_gone_ends_the_run_and_it_goes_on_when_it_is_back(
    groundrows: Groundrows,
    archive: Path,
    tmp_path: Path,
    calls: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, port = tmp_path / "out", free_port()
    monkeypatch.setattr(RedisLedger.__init__, "__defaults__", (0.5, False))  # the patience
    flags = command(archive, out, f"--ledger=redis://127.0.0.1:{port}/0")
    before = RedisLedger.put_many
    with redis_server(port) as server, monkeypatch.context() as patched:

        def put_many(self: Any, entries: Any) -> None:
            before(self, entries)
            if len(prompts_of(calls)) > 20:
                server.process.kill()
                server.process.wait()

        patched.setattr(RedisLedger, "put_many", put_many)
        result = groundrows("run", *flags)
    assert (result.code, (out / "run.json").exists()) == (1, False)
    assert ADVICE in result.err
    with redis_server(port):
        assert groundrows("run", *flags).code == 0
    check_taken_up(out, calls)


@pytest.mark.parametrize("ledger", [[], ["--ledger=none"]], ids=str)
def test_a_service_that_refuses_everything_and_is_mended(
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    archive: Path,
    tmp_path: Path,
    calls: Path,
    ledger: list[str],
) -> None:
    out, port = tmp_path / "out", free_port()
    groundrows = Groundrows(capsys, "--service=emulator", f"--endpoint=127.0.0.1:{port}")
    flags = command(archive, out, *ledger)
    with running_emulator(f"--port={port}", "--faults=permission_denied:1.0"):
        result = groundrows("run", *flags)
    assert (result.code, (out / "run.json").exists()) == (1, False)
    assert "Calling stopped: 5 calls in a row failed with PERMISSION_DENIED" in caplog.text
    assert f"none of {COUNT + 1} records is answered" in result.err
    assert ADVICE in result.err
    with running_emulator(f"--port={port}", "--answers=canned", f"--call_log={calls}"):
        assert groundrows("run", *flags).code == 0
    check_taken_up(out, calls)


def test_a_replay_that_is_halted_goes_on(
    capsys: pytest.CaptureFixture[str], archive: Path, tmp_path: Path, calls: Path
) -> None:
    out, port = tmp_path / "out", free_port()
    groundrows = Groundrows(capsys, "--service=emulator", f"--endpoint=127.0.0.1:{port}")
    with running_emulator(f"--port={port}", "--answers=canned", f"--call_log={calls}"):
        assert groundrows("run", *command(archive, out, "--max_requests=20")).code == 0
    flags = [f"--failures={out}", f"--output={out}", "--append", f"--max_in_flight={IN_FLIGHT}", "--quiet"]
    with running_emulator(f"--port={port}", "--faults=permission_denied:1.0"):
        result = groundrows("replay", *flags)
    assert (result.code, (out / "run.json").exists()) == (1, False)
    assert ADVICE in result.err
    assert len(rows(out, "failures")) == COUNT + 1 - 20
    with running_emulator(f"--port={port}", "--answers=canned", f"--call_log={calls}"):
        assert groundrows("replay", *flags).code == 0
    run = run_json(out)
    assert (run["balanced"], run["answered"]) == (True, COUNT - 20)
    assert len({row["question_id"] for row in rows(out, "answers")}) == COUNT == len(prompts_of(calls))


def test_a_budget_that_is_spent_is_no_halt(groundrows: Groundrows, archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert groundrows("run", *command(archive, out, "--max_requests=20")).code == 0
    assert run_json(out)["failures_by_code"] == {"INVALID_JSON": 1, "NOT_ATTEMPTED": COUNT - 20}


def test_an_output_directory_that_is_taken_away_ends_the_run(
    groundrows: Groundrows,
    archive: Path,
    tmp_path: Path,
    calls: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    flags = command(archive, out)
    before = SqliteLedger.put_many
    stopped: list[int] = []

    def put_many(self: Any, entries: Any) -> None:
        """The directory goes while calls are out, and the test waits here until the run has noticed."""
        before(self, entries)
        if len(prompts_of(calls)) > 20 and not stopped:
            shutil.rmtree(out)
            limit = time.monotonic() + 30
            while not (halted := [engine.halt.reason for engine in shared.running()])[0]:
                assert time.monotonic() < limit, "it was never noticed"
                time.sleep(0.01)
            stopped.append(len(halted))

    with monkeypatch.context() as patched:
        patched.setattr(SqliteLedger, "put_many", put_many)
        result = groundrows("run", *flags)
    assert stopped == [1]
    assert result.code == 1
    assert f"--output={out} was removed while the run wrote to it" in result.err
    assert is_one_sentence(result.err.splitlines()[-1])
    asked = len(prompts_of(calls))
    assert asked < COUNT // 2
    assert groundrows("run", *flags).code == 0
    check_taken_up(out, calls, paid_twice=asked)
