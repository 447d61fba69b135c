"""The worker against a real Pub/Sub emulator: what becomes of a message, whatever happens meanwhile."""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundrows.pipeline.emulator.process import EmulatorProcess, running_emulator
from groundrows.pipeline.options.run import parse_run
from groundrows.pipeline.run import session
from groundrows.pipeline.sinks.failures_topic import MAX_GENERATION
from groundrows.pipeline.worker import run as worker_run
from groundrows.pipeline.worker.gathering import Limits
from groundrows.pipeline.worker.subscription import ACK_WAITS_SECONDS, Subscription
from groundrows.schemas.errors import UsageError
from groundrows.transforms.generate.calling import shared
from tests.support.services import PubSub, Queue, free_port, pubsub_emulator
from tests.support.tools import is_one_sentence, prompts_of, rows, run_json

WAIT_SECONDS = 60.0


@pytest.fixture
def work(pubsub: PubSub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs a worker until it is idle, in small batches that begin at once; returns the exit code."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    monkeypatch.setattr("groundrows.pipeline.worker.subscription.PULL_SECONDS", 2.0)
    monkeypatch.setattr(worker_run, "limits_for", lambda options: Limits(messages=25, seconds=0.2))

    def run(queue: Queue, server: str, *flags: str) -> int:
        options = parse_run(
            [
                "--service=emulator",
                f"--endpoint={server}",
                f"--input_subscription={queue.subscription}",
                f"--output={tmp_path / 'out'}",
                "--stop_when_idle=1",
                "--quiet",
                *flags,
            ]
        )
        return worker_run.run_worker(options, time.monotonic())

    return run


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


@pytest.fixture
def server(calls: Path) -> Iterator[EmulatorProcess]:
    with running_emulator("--port=0", f"--call_log={calls}") as emulator:
        yield emulator


def question(number: int, **more: Any) -> bytes:
    return json.dumps({"id": f"q{number}", "question": f"How long is river {number}?", **more}).encode()


def ids(found: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(row["question_id"] for row in found)


def wait_for(what: Callable[[], Any]) -> Any:
    limit = time.monotonic() + WAIT_SECONDS
    while not (found := what()):
        assert time.monotonic() < limit, "it never came"
        time.sleep(0.05)
    return found


def test_every_message_ends_as_rows_and_is_acknowledged(pubsub, work, server, calls, tmp_path):
    before = set(threading.enumerate())
    queue, failures = pubsub.new_queue(), pubsub.new_queue()
    pubsub.publish(queue, [question(number) for number in range(40)], shop="Ærø")
    same = pubsub.publish(queue, [question(3), question(3, metadata={"again": True})], shop="Ærø")
    broken = [b"", b"{", b"\xff\xfe", b'{"question": "a", "turns": ["b"]}']
    pubsub.publish(queue, broken, shop="Ærø")
    assert work(queue, server.address, f"--failures_topic={failures.topic}") == 0
    said, out = run_json(tmp_path / "out"), tmp_path / "out"
    assert said["balanced"]
    assert (said["records_read"], said["answered"], said["failed"], said["duplicates"]) == (46, 40, 4, 2)
    assert said["rows"] == {table: len(rows(out, table)) for table in said["rows"]}
    assert said["quantiles"]["latency_ms"]["max"] > 0
    assert said["worker"]["ended_by"] == "idle"
    assert said["worker"]["batches"] > 1
    assert ids(rows(out, "answers")) == sorted(f"q{number}" for number in range(40))
    assert all("Ærø" in row["metadata"] for row in rows(out, "answers"))
    assert sorted(row["record"] for row in rows(out, "failures")) == sorted(broken)
    assert all(row["origin"].startswith(f"{queue.subscription}:") for row in rows(out, "failures"))
    assert len(prompts_of(calls)) == 40
    assert len(same) == 2
    told = pubsub.waiting(failures)
    assert sorted(message.data for message in told) == sorted(broken)
    assert {message.attributes["code"] for message in told} == {row["code"] for row in rows(out, "failures")}
    assert pubsub.coming_again(queue) == []
    assert shared.running() == []
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("groundrows")]


def test_a_publisher_s_own_id_makes_messages_the_same(pubsub, work, server, calls, tmp_path):
    queue = pubsub.new_queue()
    pubsub.publish(queue, [question(1), question(2), question(3)], event="e1")
    pubsub.publish(queue, [question(4)], event="e2")
    pubsub.publish(queue, [question(5)], other="e1")
    assert work(queue, server.address, "--id_attribute=event") == 0
    said = run_json(tmp_path / "out")
    assert (said["records_read"], said["answered"], said["duplicates"]) == (5, 3, 2)
    assert said["balanced"]
    assert len(prompts_of(calls)) == 3


def test_a_message_is_kept_for_as_long_as_its_call_takes(pubsub, work, tmp_path):
    queue = pubsub.new_queue(ack_deadline_seconds=10)
    slow = tmp_path / "slow.jsonl"
    with running_emulator("--port=0", "--latency=15", f"--call_log={slow}") as server:
        pubsub.publish(queue, [question(1)])
        done: list[int] = []
        thread = threading.Thread(target=lambda: done.append(work(queue, server.address)))
        thread.start()
        wait_for(lambda: prompts_of(slow))
        began = time.monotonic()
        while not done and time.monotonic() - began < WAIT_SECONDS:
            # Somebody else who pulls gets what is not kept.
            assert pubsub.waiting(queue) == []
        thread.join()
    assert done == [0]
    assert time.monotonic() - began > 10
    assert len(prompts_of(slow)) == 1
    assert ids(rows(tmp_path / "out", "answers")) == ["q1"]


def test_a_batch_that_takes_long_does_not_keep_the_next_ones_waiting(pubsub, work, tmp_path, calls):
    queue = pubsub.new_queue()
    flags = ["--port=0", "--faults=hang:0.05", "--seed=3", f"--call_log={calls}"]
    with running_emulator(*flags) as server:
        pubsub.publish(queue, [question(number) for number in range(100)])
        done: list[int] = []
        thread = threading.Thread(
            target=lambda: done.append(
                work(queue, server.address, "--deadline_seconds=8", "--max_attempts=3")
            )
        )
        thread.start()
        wait_for(lambda: list((tmp_path / "out").glob("answers/*.avro")))
        # One batch at least is on disk while a call of another hangs.
        assert not done
        thread.join()
    assert done == [0]
    said = run_json(tmp_path / "out")
    assert said["answered"] + said["failed"] == 100
    assert "DEADLINE_EXCEEDED" in said["retries_by_code"]


def test_a_queue_is_not_burned_when_nothing_can_work(pubsub, work, calls, tmp_path, capsys):
    queue, failures = pubsub.new_queue(), pubsub.new_queue()
    flags = ["--port=0", "--faults=permission_denied:1", f"--call_log={calls}"]
    with running_emulator(*flags) as server:
        pubsub.publish(queue, [question(number) for number in range(150)])
        code = work(queue, server.address, f"--failures_topic={failures.topic}", "--max_in_flight=1")
    said, printed = run_json(tmp_path / "out"), capsys.readouterr()
    assert code == 1
    assert said["balanced"]
    assert said["worker"]["ended_by"] == "nothing_is_asked"
    assert "PERMISSION_DENIED" in printed.err
    assert "went back" in printed.err
    asked = set(prompts_of(calls))
    assert len(asked) < 20
    back = {json.loads(message.data)["question"] for message in pubsub.waiting(queue)}
    assert len(back) + len(asked) == 150
    assert not back & asked
    told = pubsub.waiting(failures)
    assert {message.attributes["code"] for message in told} == {"PERMISSION_DENIED"}
    assert len(told) == len(asked)
    assert {row["code"] for row in rows(tmp_path / "out", "failures")} == {"PERMISSION_DENIED"}
    assert said["failures_by_code"] == {"PERMISSION_DENIED": len(asked)}
    assert said["records_read"] == said["failed"] == said["rows"]["failures"] == len(asked)
    assert said["worker"]["given_back"] > 0


def test_a_worker_that_is_restarted_while_the_service_is_away_burns_nothing(
    pubsub, work, calls, tmp_path, capsys, monkeypatch
):
    def soon_halted(*given: Any) -> Any:
        return replace(call_settings(*given), exhausted_seconds=1.0)

    call_settings = session.call_settings
    monkeypatch.setattr(session, "call_settings", soon_halted)
    queue, failures, out = pubsub.new_queue(), pubsub.new_queue(), tmp_path / "out"
    pubsub.publish(queue, [question(number) for number in range(30)])
    flags = [f"--failures_topic={failures.topic}", "--max_in_flight=4"]
    away = f"127.0.0.1:{free_port()}"
    for _ in range(2):
        assert work(queue, away, *flags) == 1
        said = run_json(out)
        assert said["balanced"]
        assert (said["records_read"], said["failed"], said["failures_by_code"]) == (0, 0, {})
        assert said["worker"]["ended_by"] == "nothing_is_asked"
        assert 25 <= said["worker"]["given_back"] <= 30
        assert rows(out, "failures") == []
        assert said["calls"] >= 10
        printed = capsys.readouterr()
        assert "only transient errors came back" in printed.err
        assert "replay" not in printed.out
    with running_emulator("--port=0", f"--call_log={calls}") as server:
        assert work(queue, server.address, *flags) == 0
    said = run_json(out)
    assert (said["records_read"], said["answered"], said["failed"]) == (30, 30, 0)
    assert ids(rows(out, "answers")) == sorted(f"q{number}" for number in range(30))
    assert rows(out, "failures") == []
    assert len(prompts_of(calls)) == len(set(prompts_of(calls))) == 30
    assert pubsub.waiting(failures) == []


def test_a_broken_message_is_a_row_although_those_beside_it_go_back(pubsub, work, server, calls, tmp_path):
    queue, out = pubsub.new_queue(), tmp_path / "out"
    pubsub.publish(queue, [b"{", *(question(number) for number in range(8)), b"]"])
    assert work(queue, server.address, "--max_requests=3") == 0
    said = run_json(out)
    assert said["balanced"]
    assert (said["records_read"], said["answered"], said["failed"]) == (5, 3, 2)
    assert said["rows"]["failures"] == len(rows(out, "failures")) == 2
    assert {row["record"] for row in rows(out, "failures")} == {b"{", b"]"}
    back = {json.loads(message.data)["question"] for message in pubsub.waiting(queue)}
    assert len(back) == 5
    assert not back & set(prompts_of(calls))


def test_checks_that_nothing_pays_for_leave_no_rows(pubsub, work, server, tmp_path):
    queue, out = pubsub.new_queue(), tmp_path / "out"
    facts = ["Tin melts at 232 degrees."]
    checks = [{"id": f"c{n}", "answer": f"Tin melts at {n} degrees.", "facts": facts} for n in range(6)]
    pubsub.publish(queue, [json.dumps(check).encode() for check in checks])
    assert work(queue, server.address, "--mode=check", "--max_requests=2") == 0
    said = run_json(out)
    assert said["balanced"]
    assert (said["records_read"], said["answered"], said["failed"]) == (2, 2, 0)
    assert said["worker"]["given_back"] == 4
    assert said["failures_by_code"] == {}
    assert rows(out, "failures") == []


def test_a_budget_is_kept_over_restarts_and_the_rest_goes_back(pubsub, work, server, calls, tmp_path):
    queue = pubsub.new_queue()
    pubsub.publish(queue, [question(number) for number in range(20)])
    assert work(queue, server.address, "--max_requests=5") == 0
    assert run_json(tmp_path / "out")["worker"] == {
        "batches": 1,
        "ended_by": "nothing_is_asked",
        "given_back": 15,
    }
    for _ in range(2):
        assert work(queue, server.address, "--max_requests=5") == 0
        assert run_json(tmp_path / "out")["worker"]["given_back"] == 15
        assert rows(tmp_path / "out", "failures") == []
    assert len(prompts_of(calls)) == 5
    assert work(queue, server.address, "--max_requests=500") == 0
    assert len(prompts_of(calls)) == 20
    assert ids(rows(tmp_path / "out", "answers")) == sorted(f"q{number}" for number in range(20))


def test_rows_that_cannot_be_written_are_not_acknowledged(pubsub, work, server, calls, tmp_path):
    queue, out = pubsub.new_queue(), tmp_path / "out"

    def get_in_the_way() -> None:
        wait_for(lambda: (out / ".groundrows" / "worker.json").exists())
        (out / "answers").write_text("in the way")
        pubsub.publish(queue, [question(number) for number in range(10)])

    thread = threading.Thread(target=get_in_the_way)
    thread.start()
    with pytest.raises(FileExistsError):
        work(queue, server.address, "--stop_when_idle=30")
    thread.join()
    assert not (out / "run.json").exists()
    assert len(prompts_of(calls)) == 10
    (out / "answers").unlink()
    assert work(queue, server.address) == 0
    assert len(prompts_of(calls)) == 10
    said = run_json(out)
    assert (said["records_read"], said["answered"], said["calls"]) == (10, 10, 0)
    assert ids(rows(out, "answers")) == sorted(f"q{number}" for number in range(10))


def test_a_question_that_failed_may_be_published_again(pubsub, work, server, calls, tmp_path):
    queue, out = pubsub.new_queue(), tmp_path / "out"
    server.signal(signal.SIGSTOP)
    done: list[int] = []
    flags = ["--deadline_seconds=0.5", "--max_attempts=1", "--stop_when_idle=4"]
    thread = threading.Thread(target=lambda: done.append(work(queue, server.address, *flags)))
    thread.start()
    try:
        pubsub.publish(queue, [question(1)])
        wait_for(lambda: rows(out, "failures"))
    finally:
        server.signal(signal.SIGCONT)
    pubsub.publish(queue, [question(1)])
    wait_for(lambda: rows(out, "answers"))
    pubsub.publish(queue, [question(1)])
    thread.join()
    assert done == [0]
    said = run_json(out)
    assert (said["failed"], said["answered"], said["duplicates"]) == (1, 1, 1)
    # Published once more it is a duplicate of an answered one, and that is known to the next process as well.
    pubsub.publish(queue, [question(1)])
    before = len(prompts_of(calls))
    assert work(queue, server.address) == 0
    assert len(prompts_of(calls)) == before
    assert run_json(out)["answered"] == 1


def test_a_worker_goes_on_in_its_directory(pubsub, work, server, tmp_path):
    queue, out = pubsub.new_queue(), tmp_path / "out"
    pubsub.publish(queue, [question(1)])
    assert work(queue, server.address) == 0
    first = run_json(out)
    pubsub.publish(queue, [question(2), question(3)])
    assert work(queue, server.address) == 0
    second = run_json(out)
    assert second["run_id"] == first["run_id"]
    assert (first["answered"], second["answered"]) == (1, 2)
    assert second["rows"]["answers"] == 2
    assert ids(rows(out, "answers")) == ["q1", "q2", "q3"]


def test_answers_whose_checks_nothing_pays_for_come_again_and_are_checked(pubsub, work, server, tmp_path):
    queue, out = pubsub.new_queue(), tmp_path / "out"
    bodies = [question(n, facts=[f"River {n} is {n} km long."]) for n in range(6)]
    pubsub.publish(queue, bodies)
    assert work(queue, server.address, "--check_grounding", "--max_requests=8") == 0
    said = run_json(out)
    assert said["balanced"]
    assert (said["records_read"], said["answered"], said["calls"]) == (6, 6, 6)
    assert (said["checks"]["checked"], said["checks"]["failed"]) == (2, 0)
    assert said["checks"]["failures_by_code"] == {}
    assert said["worker"]["given_back"] == 4
    assert rows(out, "failures") == []
    assert work(queue, server.address, "--check_grounding") == 0
    said = run_json(out)
    assert (said["records_read"], said["calls"], said["checks"]["checked"]) == (4, 0, 4)
    assert {row["question_id"] for row in rows(out, "grounding_checks")} == {f"q{n}" for n in range(6)}
    assert rows(out, "failures") == []


def test_a_message_as_large_as_pubsub_takes_stops_nobody(pubsub, work, server, tmp_path):
    queue, out = pubsub.new_queue(), tmp_path / "out"
    large = json.dumps({"id": "large", "question": "How long? " + "x" * 4_300_000}).encode()
    pubsub.publish(queue, [large, question(1)])
    assert work(queue, server.address) == 0
    said = run_json(out)
    assert said["balanced"]
    assert (said["records_read"], said["answered"] + said["failed"]) == (2, 2)
    ended = [row["question_id"] for table in ("answers", "failures") for row in rows(out, table)]
    assert sorted(ended) == ["large", "q1"]
    assert "q1" in ids(rows(out, "answers"))


def test_a_pubsub_that_is_gone_is_not_an_idle_one(work, server, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("groundrows.pipeline.worker.work.FAILING_SECONDS", 3.0)
    out = tmp_path / "out"
    with pubsub_emulator() as own:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", own.address)
        queue = own.new_queue()
        own.publish(queue, [question(1)])
        done: list[int] = []
        flags = ["--stop_when_idle=2.5"]
        thread = threading.Thread(target=lambda: done.append(work(queue, server.address, *flags)))
        thread.start()
        wait_for(lambda: rows(out, "answers"))
        own.process.kill()
        own.process.wait()
        thread.join()
    assert done == [1]
    said, printed = run_json(out), capsys.readouterr()
    assert said["worker"]["ended_by"] == "subscription"
    assert (said["records_read"], said["answered"], said["balanced"]) == (1, 1, True)
    assert f"Pulling from {queue.subscription} has failed for" in printed.err
    assert is_one_sentence(printed.err), printed.err


def test_a_topic_of_failures_that_is_deleted_is_named(pubsub, work, server, calls, tmp_path, capsys):
    queue, failures, out = pubsub.new_queue(), pubsub.new_queue(), tmp_path / "out"
    flags = [f"--failures_topic={failures.topic}", "--stop_when_idle=30"]
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(work(queue, server.address, *flags)))
    thread.start()
    wait_for(lambda: (out / ".groundrows" / "worker.json").exists())
    pubsub.publisher.delete_topic(topic=failures.topic)
    pubsub.publish(queue, [question(1), b"{"])
    thread.join()
    assert done == [1]
    said, printed = run_json(out), capsys.readouterr()
    assert said["worker"]["ended_by"] == "failures_topic"
    assert said["balanced"]
    assert said["rows"] == {table: len(rows(out, table)) for table in said["rows"]}
    # A message that comes again has not failed yet.
    assert (said["failed"], said["failures_by_code"], rows(out, "failures")) == (0, {}, [])
    assert said["worker"]["given_back"] == 1
    assert f"--failures_topic={failures.topic} can't be published to any more" in printed.err
    assert is_one_sentence(printed.err), printed.err
    # What nobody was told of comes again.
    pubsub.publisher.create_topic(name=failures.topic)
    pubsub.subscriber.create_subscription(
        name=f"{failures.subscription}-2", topic=failures.topic, ack_deadline_seconds=10
    )
    assert work(queue, server.address, f"--failures_topic={failures.topic}") == 3
    assert run_json(out)["records_read"] == 1
    told = pubsub.waiting(Queue(failures.topic, f"{failures.subscription}-2"))
    assert {message.data for message in told} == {b"{"}
    assert len(rows(out, "failures")) == len({row["failure_id"] for row in rows(out, "failures")}) == 1
    assert ids(rows(out, "answers"))[:1] == ["q1"]
    assert len(prompts_of(calls)) == 1
    assert pubsub.waiting(queue) == []


def test_a_failure_that_has_come_back_too_often_is_told_to_nobody(pubsub, work, server, tmp_path):
    queue, failures = pubsub.new_queue(), pubsub.new_queue()
    line = "2026-11-29T20:00:00Z parse INVALID_JSON after 0 attempts"
    for earlier in (MAX_GENERATION, MAX_GENERATION + 1):
        history = "\n".join([line] * earlier)
        pubsub.publish(queue, [b"{%d" % earlier], failure_id=f"f{earlier}", history=history)
    assert work(queue, server.address, f"--failures_topic={failures.topic}") == 3
    found = sorted((row["generation"], row["record"]) for row in rows(tmp_path / "out", "failures"))
    assert found == [(each, b"{%d" % each) for each in (MAX_GENERATION, MAX_GENERATION + 1)]
    (told,) = pubsub.waiting(failures)
    assert (told.data, told.attributes["generation"]) == (b"{%d" % MAX_GENERATION, str(MAX_GENERATION))


def test_a_directory_that_is_taken_away_ends_the_work(pubsub, work, tmp_path, calls, capsys):
    queue, out = pubsub.new_queue(), tmp_path / "out"
    pubsub.publish(queue, [question(number) for number in range(200)])
    with running_emulator("--port=0", "--latency=0.05", f"--call_log={calls}") as server:
        done: list[int] = []
        flags = ["--max_in_flight=2", "--stop_when_idle=30"]
        thread = threading.Thread(target=lambda: done.append(work(queue, server.address, *flags)))
        thread.start()
        wait_for(lambda: len(prompts_of(calls)) > 20)
        shutil.rmtree(out)
        thread.join()
        asked = len(prompts_of(calls))
        assert done == [1]
        assert asked < 150
        said = capsys.readouterr().err.splitlines()[-1]
        assert f"--output={out} was removed while the run wrote to it" in said
        assert is_one_sentence(said)
        # What it says to do.
        assert work(queue, server.address) == 0
    assert pubsub.waiting(queue) == []
    assert len({*prompts_of(calls)}) == 200


def test_checks_go_the_same_way(pubsub, work, server, tmp_path):
    queue = pubsub.new_queue()
    facts = ["Tin melts at 232 degrees."]
    body = json.dumps({"id": "c1", "answer": "Tin melts at 232 degrees.", "facts": facts}).encode()
    pubsub.publish(queue, [body, b"[]"])
    assert work(queue, server.address, "--mode=check") == 0
    said = run_json(tmp_path / "out")
    assert (said["records_read"], said["answered"], said["failed"], said["balanced"]) == (2, 1, 1, True)
    assert len(rows(tmp_path / "out", "grounding_checks")) == said["rows"]["grounding_checks"] > 0


def test_with_exactly_once_delivery_a_stale_acknowledgement_spoils_no_other(pubsub, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    queue = pubsub.new_queue(enable_exactly_once_delivery=True)
    pubsub.publish(queue, [question(number) for number in range(3)])
    with closing(Subscription(queue.subscription)) as subscription:
        assert subscription.ack_seconds == 10
        stale = [each.ack_id for each in subscription.pull(10)]
        subscription.give_back(stale)
        fresh = [each.ack_id for each in subscription.pull(10)]
        assert len(stale) == len(fresh) == 3
        assert not set(stale) & set(fresh)
        began = time.monotonic()
        subscription.acknowledge([*stale, *fresh])
        # What is permanent is not tried again.
        assert time.monotonic() - began < ACK_WAITS_SECONDS[0]
        subscription.keep(stale)
    assert pubsub.coming_again(queue) == []


def refused(*flags: str) -> str:
    always = ["--service=emulator", "--endpoint=127.0.0.1:9"]
    with pytest.raises(UsageError) as caught:
        worker_run.run_worker(parse_run([*always, *flags]), time.monotonic())
    assert is_one_sentence(str(caught.value)), caught.value
    return str(caught.value)


def test_a_subscription_that_is_not_there_is_named(pubsub, tmp_path, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.address)
    output = f"--output={tmp_path / 'out'}"
    missing = "projects/demo-project/subscriptions/missing"
    assert f"{missing} does not exist" in refused(output, f"--input_subscription={missing}")
    queue = pubsub.new_queue()
    topic = "projects/demo-project/topics/missing"
    there = f"--input_subscription={queue.subscription}"
    assert f"--failures_topic={topic}" in refused(output, there, f"--failures_topic={topic}")
    assert not (tmp_path / "out").exists()


def test_a_pubsub_that_nobody_answers_for_is_named(tmp_path, monkeypatch):
    subscription = "--input_subscription=projects/demo-project/subscriptions/questions"
    output = f"--output={tmp_path / 'out'}"
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:9")
    monkeypatch.setattr("groundrows.pipeline.worker.subscription.CHECK_SECONDS", 1.0)
    assert "127.0.0.1:9" in refused(output, subscription)
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", os.devnull)
    assert "credentials" in refused(output, subscription).lower()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--direct_running_mode=multi_processing", "one process"),
        ("--overwrite", "--overwrite"),
    ],
)
def test_flags_that_suit_no_worker_are_refused(tmp_path, flag, says):
    subscription = "--input_subscription=projects/demo-project/subscriptions/questions"
    assert says in refused(f"--output={tmp_path / 'out'}", subscription, flag)


def test_a_budget_over_answers_and_checks_that_nothing_counts_is_refused(tmp_path):
    subscription = "--input_subscription=projects/demo-project/subscriptions/questions"
    flags = ["--check_grounding", "--max_requests=5", "--ledger=none"]
    assert "--ledger" in refused(f"--output={tmp_path / 'out'}", subscription, *flags)
    assert not (tmp_path / "out").exists()


def test_a_topic_alone_is_refused(tmp_path):
    topic = "--input_topic=projects/demo-project/topics/questions"
    assert "--input_subscription" in refused(f"--output={tmp_path / 'out'}", topic)
