"""The graph of a stream, played to its end: every message is a row, whatever comes when."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from hypothesis import HealthCheck, given, settings

from groundrows.pipeline.emulator.process import EmulatorProcess, running_emulator
from groundrows.pipeline.run.graph import add_steps
from groundrows.pipeline.run.settings import RunSettings, StreamFiles
from groundrows.pipeline.sources.messages import Messages, RecordFn
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.question import RecordSettings
from groundrows.transforms.rows.flatten import FlattenSettings
from tests.support.engines import make_settings
from tests.support.streams import LATE, Come, Event, Wait, Watermark, arrivals, play, schedules
from tests.support.tools import rows

SUBSCRIPTION = "projects/some-project/subscriptions/questions"
PUBLISHED = datetime(2025, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorProcess]:
    with running_emulator("--port=0", "--answers=canned") as process:
        yield process


def message(number: int) -> PubsubMessage:
    """Every fourth message is poison, in one of two ways, and every fifth asks in two turns."""
    record: dict[str, Any] = {"id": f"q{number}", "question": f"How many is {number}?"}
    if number % 5 == 2:
        record = {"id": f"q{number}", "turns": [f"How many is {number}?", "And one more?"]}
    if number % 8 == 7:
        record["question"] = ["what?"]
    data = json.dumps(record).encode()[: -1 if number % 8 == 3 else None]
    return PubsubMessage(data, {"number": str(number)}, f"m{number}", PUBLISHED)


def turns_of(number: int) -> int:
    """How many answers a message has."""
    return 0 if number % 4 == 3 else 2 if number % 5 == 2 else 1


def run(events: Sequence[Event], path: Path, address: str, shards: int = 1, **calls: Any) -> Path:
    """Play the events; returns where the rows are."""
    run_settings = RunSettings(
        source=Messages(SUBSCRIPTION),
        records=RecordSettings(),
        calls=make_settings(address, **calls),
        rows=FlattenSettings("run"),
        output=Output(str(path / "out"), "run", (), datetime.now(UTC)),
        spread=True,
        stream=StreamFiles(window_seconds=60, shards=shards),
    )

    def steps(messages: Any) -> None:
        add_steps(messages | "Read" >> beam.ParDo(RecordFn(SUBSCRIPTION)), None, run_settings)

    # The graph goes by the real time.
    play(events, message, steps, start=time.time())
    return path / "out"


def check_all_there(output: Path, count: int) -> None:
    """Each message has its answers, or one failure with its bytes; and says which message it was."""
    answered, failed = rows(output, "answers"), rows(output, "failures")
    expected = [(f"m{n}", turn) for n in range(count) for turn in range(turns_of(n))]
    assert sorted((_message_id(row), row["turn_index"]) for row in answered) == sorted(expected)
    poison = [n for n in range(count) if turns_of(n) == 0]
    assert sorted((row["origin"], row["record"]) for row in failed) == sorted(
        (f"{SUBSCRIPTION}:m{n}", message(n).data) for n in poison
    )
    assert sorted(_message_id(row) for row in failed) == sorted(f"m{n}" for n in poison)


def _message_id(row: dict[str, Any]) -> str:
    about = json.loads(row["metadata"])["pubsub"]
    assert about["attributes"] == {"number": about["message_id"].removeprefix("m")}
    return str(about["message_id"])


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_every_message_is_a_row(tmp_path: Path, emulator: EmulatorProcess, shards: int) -> None:
    output = run(LATE, tmp_path, emulator.address, shards)
    check_all_there(output, arrivals(LATE))


@pytest.mark.parametrize("budget", [{}, {"max_requests": 1_000}])
def test_it_is_with_a_limit_that_is_shared_out(
    tmp_path: Path, emulator: EmulatorProcess, budget: dict[str, int]
) -> None:
    # The calls are then keyed, and the budget is in keyed state.
    output = run(LATE, tmp_path, emulator.address, 2, rate_limiter="sharded", pacing_shards=3, **budget)
    check_all_there(output, arrivals(LATE))


def test_what_was_answered_before_comes_from_the_ledger(tmp_path: Path, emulator: EmulatorProcess) -> None:
    ledger = f"sqlite://{tmp_path}/ledger.sqlite"
    output = run([Come((1, 2)), Wait(61), Come((3,))], tmp_path / "1", emulator.address, ledger=ledger)
    again = run([Come((1, 2, 3))], tmp_path / "2", emulator.address, ledger=ledger)
    check_all_there(output, 3)
    check_all_there(again, 3)
    assert {row["from_ledger"] for row in rows(output, "answers")} == {False}
    assert {row["from_ledger"] for row in rows(again, "answers")} == {True}


def test_a_window_of_answers_does_not_wait_for_the_next(tmp_path: Path, emulator: EmulatorProcess) -> None:
    events = [Come((1,)), Wait(600), Come((2,)), Watermark(1_000), Wait(600), Come((3,))]
    output = run(events, tmp_path, emulator.address)
    assert len(list((output / "answers").glob("*.avro"))) == 3


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(schedules())
def test_every_message_is_a_row_whatever_comes_when(
    tmp_path_factory: pytest.TempPathFactory, emulator: EmulatorProcess, events: list[Event]
) -> None:
    output = run(events, tmp_path_factory.mktemp("schedule"), emulator.address, 2)
    check_all_there(output, arrivals(events))
