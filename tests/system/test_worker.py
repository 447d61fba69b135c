"""A worker that is killed again and again loses no message and asks nothing twice; one that is stopped drains."""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from polars_avro import scan_avro

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.sinks.views import views
from groundrows.pipeline.storage.output import ledger_in
from groundrows.schemas.errors import NoLedgerError
from groundrows.transforms.generate.ledger.uri import open_ledger
from tests.support.relay import Relay, relay_to
from tests.support.runs import ROOT, calls, command, rows, summary
from tests.support.services import PubSub, Queue

GOOD = 1950
BAD = 50
KILLS = 10
IN_FLIGHT = 4


def question(number: int) -> bytes:
    return json.dumps({"id": f"q{number}", "question": f"How long is river {number}?"}).encode()


def start(pubsub: PubSub | Relay, queue: Queue, output: Path, *flags: str) -> subprocess.Popen[bytes]:
    """A worker as typed; whoever starts it stops it."""
    always = [
        "--service=emulator",
        f"--input_subscription={queue.subscription}",
        f"--output={output}",
        "--quiet",
    ]
    with (output.parent / "stderr.txt").open("ab") as stderr:
        return subprocess.Popen(
            command(*always, *flags),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, "PUBSUB_EMULATOR_HOST": pubsub.address},
        )


def said(output: Path) -> str:
    return (output.parent / "stderr.txt").read_text()


def until(what: Callable[[], Any], seconds: float = 60) -> Any:
    limit = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < limit, "it never came"
        time.sleep(0.02)
    return found


def asked(log: Path) -> list[str]:
    return [call["prompt"] for call in calls(log)]


def stored_prompts(output: Path) -> set[str]:
    """What the ledger holds answers to."""
    try:
        with closing(open_ledger(str(ledger_in(str(output))), read_only=True)) as ledger:
            return {f"How long is river {entry.question_id[1:]}?" for entry in ledger.entries()}
    except NoLedgerError:
        return set()


def latest_answers(output: Path) -> list[tuple[Any, ...]]:
    """The view that takes each answer once, as an analyst would see it."""
    query = views(None)["answers_latest"].partition(" AS\n")[2].rstrip("; \n")
    answers = scan_avro([str(path) for path in sorted((output / "answers").glob("*.avro"))]).collect()
    assert answers.height
    return duckdb.sql(f"SELECT question_id FROM ({query})").fetchall()


def test_killed_again_and_again(pubsub, tmp_path):
    chance = random.Random(11)
    log, output, queue = tmp_path / "calls.jsonl", tmp_path / "out", pubsub.new_queue(ack_deadline_seconds=10)
    bad = [b'{"question": "Who broke record %d?"' % number for number in range(BAD)]
    bodies = [question(number) for number in range(GOOD)] + bad
    chance.shuffle(bodies)
    pubsub.publish(queue, bodies)
    with running_emulator("--port=0", "--latency=0.02", f"--call_log={log}") as server:
        flags = [f"--endpoint={server.address}", f"--max_in_flight={IN_FLIGHT}"]
        stored: set[str] = set()
        killed_at_work = 0
        for _ in range(KILLS):
            before = len(asked(log))
            child = start(pubsub, queue, output, *flags)
            try:
                # From the first call of this process on: amid calls, files, or acknowledgements. Or at any
                # other time, where what is left is still kept for one that was killed.
                limit = time.monotonic() + 12
                while len(asked(log)) == before and time.monotonic() < limit:
                    time.sleep(0.02)
                time.sleep(chance.uniform(0, 1.2))
            finally:
                child.kill()
                assert child.wait(10) == -signal.SIGKILL, said(output)
            by_this_one = asked(log)[before:]
            killed_at_work += bool(by_this_one)
            assert not stored & set(by_this_one), "asked again although its response was stored"
            assert max(Counter(by_this_one).values(), default=1) == 1, "asked twice by one process"
            stored = stored_prompts(output)
            for table in ("answers", "failures"):
                rows(output, table)  # every file under a final name can be read to its end
        before = len(asked(log))
        # Started and then idle for longer, together, than a message is kept for one that was killed.
        last = start(pubsub, queue, output, *flags, "--stop_when_idle=8")
        assert last.wait(100) == 0, said(output)
        by_this_one = asked(log)[before:]
    assert killed_at_work >= 3, "the worker was mostly killed before it did anything"
    assert not stored & set(by_this_one)
    assert set(asked(log)) == {json.loads(question(number))["question"] for number in range(GOOD)}
    # Only the calls that were out at a kill are made again.
    assert len(asked(log)) - GOOD <= killed_at_work * IN_FLIGHT
    assert sorted(latest_answers(output)) == sorted((f"q{number}",) for number in range(GOOD))
    assert {row["record"] for row in rows(output, "failures")} == set(bad)
    assert len({row["failure_id"] for row in rows(output, "failures")}) == BAD
    assert summary(output)["balanced"]
    assert pubsub.waiting(queue) == []


