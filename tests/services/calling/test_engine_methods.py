"""The engine with streams, checks and REST, against the emulator and against backends written by hand."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.clients.base import Call, Reply
from tests.support.engines import (
    HandClient,
    ask,
    codes_of,
    engine_for,
    make_check,
    make_question,
    make_settings,
    read_log,
    response,
    text_of,
)

BOTH = ("--port=0", "--rest_port=0")


class ReplyClient:
    """Answers with one and the same reply; keeps what it was asked."""

    def __init__(self, reply: Reply) -> None:
        self.calls: list[Call] = []
        self._reply = reply

    async def ask(self, call: Call, deadline: float) -> Reply:
        self.calls.append(call)
        return self._reply

    async def close(self) -> None:
        pass


@pytest.fixture(params=["sqlite", "redis"])
def ledger(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    return str(request.getfixturevalue("redis_uri")) if request.param == "redis" else f"sqlite://{tmp_path}/l"


def test_what_came_beside_the_message_reaches_the_answer_and_comes_back_from_the_ledger(ledger: str) -> None:
    reply = Reply(response("x"), 12.5, '[{"novelty": 1}]')
    settings = make_settings(ledger=ledger, stream_answers=True)
    answers = []
    for client in (ReplyClient(reply), HandClient()):
        with engine_for(settings, client) as engine:
            answers += ask(engine, [make_question("q")])[0].answers
    fresh, stored = answers
    assert (fresh.first_part_ms, fresh.unread_json, fresh.streamed) == (12.5, '[{"novelty": 1}]', True)
    assert stored == replace(fresh, from_ledger=True)


def test_a_user_context_is_handed_to_the_client_and_asks_anew(ledger: str) -> None:
    client = ReplyClient(Reply(response("x")))
    with engine_for(make_settings(ledger=ledger), client) as engine:
        plain = make_question("q")
        asked = [plain, *(replace(plain, user_context=one, origin=one) for one in ("{}", '{"a":1}'))]
        assert codes_of(ask(engine, asked)) == {"OK": 3}
        assert codes_of(ask(engine, asked)) == {"OK": 3}
    assert Counter(call.user_context for call in client.calls) == {None: 1, "{}": 1, '{"a":1}': 1}


def test_streamed_and_whole_answers_are_kept_apart(ledger: str, tmp_path: Any) -> None:
    log = tmp_path / "log"
    with running_emulator(f"--call_log={log}") as emulator:
        for streamed in (False, True, False, True):
            settings = make_settings(emulator.address, ledger=ledger, stream_answers=streamed)
            with engine_for(settings) as engine:
                (outcome,) = ask(engine, [make_question("Which planet is the largest?")])
            (answer,) = outcome.answers
            assert (answer.streamed, answer.first_part_ms is not None) == (streamed, streamed)
    methods = [call["method"] for call in read_log(log)]
    assert methods == ["GenerateGroundedContent", "StreamGenerateGroundedContent"]


def test_what_one_transport_was_told_the_other_need_not_ask(ledger: str, tmp_path: Any) -> None:
    log = tmp_path / "log"
    questions = [make_question(f"Which planet is number {n}?") for n in range(5)]
    texts = []
    with running_emulator(*BOTH, f"--call_log={log}") as emulator:
        for address, transport in ((emulator.rest_address, "rest"), (emulator.address, "grpc")):
            settings = make_settings(address or "", ledger=ledger, transport=transport)
            with engine_for(settings) as engine:
                outcomes = ask(engine, questions)
            texts.append([text_of(outcome.answers[0].response) for outcome in outcomes])
    assert len(read_log(log)) == 5
    assert texts[0] == texts[1]


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_a_conversation_is_streamed_turn_by_turn(transport: str) -> None:
    with running_emulator(*BOTH) as emulator:
        address = emulator.address if transport == "grpc" else emulator.rest_address
        settings = make_settings(address or "", transport=transport, stream_answers=True)
        with engine_for(settings) as engine:
            outcome = ask(engine, [make_question(["Which planet is the largest?", "And the smallest?"])])[0]
    assert outcome.failure is None
    assert [answer.turn_index for answer in outcome.answers] == [0, 1]
    said = text_of(outcome.answers[0].response).encode()
    assert said
    assert said in outcome.answers[1].request


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_answers_are_checked_paced_and_kept_like_any_other_call(
    transport: str, ledger: str, tmp_path: Any
) -> None:
    log = tmp_path / "log"
    checks = [make_check(f"Tin melts at {n} degrees.", question_id=f"c{n}") for n in range(20)]
    with running_emulator(*BOTH, f"--call_log={log}", "--faults=unavailable:0.2", "--seed=1") as emulator:
        address = emulator.address if transport == "grpc" else emulator.rest_address
        settings = make_settings(
            address or "", transport=transport, method="check", ledger=ledger, max_attempts=8
        )
        found = []
        for _ in range(2):
            with engine_for(settings) as engine:
                found.append(ask(engine, checks))
    assert codes_of(found[0]) == codes_of(found[1]) == {"OK": 20}
    for fresh, stored in zip(*found, strict=True):
        (answer,) = fresh.answers
        assert (answer.method, answer.streamed, answer.first_part_ms) == ("check", False, None)
        claims = response_class("v1", "check").FromString(answer.response).claims
        assert claims[0].claim_text == fresh.question.turns[0]
        assert (stored.calls, stored.answers) == (0, (replace(answer, from_ledger=True),))
    assert {call["method"] for call in read_log(log)} == {"CheckGrounding"}
    assert len(read_log(log)) == sum(outcome.calls for outcome in found[0]) > 20


def test_an_empty_check_is_an_answer() -> None:
    with engine_for(make_settings(method="check"), ReplyClient(Reply(b""))) as engine:
        (outcome,) = ask(engine, [make_check("Tin melts.")])
    assert outcome.failure is None
    assert [answer.response for answer in outcome.answers] == [b""]


def test_a_check_and_a_question_of_one_name_are_no_duplicates(ledger: str) -> None:
    question = make_question("Tin melts.", id="q")
    check = make_check("Tin melts.", question_id="q")
    settings = make_settings(ledger=ledger)
    with (
        engine_for(settings, ReplyClient(Reply(response("x")))) as generating,
        engine_for(replace(settings, method="check"), ReplyClient(Reply(b""))) as checking,
    ):
        for _ in range(2):
            assert text_of(ask(generating, [question])[0].answers[0].response) == "x"
            assert ask(checking, [check])[0].answers[0].response == b""


@pytest.mark.parametrize("limit", [3, 10])
def test_asking_and_checking_share_the_runs_budget_through_a_ledger(ledger: str, limit: int) -> None:
    settings = make_settings(ledger=ledger, max_requests=limit)
    generating, checking = ReplyClient(Reply(response("x"))), ReplyClient(Reply(b""))
    with (
        engine_for(settings, generating) as asks,
        engine_for(replace(settings, method="check"), checking) as checks,
    ):
        asked = ask(asks, [make_question(f"q{n}") for n in range(7)])
        checked = ask(checks, [make_check(f"a{n}", question_id=f"q{n}") for n in range(7)])
    assert codes_of(asked)["OK"] == len(generating.calls) == min(limit, 7)
    assert codes_of(checked)["OK"] == len(checking.calls) == limit - min(limit, 7)


def test_a_stream_that_breaks_half_way_is_asked_again_as_a_whole(tmp_path: Any) -> None:
    log = tmp_path / "log"
    flags = ("--faults=disconnect:0.2", "--seed=2", f"--call_log={log}")
    questions = [make_question(f"Which planet is number {n}?") for n in range(60)]
    with running_emulator(*BOTH, *flags) as emulator:
        for address, transport in ((emulator.address, "grpc"), (emulator.rest_address, "rest")):
            settings = make_settings(
                address or "",
                transport=transport,
                stream_answers=True,
                max_attempts=10,
                backoff_seconds=0.02,
                max_in_flight=8,
            )
            with engine_for(settings) as engine:
                outcomes = ask(engine, questions)
            assert codes_of(outcomes) == {"OK": 60}
            assert {code for outcome in outcomes for code in outcome.retry_codes} == {"UNAVAILABLE"}
            texts = {text_of(outcome.answers[0].response) for outcome in outcomes}
            assert len(texts) == 1  # all of it each time: no source speaks of numbers


def test_errors_over_rest_end_as_what_they_are(tmp_path: Any) -> None:
    log = tmp_path / "log"
    flags = ("--faults=all:0.2", "--seed=3", f"--call_log={log}", "--answers=canned")
    with running_emulator(*BOTH, *flags) as emulator:
        settings = make_settings(
            emulator.rest_address or "", transport="rest", deadline_seconds=1.5, max_in_flight=64
        )
        with engine_for(settings) as engine:
            outcomes = ask(engine, [make_question(f"q{number}") for number in range(150)])
    by_prompt: dict[str, list[dict[str, Any]]] = {}
    for call in read_log(log):
        by_prompt.setdefault(call["prompt"], []).append(call)
    for outcome in outcomes:
        made = by_prompt[outcome.question.turns[0]]
        assert outcome.calls == len(made)
        last = made[-1]
        expected = "DEADLINE_EXCEEDED" if last["code"] == "HANG" else last["code"]
        if last.get("fault") == "undecodable":
            expected = "UNDECODABLE_RESPONSE"
        assert (outcome.failure.code if outcome.failure else "OK") == expected, json.dumps(made)


def test_a_client_that_can_not_be_made_says_why() -> None:
    with pytest.raises(Exception, match="REST only"), engine_for(make_settings(api_version="v1alpha")):
        pass


def test_v1alpha_is_asked_over_rest(tmp_path: Any) -> None:
    log = tmp_path / "log"
    with running_emulator(*BOTH, f"--call_log={log}") as emulator:
        settings = make_settings(emulator.rest_address or "", transport="rest", api_version="v1alpha")
        question = replace(make_question("Which planet is the largest?"), api_version="v1alpha")
        with engine_for(settings) as engine:
            (outcome,) = ask(engine, [question])
    assert outcome.failure is None
    assert text_of(outcome.answers[0].response)
    assert len(read_log(log)) == 1


def test_an_error_of_a_check_is_its_own() -> None:
    class Refusing(ReplyClient):
        async def ask(self, call: Call, deadline: float) -> Reply:
            raise CallError("INVALID_ARGUMENT", "no facts")

    with engine_for(make_settings(method="check"), Refusing(Reply(b""))) as engine:
        (outcome,) = ask(engine, [make_check("Tin melts.")])
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.failure.message) == ("INVALID_ARGUMENT", "no facts")
