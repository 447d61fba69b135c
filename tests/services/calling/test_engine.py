import asyncio
import logging
import threading
from collections import Counter

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.codes import INTERNAL_ERROR
from groundrows.schemas.errors import CallError
from groundrows.schemas.question import RecordSettings
from groundrows.transforms.generate.calling.answered import AnsweredTurns, turn_name
from groundrows.transforms.generate.calling.basket import Basket
from groundrows.transforms.generate.pacing.base import calls_per_second
from tests.support.engines import (
    HandClient,
    ask,
    codes_of,
    engine_for,
    make_question,
    make_settings,
    questions,
    read_log,
    response,
    text_of,
)

SECONDS = 20


def texts_of(outcome):
    return [text_of(answer.response) for answer in outcome.answers]


def test_each_question_gets_its_own_answer():
    client = HandClient()
    with engine_for(make_settings(), client) as engine:
        asked = questions(100)
        outcomes = ask(engine, asked)
        assert [outcome.question for outcome in outcomes] == asked
        assert [texts_of(outcome) for outcome in outcomes] == [[f"q{number}/1"] for number in range(100)]
        assert (engine.done, engine.failed) == (100, 0)
    for outcome in outcomes:
        assert (outcome.calls, outcome.retry_codes, outcome.failure, outcome.skip) == (1, (), None, None)
        assert not outcome.answers[0].from_ledger
    assert client.closed


def test_a_conversation_is_asked_turn_by_turn_with_its_history():
    with engine_for(make_settings(), HandClient()) as engine:
        outcome = ask(engine, [make_question(["one", "two", "three"])])[0]
    assert texts_of(outcome) == ["one/1", "two/1", "three/1"]
    assert [answer.turn_index for answer in outcome.answers] == [0, 1, 2]
    assert outcome.calls == 3
    assert b"two/1" in outcome.answers[2].request
    assert b"three" not in outcome.answers[1].request


def test_a_conversation_ends_with_the_turn_that_fails_and_keeps_the_answers_before_it():
    async def behaviour(prompt, nth):
        if prompt == "two":
            raise CallError("INVALID_ARGUMENT", "not this")
        if prompt == "one" and nth == 1:
            raise CallError("UNAVAILABLE", "")
        return response(prompt)

    client = HandClient(behaviour)
    with engine_for(make_settings(), client) as engine:
        question = make_question(["one", "two", "three"], topic="x")
        outcome = ask(engine, [question])[0]
    assert texts_of(outcome) == ["one"]
    failure = outcome.failure
    assert (failure.turn_index, failure.stage, failure.code) == (1, "generate", "INVALID_ARGUMENT")
    assert (failure.message, failure.retryable, failure.attempts) == ("not this", False, 1)
    assert (failure.question_id, failure.origin) == (question.question_id, question.origin)
    assert (failure.record, failure.metadata) == (question.record, question.metadata)
    assert outcome.calls == len(client.log) == 3
    assert outcome.retry_codes == ("UNAVAILABLE",)


def test_a_turn_that_answers_nothing_ends_the_conversation():
    async def behaviour(prompt, nth):
        return response(prompt) if prompt == "one" else b""

    client = HandClient(behaviour)
    with engine_for(make_settings(), client) as engine:
        outcome = ask(engine, [make_question(["one", "two", "three"])])[0]
    assert client.log == ["one", "two"]
    assert len(outcome.answers) == 2
    assert outcome.failure is None


def test_calls_and_retries_of_all_turns_add_up():
    async def behaviour(prompt, nth):
        if nth == 1:
            raise CallError("ABORTED" if prompt == "one" else "UNKNOWN", "")
        return response(prompt)

    with engine_for(make_settings(), HandClient(behaviour)) as engine:
        outcome = ask(engine, [make_question(["one", "two"])])[0]
    assert outcome.calls == 4
    assert outcome.retry_codes == ("ABORTED", "UNKNOWN")
    assert [answer.attempts for answer in outcome.answers] == [2, 2]


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_all_the_window_is_used_and_never_more(batch_size):
    full = asyncio.Event()

    async def behaviour(prompt, nth):
        if client.out == 64:
            full.set()
        await asyncio.wait_for(full.wait(), 10)
        await asyncio.sleep(0.001)
        return response("")

    client = HandClient(behaviour)
    with engine_for(make_settings(max_in_flight=64, batch_size=batch_size), client) as engine:
        assert codes_of(ask(engine, questions(300))) == {"OK": 300}
    assert client.most_out == 64


def test_one_slow_call_holds_nobody_up():
    released = asyncio.Event()

    async def behaviour(prompt, nth):
        if prompt == "slow0":
            await released.wait()
        elif prompt == "q199":
            released.set()
        return response("")

    with engine_for(make_settings(max_in_flight=4, batch_size=8), HandClient(behaviour)) as engine:
        outcomes = ask(engine, [*questions(1, "slow"), *questions(200)])
    assert codes_of(outcomes) == {"OK": 201}


