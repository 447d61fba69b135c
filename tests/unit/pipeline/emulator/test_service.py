from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from groundrows.pipeline.emulator.calls import Received, Refusal, Reply, refuse
from groundrows.pipeline.emulator.discoveryengine.canned import canned_answer
from groundrows.pipeline.emulator.discoveryengine.messages import (
    CheckRequest,
    CheckResponse,
    Origin,
    Response,
)
from groundrows.pipeline.emulator.faults import ERRORS, NAMES
from groundrows.pipeline.emulator.options import EmulatorOptions
from groundrows.pipeline.emulator.pace import Latency
from groundrows.pipeline.emulator.service import Service
from tests.support.emulator_clients import CONFIG

UNARY = Origin("GenerateGroundedContent", "v1beta", "grpc")
STREAM = Origin("StreamGenerateGroundedContent", "v1", "rest")
CHECK = Origin("CheckGrounding", "v1", "grpc")


def routing() -> str:
    return "location=projects/p/locations/global"


def never() -> str:
    raise AssertionError("this is not needed here")


def call(service: Service, request: Any, origin: Origin = UNARY) -> Reply:
    return service.take(origin, lambda: Received(request), routing)


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
        "transport": "grpc",
        "version": "v1beta",
    }


def test_what_cannot_be_read_is_refused_and_logged(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    unreadable = refuse("INVALID_ARGUMENT", "This is no request.")
    service = Service(EmulatorOptions(call_log=log, requests_per_minute=0))
    assert service.take(UNARY, lambda: unreadable, routing) == Reply(0.0, unreadable)
    line = json.loads(log.read_text())
    assert (line["code"], line["prompt"], line["turn"]) == ("INVALID_ARGUMENT", "", 0)


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
    reply = Service(EmulatorOptions(answers="canned")).take(UNARY, never, never)
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
    reply = Service(EmulatorOptions(answers="canned", call_log=log)).take(
        UNARY, lambda: Received(request), never
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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answers", ["extractive", "canned"])
def test_each_fault_of_a_check(tmp_path: Path, name: str, answers: Any) -> None:
    service = Service(EmulatorOptions(answers=answers, faults=((name, 1.0),)))
    request = CheckRequest(answer_candidate="Orvik is an old town.", grounding_config=CONFIG)
    request.facts.add(fact_text="Orvik is an old town.")
    reply = service.take(CHECK, lambda: Received(request), lambda: f"grounding_config={CONFIG}")
    assert not reply.before
    if name in ERRORS:
        assert isinstance(reply.outcome, Refusal)
        assert reply.outcome.code == name.upper()
    elif name in ("hang", "disconnect"):
        assert reply.outcome == name
    elif name == "undecodable":
        with pytest.raises(DecodeError):
            CheckResponse.FromString(reply.outcome)
    else:
        claims = CheckResponse.FromString(reply.outcome).claims
        assert bool(claims) == (name not in ("empty", "no_content"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answers", ["extractive", "canned"])
def test_each_fault_of_a_stream(ask: Callable[..., Any], name: str, answers: Any) -> None:
    service = Service(EmulatorOptions(answers=answers, faults=((name, 1.0),)))
    right = Service(EmulatorOptions(answers=answers))
    broken_off = set()
    for i in range(20):
        request = ask(f"Which mountain is the highest? {'Really ' * i}", google=True)
        reply, whole = call(service, request, STREAM), call(right, request, STREAM)
        if name in ERRORS:
            assert isinstance(reply.outcome, Refusal)
            assert reply.outcome.code == name.upper()
        elif name in ("hang", "disconnect"):
            assert reply.outcome == name
        else:
            assert isinstance(reply.outcome, bytes)
            assert ((reply.outcome, reply.before) == (whole.outcome, whole.before)) == (name == "slow")
            continue
        assert reply.before == whole.before[: len(reply.before)]
        broken_off.add(len(reply.before))
    if broken_off:
        assert min(broken_off) == 0
        assert len(broken_off) > 3


def test_the_broken_answers_of_a_stream_are_broken_in_their_way(ask: Callable[..., Any]) -> None:
    request = ask("Which mountain is the highest?", google=True)

    def parts(name: str) -> list[bytes]:
        reply = call(Service(EmulatorOptions(faults=((name, 1.0),))), request, STREAM)
        assert isinstance(reply.outcome, bytes)
        return [*reply.before, reply.outcome]

    assert parts("empty") == [b""]
    assert not any(
        Response.FromString(part).candidates[0].HasField("content") for part in parts("no_content")
    )
    assert max(map(len, parts("oversized"))) > 4 * 1024 * 1024

    def is_readable(part: bytes) -> bool:
        try:
            Response.FromString(part)
        except DecodeError:
            return False
        return True

    assert [is_readable(part) for part in parts("undecodable")].count(False) == 1


def test_checks_have_a_quota_of_their_own(ask: Callable[..., Any]) -> None:
    service = Service(EmulatorOptions(requests_per_minute=1, check_requests_per_minute=2))
    request = CheckRequest(answer_candidate="Orvik is an old town.", grounding_config=CONFIG)

    def checked() -> bool:
        reply = service.take(CHECK, lambda: Received(request), lambda: f"grounding_config={CONFIG}")
        return isinstance(reply.outcome, bytes)

    def asked(origin: Origin) -> bool:
        return isinstance(call(service, ask("Why?"), origin).outcome, bytes)

    assert [asked(UNARY), asked(STREAM), asked(UNARY)] == [True, False, False]
    assert [checked(), checked(), checked()] == [True, True, False]


def test_what_only_v1beta_has_is_never_told_to_v1(ask: Callable[..., Any]) -> None:
    service = Service(EmulatorOptions(images=3, videos=2))
    request = ask("Which mountain is the highest?", google=True)
    for version in ("v1", "v1beta", "v1alpha"):
        reply = call(service, request, Origin("GenerateGroundedContent", version, "rest"))
        assert isinstance(reply.outcome, bytes)
        metadata = Response.FromString(reply.outcome).candidates[0].grounding_metadata
        assert metadata.images
        assert bool(metadata.videos) == (version == "v1beta")
        assert bool(metadata.images[0].source.site_display_name) == (version == "v1beta")


def test_the_number_of_candidates_is_the_flags(ask: Callable[..., Any]) -> None:
    request = ask("Which candidate is the highest mountain?", google=True)
    for candidates in (1, 3):
        outcome = call(Service(EmulatorOptions(candidates=candidates)), request).outcome
        assert isinstance(outcome, bytes)
        assert len(Response.FromString(outcome).candidates) == candidates


def test_a_refusal_says_in_whole_seconds_when_to_come_back(ask: Callable[..., Any]) -> None:
    service = Service(EmulatorOptions(requests_per_minute=1))
    outcomes = [call(service, ask("Why?")).outcome for _ in range(2)]
    assert isinstance(outcomes[1], Refusal)
    assert outcomes[1].retry_seconds == 60
    wrong = call(service, ask(" ")).outcome
    assert isinstance(wrong, Refusal)
    assert wrong.retry_seconds is None
