"""A run that is killed leaves no half-written file, pays for nothing twice, and is taken up where it was."""

import random
import re
import signal
import time
from pathlib import Path

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from tests.support.gemini import MODEL
from tests.support.runs import (
    calls,
    comparable,
    google_search,
    rows,
    run,
    start,
    stored,
    summary,
    write_lines,
)
from tests.system.test_main_job import questions

IN_FLIGHT = 32


# The benchmark `crash` kills twenty runs of each service.
@pytest.mark.parametrize(
    ("service", "count", "most_kills"), [("discoveryengine", 600, 4), ("gemini", 300, 2)]
)
def test_killed_at_random_moments(tmp_path, service, count, most_kills):
    source = write_lines(tmp_path / "questions.jsonl", questions(count))
    prompt_of = {record["id"]: record["question"] for record in questions(count)}
    log = tmp_path / "calls.jsonl"
    chance = random.Random(7)
    with running_emulator("--port=0", "--rest_port=0", "--latency=0.02", f"--call_log={log}") as emulator:
        asking = {
            "discoveryengine": ["--service=emulator", f"--endpoint={emulator.address}"],
            "gemini": [
                "--service=gemini",
                f"--model={MODEL}",
                f"--endpoint={emulator.rest_address}",
                "--requests_per_minute=1000000",
            ],
        }
        flags = [
            *asking[service],
            f"--input={source}",
            f"--request_defaults={google_search(tmp_path)}",
            f"--max_in_flight={IN_FLIGHT}",
            "--quiet",
        ]
        run(*flags, f"--output={tmp_path / 'undisturbed'}")
        log.write_text("")
        output = tmp_path / "killed"
        kills = 0
        for _ in range(most_kills):
            already = len(calls(log))
            kept = {prompt_of[question] for question in stored(output)}
            child = start(*flags, f"--output={output}")
            # From the first call on: somewhere in the run, its end and the publishing of files included.
            limit = time.monotonic() + 30
            while len(calls(log)) == already and child.poll() is None and time.monotonic() < limit:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.5))
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                kills += 1
            child.wait(10)
            for table in ("answers", "support_chunks", "claim_supports", "failures"):
                rows(output, table)  # reads every file under a final name, whole
            assert not kept & {call["prompt"] for call in calls(log)[already:]}
            if (output / "run.json").exists():
                break
        if not (output / "run.json").exists():
            already = len(calls(log))
            kept = {prompt_of[question] for question in stored(output)}
            run(*flags, f"--output={output}")
            assert not kept & {call["prompt"] for call in calls(log)[already:]}
        assert kills, "the run was never killed, so nothing was shown"
        said = summary(output)
        assert said["balanced"]
        assert said["answered"] == count
        assert comparable(output) == comparable(tmp_path / "undisturbed")
        assert len(calls(log)) <= count + kills * IN_FLIGHT


def test_a_ledger_that_lost_its_last_answers_is_noticed_and_the_advice_works(tmp_path):
    source = write_lines(tmp_path / "questions.jsonl", questions(200))
    log, output = tmp_path / "calls.jsonl", tmp_path / "out"
    ledger = output / ".groundrows" / "ledger.sqlite"
    with running_emulator("--port=0", "--latency=0.05", f"--call_log={log}") as emulator:
        flags = ["--service=emulator", f"--endpoint={emulator.address}", f"--input={source}"]
        flags += [f"--output={output}", "--max_in_flight=4", "--quiet"]
        child = start(*flags)
        limit = time.monotonic() + 30
        while (not log.exists() or len(calls(log)) < 30) and time.monotonic() < limit:
            time.sleep(0.01)
        child.kill()
        child.wait(10)
        wal = ledger.with_name("ledger.sqlite-wal")
        wal.unlink()
        asked = len(calls(log))
        refused = run(*flags, code=2)
        assert f"The ledger {ledger} has lost up to" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert len(calls(log)) == asked
        (advice,) = re.findall(r"remove (\S+) to continue", refused.stderr)
        Path(advice).unlink()
        run(*flags)
    said = summary(output)
    assert (said["balanced"], said["answered"]) == (True, 200)
    assert said["calls"] > 200 - asked + 4  # those that were lost, among others


def test_a_finished_run_is_never_mixed_with_another(tmp_path):
    source = write_lines(tmp_path / "questions.jsonl", questions(20))
    output = tmp_path / "out"
    flags = ["--service=emulator", f"--input={source}", f"--output={output}"]
    run(*flags)
    before = {path: path.read_bytes() for path in output.rglob("*.avro")}
    refused = run(*flags, code=2)
    assert "--overwrite" in refused.stderr
    assert "--append" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in output.rglob("*.avro")} == before
    run(*flags, "--overwrite")
    assert len(rows(output, "answers")) == 20


def test_append_asks_only_what_is_new(tmp_path):
    source = write_lines(tmp_path / "questions.jsonl", questions(20))
    output = tmp_path / "out"
    flags = ["--service=emulator", f"--input={source}", f"--output={output}", "--ledger=none"]
    run(*flags)
    write_lines(source, questions(35))
    run(*flags, "--append")
    said = summary(output)
    assert (said["answered"], said["already_answered"], said["calls"]) == (15, 20, 15)
    assert sorted(row["question_id"] for row in rows(output, "answers")) == sorted(f"q{n}" for n in range(35))