def test_submitting_waits_while_the_backlog_is_full():
    go = threading.Event()

    async def behaviour(prompt, nth):
        while not go.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.005)
        return response("")

    with engine_for(make_settings(max_in_flight=2, batch_size=4), HandClient(behaviour)) as engine:
        basket = Basket()
        handed_in = []

        def hand_in():
            for start in range(0, 20, 4):
                engine.submit(list(enumerate(questions(20)))[start : start + 4], basket)
                handed_in.append(start)

        thread = threading.Thread(target=hand_in, daemon=True)
        thread.start()
        thread.join(0.3)
        assert handed_in == [0, 4]  # two windows and a batch are eight
        go.set()
        thread.join(SECONDS)
        assert len(handed_in) == 5
        assert sum(len(finished) for finished in basket.drain()) == 20


def test_bundles_in_several_threads_share_the_window_and_get_their_own():
    client = HandClient()
    results = {}
    with engine_for(make_settings(max_in_flight=8, batch_size=5), client) as engine:

        def bundle(name):
            results[name] = ask(engine, questions(83, f"{name}-"))

        threads = [threading.Thread(target=bundle, args=(name,), daemon=True) for name in "abcdef"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert engine.done == 6 * 83
    for name in "abcdef":
        assert [texts_of(outcome) for outcome in results[name]] == [
            [f"{name}-{number}/1"] for number in range(83)
        ]
    assert client.most_out <= 8
    assert len(client.log) == 6 * 83


def test_shards_have_a_pace_each_and_share_the_window():
    paces = []

    class Pacer:
        def __init__(self):
            self.acquired = 0

        async def acquire(self):
            self.acquired += 1

        async def close(self):
            pass

    def pacer_of(settings):
        paces.append(Pacer())
        return paces[-1]

    client = HandClient()
    settings = make_settings(rate_limiter="sharded", pacing_shards=3, requests_per_minute=6_000.0)
    with engine_for(settings, client, pacer_of) as engine:
        for shard, count in enumerate((5, 7, 11)):
            assert codes_of(ask(engine, questions(count, f"{shard}-"), shard)) == {"OK": count}
    assert [pacer.acquired for pacer in paces] == [5, 7, 11]


def test_waiting_for_the_pace_is_told_in_whole_seconds_and_each_only_once():
    with engine_for(make_settings(requests_per_minute=120.0), HandClient()) as engine:
        ask(engine, questions(4))
        told = [engine.take_throttled_seconds() for _ in range(3)]
        waited = 3 / calls_per_second(120.0)
        assert told == [int(waited), 0, 0]
        ask(engine, questions(2, "more"))
        assert engine.take_throttled_seconds() in (1, 2)


def test_throttled_seconds_may_be_asked_for_while_shards_appear():
    settings = make_settings(rate_limiter="sharded", pacing_shards=500, requests_per_minute=1e9)
    stop = threading.Event()
    errors = []
    with engine_for(settings, HandClient()) as engine:

        def look():
            while not stop.is_set():
                try:
                    engine.take_throttled_seconds()
                except RuntimeError as error:
                    errors.append(error)
                    return

        threads = [threading.Thread(target=look, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for shard in range(500):
            engine.submit([(0, make_question(f"q{shard}"))], Basket(), shard)
        stop.set()
        for thread in threads:
            thread.join(SECONDS)
    assert errors == []


# -- what is answered already ----------------------------------------------------------------------------


def test_what_an_earlier_run_answered_is_left_out_and_half_a_conversation_is_finished(tmp_path):
    path = str(tmp_path / "answered")
    answered = AnsweredTurns(path)
    there = [
        ("done", ["done"]),
        ("half", ["half"]),
        ("both", ["both", "of them"]),
        ("changed", ["as it was", "tail"]),
    ]
    answered.add((turn_name(name, text), turn) for name, turns in there for turn, text in enumerate(turns))
    answered.close()
    client = HandClient()
    with engine_for(make_settings(answered_path=path), client) as engine:
        outcomes = ask(
            engine,
            [
                make_question("done"),
                make_question(["half", "other half"]),
                make_question(["both", "of them"]),
                make_question("new"),
                make_question(["as it is", "tail"], question_id="changed"),
            ],
        )
    skips = ["already_answered", None, "already_answered", None, None]
    assert [outcome.skip for outcome in outcomes] == skips
    # One id, another question: none of its turns is taken for answered, not even the one that reads the same.
    assert [answer.turn_index for answer in outcomes[4].answers] == [0, 1]
    assert [answer.turn_index for answer in outcomes[1].answers] == [1]
    assert outcomes[1].calls == 2  # the first turn is needed for the history
    assert sorted(client.log) == ["as it is", "half", "new", "other half", "tail"]


@pytest.mark.parametrize("kept", [True, False], ids=["in the ledger", "elsewhere"])
def test_an_answer_that_lacks_its_check_comes_from_the_ledger_or_not_at_all(tmp_path, caplog, kept):
    ledger = f"sqlite://{tmp_path}/ledger"
    talks = [["half", "other half"], ["both", "of them"], ["done"], ["checked"]]
    client = HandClient()
    with engine_for(make_settings(ledger=ledger if kept else "none"), client) as engine:
        ask(engine, [make_question(talk) for talk in (["half"], *talks[1:])])
    asked = len(client.log)

    path = str(tmp_path / "answered")
    answered = AnsweredTurns(path)
    rows = [("half", ["half"]), ("both", ["both", "of them"]), ("done", ["done"]), ("checked", ["checked"])]
    there = [(turn_name(name, text), turn) for name, turns in rows for turn, text in enumerate(turns)]
    answered.add(there)
    ids = {name: name[:6] + str(turn) for name, turn in there}
    answered.add_unchecked([(*each, ids[each[0]]) for each in there[:-1]], ids.values(), [])
    answered.close()
    again = make_settings(ledger=ledger, answered_path=path, run_id="again")
    with engine_for(again, client) as engine:
        outcomes = ask(engine, [make_question(talk) for talk in talks])

    assert [outcome.skip for outcome in outcomes] == [None, *["already_answered"] * 3]
    assert [outcome.failure for outcome in outcomes] == [None] * 4
    here = [[(answer.turn_index, answer.unchecked) for answer in outcome.answers] for outcome in outcomes]
    yet = {(name.split("\0")[0], turn): frozenset({ids[name]}) for name, turn in there}
    if kept:
        assert here == [
            [(0, yet["half", 0]), (1, None)],
            [(0, yet["both", 0]), (1, yet["both", 1])],
            [(0, yet["done", 0])],
            [],
        ]
        assert client.log[asked:] == ["other half"]
        assert caplog.messages == []
    else:
        # Asked for the history, the first turn's answer need not be the one that the rows hold.
        assert here == [[(1, None)], [], [], []]
        assert client.log[asked:] == ["half", "other half"]
        (said,) = caplog.messages
        assert said.startswith("4 answer(s)")
        assert "--ledger" in said


# -- duplicates ------------------------------------------------------------------------------------------


@pytest.fixture(params=["none", "sqlite"])
def ledger(request, tmp_path):
    return "none" if request.param == "none" else f"sqlite://{tmp_path}/ledger"


def test_the_same_record_twice_is_asked_once_in_one_batch_or_in_several(ledger):
    client = HandClient()
    with engine_for(make_settings(ledger=ledger, batch_size=4), client) as engine:
        twice = [make_question("q", origin=f"file:{line}") for line in range(1, 10)]
        outcomes = ask(engine, [*twice, make_question("other")])
    assert client.log.count("q") == 1
    assert codes_of(outcomes) == {"OK": 2, "duplicate": 8}
    assert outcomes[0].skip is None  # the first of them is the one that counts
    assert all(outcome.answers == () for outcome in outcomes if outcome.skip)


def test_a_bundle_that_is_tried_again_is_no_duplicate(ledger):
    client = HandClient()
    with engine_for(make_settings(ledger=ledger), client) as engine:
        asked = questions(10)
        assert codes_of(ask(engine, asked)) == {"OK": 10}
        assert codes_of(ask(engine, asked)) == {"OK": 10}
    assert len(client.log) == (20 if ledger == "none" else 10)


def test_what_differs_in_anything_is_no_duplicate(ledger):
    with engine_for(make_settings(ledger=ledger), HandClient()) as engine:
        outcomes = ask(
            engine,
            [
                make_question("q", origin="1"),
                make_question("q", origin="2", id="another id"),
                make_question("q", origin="3", system_instruction="be brief"),
                make_question(["q", "and then"], origin="4"),
                make_question(["q", "and next"], origin="5"),
                make_question("Q", origin="6", id="q"),
            ],
        )
    assert codes_of(outcomes) == {"OK": 6}


def test_threads_that_bring_the_same_record_ask_it_once(ledger):
    client = HandClient()
    results = []
    with engine_for(make_settings(ledger=ledger), client) as engine:

        def bundle(name):
            results.extend(ask(engine, [make_question(f"q{n}", origin=f"{name}:{n}") for n in range(40)]))

        threads = [threading.Thread(target=bundle, args=(name,), daemon=True) for name in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert codes_of(results) == {"OK": 40, "duplicate": 160}
    assert Counter(client.log) == {f"q{number}": 1 for number in range(40)}


# -- faults of our own -----------------------------------------------------------------------------------


def test_an_error_that_no_client_should_raise_costs_one_question_and_nothing_else(caplog):
    async def behaviour(prompt, nth):
        if prompt == "odd turn":
            raise KeyError("the whole prompt")
        return response(prompt)

    client = HandClient(behaviour)
    with caplog.at_level(logging.DEBUG), engine_for(make_settings(max_in_flight=1), client) as engine:
        outcomes = ask(engine, [make_question(["fine", "odd turn"]), *questions(20)])
        assert codes_of(ask(engine, questions(5, "later"))) == {"OK": 5}
    assert codes_of(outcomes) == {"OK": 20, INTERNAL_ERROR: 1}
    odd = outcomes[0]
    assert texts_of(odd) == ["fine"]
    assert odd.calls == 2  # what was called is counted, whatever came of it
    assert odd.failure.retryable
    assert "the whole prompt" not in caplog.text


def test_prompts_and_answers_are_never_logged(caplog, tmp_path):
    async def behaviour(prompt, nth):
        if "fail" in prompt:
            raise CallError("INVALID_ARGUMENT", f"you said: {prompt}")
        return response("secret answer")

    settings = make_settings(ledger=f"sqlite://{tmp_path}/ledger")
    with caplog.at_level(logging.DEBUG), engine_for(settings, HandClient(behaviour)) as engine:
        ask(engine, [make_question(f"secret {n} fail") for n in range(60)] + questions(5, "secret"))
    assert "secret" not in caplog.text


# -- against the emulator --------------------------------------------------------------------------------


def test_faults_of_every_kind_end_as_what_they_are(tmp_path):
    log = tmp_path / "log"
    flags = ("--faults=all:0.2", "--seed=3", f"--call_log={log}", "--answers=canned")
    with running_emulator(*flags) as emulator:
        settings = make_settings(emulator.address, max_attempts=3, deadline_seconds=1.5, max_in_flight=64)
        with engine_for(settings) as engine:
            asked = questions(300)
            outcomes = ask(engine, asked)
    calls = read_log(log)
    by_prompt = {}
    for call in calls:
        by_prompt.setdefault(call["prompt"], []).append(call)
    assert sum(outcome.calls for outcome in outcomes) == len(calls)
    assert max(len(made) for made in by_prompt.values()) == 3
    assert codes_of(outcomes)["OK"] > 220
    for question, outcome in zip(asked, outcomes, strict=True):
        made = by_prompt[question.turns[0]]
        assert outcome.calls == len(made)
        last = made[-1]
        if last.get("fault") == "undecodable":
            expected = "UNDECODABLE_RESPONSE"
        else:
            expected = "DEADLINE_EXCEEDED" if last["code"] == "HANG" else last["code"]
        got = outcome.failure.code if outcome.failure else "OK"
        assert got == expected
        if outcome.failure is not None and outcome.failure.retryable:
            assert outcome.failure.attempts == 3
        assert len(outcome.retry_codes) == outcome.calls - 1


def test_connections_that_are_cut_cost_attempts_and_no_question(tmp_path):
    log = tmp_path / "log"
    flags = ("--faults=disconnect:0.02", f"--call_log={log}", "--answers=canned")
    with running_emulator(*flags) as emulator:
        settings = make_settings(emulator.address, max_attempts=8, backoff_seconds=0.05, max_in_flight=16)
        with engine_for(settings) as engine:
            outcomes = ask(engine, questions(300))
    assert codes_of(outcomes) == {"OK": 300}
    assert {code for outcome in outcomes for code in outcome.retry_codes} == {"UNAVAILABLE"}
    # Some of the calls on a connection that was cut never arrived.
    assert sum(outcome.calls for outcome in outcomes) >= len(read_log(log))


def test_calls_that_hang_are_cut_and_their_neighbours_do_not_notice(tmp_path):
    log = tmp_path / "log"
    with running_emulator("--faults=hang:0.1", "--answers=canned", f"--call_log={log}") as emulator:
        settings = make_settings(emulator.address, max_attempts=1, deadline_seconds=1.0, max_in_flight=16)
        with engine_for(settings) as engine:
            outcomes = ask(engine, questions(200))
    hung = {call["prompt"] for call in read_log(log) if call["code"] == "HANG"}
    assert 5 < len(hung) < 50
    for outcome in outcomes:
        if outcome.question.turns[0] in hung:
            assert outcome.failure.code == "DEADLINE_EXCEEDED"
        else:
            assert outcome.failure is None
            assert outcome.answers[0].latency_ms < 1_000


def test_settings_of_records_reach_the_request(tmp_path):
    assert RecordSettings().api_version == make_settings().api_version
    with running_emulator() as emulator, engine_for(make_settings(emulator.address)) as engine:
        question = make_question("Who ran first?", facts=["Pheidippides ran from Marathon to Athens."])
        assert "Pheidippides" in texts_of(ask(engine, [question])[0])[0]
