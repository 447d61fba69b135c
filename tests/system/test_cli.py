"""The program: its commands, what it says when something goes wrong, and how it is stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from groundrows.pipeline import cli
from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.run import stopping
from groundrows.schemas.errors import UsageError
from tests.support.tools import Groundrows, is_one_sentence, prompts_of, rows, run_json, write_lines

COMMANDS = [
    *("run", "plan", "replay", "report", "browse", "export"),
    *("sql", "ledger", "expire", "emulator", "completion"),
]
GROUNDROWS = [sys.executable, "-c", "import sys; from groundrows.pipeline.cli import main; sys.exit(main())"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_emulator("--port=0", "--answers=canned") as emulator:
        yield emulator.address


@pytest.fixture
def groundrows(capsys: pytest.CaptureFixture[str], address: str) -> Groundrows:
    return Groundrows(capsys, "--service=emulator", f"--endpoint={address}")


def ending(how: Callable[[list[str]], int]) -> pytest.MonkeyPatch:
    patched = pytest.MonkeyPatch()
    patched.setitem(cli.COMMANDS, "run", replace(cli.COMMANDS["run"], run=how))
    return patched


def run_that(how: Callable[[list[str]], int]) -> int:
    """`groundrows run` when what is behind it does this."""
    patched = ending(how)
    try:
        return cli.main(["run"])
    finally:
        patched.undo()


def raising(error: BaseException) -> Callable[[list[str]], int]:
    def raise_it(_: list[str]) -> int:
        raise error

    return raise_it


# -- commands ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["help", "-h", "--help"])
def test_help_lists_every_command(capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert cli.main([word]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert list(cli.COMMANDS) == COMMANDS
    for command in COMMANDS:
        assert f"  {command} " in out


def test_no_command_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == cli.USAGE


@pytest.mark.parametrize("word", ["rum", "", "--input=a.jsonl", "run\nplan"])
def test_a_command_that_there_is_not(capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert cli.main([word]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert is_one_sentence(err)
    assert repr(word) in err


def test_help_comes_without_beam() -> None:
    code = (
        "import sys, contextlib\n"
        "from groundrows.pipeline.cli import main\n"
        "for command in ('run', 'plan', 'replay', 'ledger'):\n"
        "    for word in ('--help', '-h'):\n"
        "        assert main([command, '--service=emulator', word]) == 0\n"
        "with contextlib.suppress(SystemExit): main(['emulator', '--help'])\n"
        "assert main(['help']) == 0\n"
        "assert main(['rum']) == 2\n"
        "heavy = {'apache_beam', 'grpc', 'pyarrow', 'numpy', 'fastavro', 'redis'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for flag in ("--requests_per_minute", "--price_per_1000_requests", "--failures", "--export", "--latency"):
        assert f"  {flag}" in done.stdout
    # Every flag of a run says what it is for, or what it takes.
    assert "--share_identical     Send equal requests only once" in done.stdout


def test_the_module_is_the_run_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: groundrows run ")


# -- errors ------------------------------------------------------------------------------------------------


def test_bad_flags_are_a_sentence_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_that(raising(UsageError("Give\n--input=a.jsonl."))) == 2
    assert capsys.readouterr() == ("", "Give --input=a.jsonl.\n")


def test_an_error_nobody_expected_is_a_sentence_and_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_that(raising(KeyError("x"))) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert is_one_sentence(err)
    assert err.startswith("The run failed: KeyError: 'x'; ")


def test_the_traceback_is_there_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDROWS_TRACEBACK", "1")
    with pytest.raises(KeyError):
        run_that(raising(KeyError("x")))
    # What the user did is no mystery.
    assert run_that(raising(UsageError("Give --input."))) == 2
    assert run_that(raising(KeyboardInterrupt())) == 1


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_exit_codes_are_handed_on(code: int) -> None:
    assert run_that(lambda _: code) == code


def test_an_exit_stays_an_exit() -> None:
    with pytest.raises(SystemExit) as raised:
        run_that(raising(SystemExit(5)))
    assert raised.value.code == 5


def test_a_disk_that_fills_up_ends_a_run_in_one_sentence_and_it_goes_on_from_there(
    groundrows: Groundrows, address: str, tmp_path: Path
) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": os.urandom(4000).hex()} for _ in range(100)])
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}", "--ledger=none", "--quiet"]
    # No file may grow over 100 kB: the system's own error, as on a full disk.
    limited = (
        "import resource, sys; from groundrows.pipeline.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); sys.exit(main())"
    )
    command = [sys.executable, "-c", limited, "run", "--service=emulator", f"--endpoint={address}", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert is_one_sentence(done.stderr), done.stderr
    assert "at step 'Write/Write': [Errno 27] File too large; fix that" in done.stderr
    assert list((tmp_path / "out").glob("*/*.avro")) == []
    assert not (tmp_path / "out" / "run.json").exists()
    run_id = json.loads((tmp_path / "out" / ".run.json").read_text())["run_id"]

    assert groundrows("run", *flags).code == 0
    assert run_json(tmp_path / "out")["run_id"] == run_id
    assert len(rows(tmp_path / "out", "answers")) == 100


def test_a_reader_that_has_seen_enough(address: str, tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": "Why?"}])
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        command = [*GROUNDROWS, "plan", "--service=emulator", f"--endpoint={address}", f"--input={archive}"]
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("stdout", ["/dev/full", "a closed pipe"])
def test_a_run_that_has_finished_does_not_fail_because_nobody_reads_its_summary(
    address: str, tmp_path: Path, stdout: str
) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": "Why?"}])
    asked = [f"--input={archive}", f"--output={tmp_path / 'out'}"]
    if stdout == "/dev/full":
        said = os.open(stdout, os.O_WRONLY)
    else:
        ours, said = os.pipe()
        os.close(ours)
    try:
        command = [*GROUNDROWS, "run", "--service=emulator", f"--endpoint={address}", *asked]
        done = subprocess.run(command, stdout=said, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(said)
    assert done.returncode == 0, done.stderr
    full = "The summary could not be printed: No space left on device.\n"
    assert done.stderr == (full if stdout == "/dev/full" else "")
    assert run_json(tmp_path / "out")["answered"] == 1


def test_a_pipe_that_breaks_elsewhere_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_that(raising(BrokenPipeError(32, "Broken pipe"))) == 1
    assert "Broken pipe" in capsys.readouterr().err


# -- stopped -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("wrapped", [False, True], ids=["as it is", "wrapped by the runner"])
def test_a_signal_ends_a_command_with_one_sentence(
    capsys: pytest.CaptureFixture[str], signum: signal.Signals, wrapped: bool
) -> None:
    def work(_: list[str]) -> int:
        try:
            os.kill(os.getpid(), signum)
            time.sleep(20)
        except KeyboardInterrupt as stop:
            if wrapped:
                raise RuntimeError("KeyboardInterrupt [while running 'Generate/Call']") from stop
            raise
        return 0

    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert run_that(work) == 1
    assert capsys.readouterr() == ("", f"{stopping.SENTENCE}\n")
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    assert is_one_sentence(stopping.SENTENCE)


def test_a_signal_that_is_to_be_ignored_is_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopping.watched() as came:
            os.kill(os.getpid(), signal.SIGINT)
        assert came == []
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_can_run_commands() -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(cli.main(["rum"])))
    thread.start()
    thread.join()
    assert codes == [2]


def test_whoever_asks_twice_does_not_wait() -> None:
    code = (
        "import os, signal, time\n"
        "from groundrows.pipeline.run import stopping\n"
        "with stopping.watched():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(60)\n"
        "    finally:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{stopping.SENTENCE}\n")


def test_what_calls_is_stopped_before_anything_is_interrupted(capfd: pytest.CaptureFixture[str]) -> None:
    stopped: list[str] = []

    def stop_calling(name: str, calls: int) -> Callable[[], int]:
        return lambda: stopped.append(name) or calls  # type: ignore[func-returns-value]

    def work(_: list[str]) -> int:
        with stopping.stopped_first(stop_calling("over", 9)):
            pass
        with (
            stopping.stopped_first(stop_calling("one", 2)),
            stopping.stopped_first(stop_calling("other", 3)),
        ):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(20)
            finally:
                stopped.append("interrupted")
        return 0

    assert run_that(work) == 1
    assert stopped == ["one", "other", "interrupted"]
    assert capfd.readouterr().err == f"{stopping.WAITING.format(calls=5)}\n{stopping.SENTENCE}\n"
    assert is_one_sentence(stopping.WAITING.format(calls=5))


IN_FLIGHT = 16
WAITING = re.escape(stopping.WAITING).replace(r"\{calls\}", r"\d+")


def under_way(*flags: str) -> subprocess.Popen[str]:
    """`groundrows run` in a process of its own; whoever starts it ends it."""
    command = [*GROUNDROWS, "run", "--service=emulator", f"--max_in_flight={IN_FLIGHT}", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_asked(log: Path, count: int) -> None:
    deadline = time.monotonic() + 40
    while len(prompts_of(log)) < count:
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("signum", "flags"),
    [(signal.SIGTERM, []), (signal.SIGHUP, []), (signal.SIGINT, ["--direct_num_workers=2"])],
    ids=["one thread", "the terminal closes", "two threads"],
)
def test_a_run_that_is_stopped_waits_for_what_is_out_and_is_taken_up(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, signum: signal.Signals, flags: list[str]
) -> None:
    count = 3 * IN_FLIGHT
    questions = [{"question": f"What is {n}?"} for n in range(count)]
    archive = write_lines(tmp_path / "a.jsonl", [b"{", *questions, questions[0]])
    log, out = tmp_path / "calls.jsonl", tmp_path / "out"
    with running_emulator("--port=0", "--answers=canned", "--latency=2", f"--call_log={log}") as server:
        always = [f"--endpoint={server.address}", f"--input={archive}", f"--output={out}"]
        with under_way(*always, *flags) as process:
            until_asked(log, IN_FLIGHT + 1)  # the second round is out
            process.send_signal(signum)
            said = process.communicate(timeout=40)
        asked = prompts_of(log)
        assert IN_FLIGHT < len(asked) <= 2 * IN_FLIGHT
        assert (process.returncode, said[0]) == (1, "")
        told = re.search(r"at most (\d+) of (\d+) records", said[1])
        assert told is not None, said[1]
        left, records = map(int, told.groups())
        # The broken record is looked at again, and the repetition too unless it was reached.
        assert records == count + 2
        assert count - len(asked) + 1 <= left <= count - len(asked) + 2
        stopped = stopping.STORED_OF.format(stored=len(asked), left=left, records=records)
        assert is_one_sentence(stopped)
        assert re.fullmatch(f"{WAITING}\n{re.escape(stopped)}\n", said[1])
        assert list(out.glob("*/*.avro")) == []
        assert not (out / "run.json").exists()
        run_id = json.loads((out / ".run.json").read_text())["run_id"]

        resumed = Groundrows(capsys, "--service=emulator")("run", *always)
        assert resumed.code == 0
    from_ledger = f"{len(asked)} answers came from the ledger, where an earlier run stored them"
    assert from_ledger in resumed.out.splitlines()
    run = run_json(out)
    assert run["from_ledger"] == len(asked)
    assert (run["run_id"], run["answered"], run["balanced"]) == (run_id, count, True)
    assert (run["calls"], run["failed"], run["duplicates"]) == (count - len(asked), 1, 1)
    # Nothing was asked twice.
    assert sorted(prompts_of(log)) == sorted(f"What is {n}?" for n in range(count))


def test_a_second_signal_waits_for_no_call(tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": "What is it?"}])
    log = tmp_path / "calls.jsonl"
    slow = f"--emulator_flags=--answers=canned --latency=300 --call_log={log}"
    flags = [slow, "--deadline_seconds=300", f"--input={archive}", f"--output={tmp_path / 'out'}"]
    with under_way(*flags) as process:
        until_asked(log, 1)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert process.stderr.readline() == f"{stopping.WAITING.format(calls=1)}\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=40) == ("", f"{stopping.SENTENCE}\n")
    assert process.returncode == 1


def test_without_a_ledger_nothing_is_waited_for(tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "a.jsonl", [{"question": "What is it?"}])
    log = tmp_path / "calls.jsonl"
    slow = f"--emulator_flags=--answers=canned --latency=300 --call_log={log}"
    flags = [slow, "--deadline_seconds=300", f"--input={archive}", f"--output={tmp_path / 'out'}"]
    with under_way(*flags, "--ledger=none") as process:
        until_asked(log, 1)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=40) == ("", f"{stopping.NOTHING_STORED}\n")
    assert process.returncode == 1
