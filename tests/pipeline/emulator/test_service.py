from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.rpc import error_details_pb2, status_pb2

from pipeline.emulator.canned import canned_answer
from pipeline.emulator.faults import ERRORS, NAMES
from pipeline.emulator.latency import Latency
from pipeline.emulator.messages import Response
from pipeline.emulator.options import EmulatorOptions
from pipeline.emulator.service import Reply, Service
from pipeline.emulator.status import Refusal


def routing() -> str:
    return "location=projects/p/locations/global"


def never() -> str:
    raise AssertionError("the header is not needed here")


def call(service: Service, request: Any) -> Reply:
    return service.generate(request.SerializeToString(), routing)


def test_answers_and_logs_at_arrival(ask: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    service = Service(EmulatorOptions(call_log=log))
    reply = call(service, ask("First?", "Yes.", "Which planet is the largest?", google=True))
    assert isinstance(reply.outcome, bytes)
    assert "Jupiter" in Response.FromString(reply.outcome).candidates[0].content.parts[0].text
    [line] = [json.loads(line) for line in log.read_text().splitlines()]
    assert line == {
        "t": line["t"],
        "method": "GenerateGroundedContent",
        "prompt": "Which planet is the largest?",
        "turn": 2,
        "code": "OK",
    }


@pytest.mark.parametrize("body", [b"\x0a\x7f", b"\xff", b"\x0a\x02\xc3\x28"])
def test_bytes_that_are_no_request_are_refused(body: bytes, tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    reply = Service(EmulatorOptions(call_log=log)).generate(body, routing)
    assert isinstance(reply.outcome, Refusal)
    assert reply.outcome.code == "INVALID_ARGUMENT"
    assert json.loads(log.read_text())["code"] == "INVALID_ARGUMENT"


def test_an_invalid_request_names_its_fields_and_costs_no_quota(ask: Callable[..., Any]) -> None:
    service = Service(EmulatorOptions(requests_per_minute=1))
    wrong = ask("")
    wrong.user_labels["A"] = ""
    for _ in range(3):
        outcome = call(service, wrong).outcome
        assert isinstance(outcome, Refusal)
        status = status_pb2.Status.FromString(outcome.details)
        assert (status.code, status.message) == (3, outcome.message)
        details = error_details_pb2.BadRequest()
        assert status.details[0].Unpack(details)
        assert [entry.field for entry in details.field_violations] == [
            "contents[0].parts",
            "user_labels['A']",
        ]
    assert isinstance(call(service, ask("Why?")).outcome, bytes)


def test_the_quota_refuses_with_the_wait_and_the_log_says_so(ask: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    service = Service(EmulatorOptions(requests_per_minute=2, call_log=log))
    outcomes = [call(service, ask("Why?")).outcome for _ in range(3)]
    assert [isinstance(outcome, bytes) for outcome in outcomes] == [True, True, False]
    assert isinstance(outcomes[2], Refusal)
    retry = error_details_pb2.RetryInfo()
    assert status_pb2.Status.FromString(outcomes[2].details).details[0].Unpack(retry)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["code"] for line in lines] == ["OK", "OK", "RESOURCE_EXHAUSTED"]
    # The log and the quota go by one clock: the slot is free sixty seconds after the first logged call.
    wait = retry.retry_delay.ToMilliseconds() / 1000
    assert wait == pytest.approx(lines[0]["t"] + 60 - lines[2]["t"], abs=0.0011)


def test_a_quota_of_zero_offers_no_wait(ask: Callable[..., Any]) -> None:
    outcome = call(Service(EmulatorOptions(requests_per_minute=0)), ask("Why?")).outcome
    assert isinstance(outcome, Refusal)
    assert outcome.code == "RESOURCE_EXHAUSTED"
    assert not status_pb2.Status.FromString(outcome.details).details


def test_a_quota_may_keep_its_wait_to_itself(ask: Callable[..., Any]) -> None:
    service = Service(EmulatorOptions(requests_per_minute=1, retry_info=False))
    assert isinstance(call(service, ask("Why?")).outcome, bytes)
    outcome = call(service, ask("Why?")).outcome
    assert isinstance(outcome, Refusal)
    assert outcome.code == "RESOURCE_EXHAUSTED"
    assert not status_pb2.Status.FromString(outcome.details).details


def test_a_refused_call_takes_no_time_and_no_draw(ask: Callable[..., Any]) -> None:
    slow = EmulatorOptions(latency=Latency(5.0), requests_per_minute=1)
    service = Service(slow)
    assert call(service, ask("Why?")).delay_seconds == 5.0
    assert call(service, ask("Why?")).delay_seconds == 0.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answers", ["extractive", "canned"])
def test_each_fault(ask: Callable[..., Any], tmp_path: Path, name: str, answers: Any) -> None:
    log = tmp_path / "calls.jsonl"
    service = Service(EmulatorOptions(answers=answers, faults=((name, 1.0),), call_log=log))
    reply = call(service, ask("Which planet is the largest?", google=True))
    line = json.loads(log.read_text())
    assert line["fault"] == name
    if name in ERRORS:
        assert isinstance(reply.outcome, Refusal)
        assert reply.outcome.code == line["code"] == name.upper()
        assert not status_pb2.Status.FromString(reply.outcome.details).details
    elif name in ("hang", "disconnect"):
        assert reply.outcome == name
        assert line["code"] == name.upper()
    else:
        assert isinstance(reply.outcome, bytes)
        assert line["code"] == "OK"
        assert (reply.delay_seconds >= 1) == (name == "slow")


def test_slow_is_ten_times_the_latency(ask: Callable[..., Any]) -> None:
    service = Service(EmulatorOptions(latency=Latency(0.5), faults=(("slow", 1.0),)))
    assert call(service, ask("Why?")).delay_seconds == 5.0


def test_canned_answers_look_at_nothing_unless_they_must(tmp_path: Path) -> None:
    reply = Service(EmulatorOptions(answers="canned")).generate(b"\xff no request", never)
    assert reply.outcome == canned_answer()
    candidate = Response.FromString(canned_answer()).candidates[0]
    assert {len(chunk.chunk_text) for chunk in candidate.grounding_metadata.support_chunks} == {300}
    text = candidate.content.parts[0].text
    assert [support.claim_text in text for support in candidate.grounding_metadata.grounding_support] == [
        True
    ] * 5


def test_a_canned_emulator_logs_prompts_without_validating(ask: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    request = ask("Why?")
    request.location = ""
    reply = Service(EmulatorOptions(answers="canned", call_log=log)).generate(
        request.SerializeToString(), never
    )
    assert reply.outcome == canned_answer()
    assert json.loads(log.read_text())["prompt"] == "Why?"


def test_the_limits_file_overrules_and_is_read_again(
    ask: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "limits.json"
    service = Service(EmulatorOptions(requests_per_minute=0, limits_file=file))
    assert "SIGHUP" in capsys.readouterr().err
    assert isinstance(call(service, ask("Why?")).outcome, Refusal)
    file.write_text('{"requests_per_minute": 1}')
    service.reload_limits()
    assert isinstance(call(service, ask("Why?")).outcome, bytes)
    file.write_text("nonsense")
    service.reload_limits()
    assert "stays" in capsys.readouterr().err
    assert isinstance(call(service, ask("Why?")).outcome, Refusal)
    file.write_text('{"requests_per_minute": null}')
    service.reload_limits()
    assert isinstance(call(service, ask("Why?")).outcome, bytes)
    file.write_text("nonsense")
    with pytest.raises(ValueError, match="limits_file"):
        Service(EmulatorOptions(limits_file=file))