def test_killed_between_writing_and_acknowledging(pubsub, tmp_path):
    output, queue = tmp_path / "out", pubsub.new_queue(ack_deadline_seconds=10)
    log = tmp_path / "calls.jsonl"
    pubsub.publish(queue, [question(number) for number in range(20)])
    failures = pubsub.new_queue()
    with running_emulator("--port=0", "--latency=1", f"--call_log={log}") as server:
        flags = [f"--endpoint={server.address}", f"--failures_topic={failures.topic}"]
        with relay_to(pubsub.address) as relay:
            child = start(relay, queue, output, *flags)
            try:
                until(lambda: log.exists() and asked(log))
                # No acknowledgement reaches Pub/Sub from now on.
                relay.swallowing.set()
                until(lambda: rows(output, "answers"))
            finally:
                child.kill()
                child.wait()
        pubsub.publish(queue, [b"broken"])
        child = start(pubsub, queue, output, *flags)
        try:
            until(lambda: len(rows(output, "answers")) == 40)
            child.send_signal(signal.SIGTERM)
            assert child.wait(30) == 0, said(output)
        finally:
            child.kill()
            child.wait()
    assert len(asked(log)) == 20
    assert sorted(latest_answers(output)) == sorted((f"q{number}",) for number in range(20))
    assert (summary(output)["answered"], summary(output)["calls"]) == (20, 0)
    assert len({row["failure_id"] for row in rows(output, "failures")}) == 1
    assert {message.data for message in pubsub.waiting(failures)} == {b"broken"}


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_stop_it_finishes_what_has_begun(pubsub, tmp_path, signum):
    output, queue = tmp_path / "out", pubsub.new_queue(ack_deadline_seconds=10)
    log = tmp_path / "calls.jsonl"
    pubsub.publish(queue, [question(number) for number in range(600)])
    server = f"--emulator_flags=--latency=0.2 --call_log={log}"
    child = start(pubsub, queue, output, server, f"--max_in_flight={IN_FLIGHT}")
    try:
        until(lambda: log.exists() and len(asked(log)) > 20)
        emulators = children(child.pid)
        child.send_signal(signum)
        assert child.wait(60) == 0, said(output)
    finally:
        child.kill()
        child.wait()
    assert "Stopping" in said(output)
    assert emulators
    assert not [pid for pid in emulators if Path(f"/proc/{pid}").exists()]
    told = summary(output)
    assert told["balanced"]
    assert told["worker"]["ended_by"] == "signal"
    assert told["records_read"] == told["answered"] == len(asked(log))
    answered = {row["question_id"] for row in rows(output, "answers")}
    assert 0 < len(answered) < 600
    back: set[str] = set()

    def all_came_back() -> bool:
        back.update(json.loads(message.data)["id"] for message in pubsub.waiting(queue))
        return len(back | answered) == 600

    until(all_came_back)
    assert back.isdisjoint(answered)
    assert back | answered == {f"q{number}" for number in range(600)}


def test_a_second_signal_waits_for_nothing(pubsub, tmp_path):
    output, queue = tmp_path / "out", pubsub.new_queue()
    log = tmp_path / "calls.jsonl"
    pubsub.publish(queue, [question(1)])
    with running_emulator("--port=0", "--latency=120", f"--call_log={log}") as server:
        child = start(pubsub, queue, output, f"--endpoint={server.address}", "--deadline_seconds=200")
        try:
            until(lambda: log.exists() and asked(log))
            child.send_signal(signal.SIGINT)
            until(lambda: "Stopping" in said(output))
            child.send_signal(signal.SIGINT)
            assert child.wait(10) == 1
        finally:
            child.kill()
            child.wait()
    assert "delivers the unacknowledged messages again" in said(output)
    assert not (output / "run.json").exists()
