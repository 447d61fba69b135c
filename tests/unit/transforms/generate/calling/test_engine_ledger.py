import asyncio
import os
import sqlite3
import threading
import time
from dataclasses import replace

import pytest

from groundrows.schemas.codes import NOT_ATTEMPTED
from groundrows.schemas.errors import CallError, LedgerError
from groundrows.transforms.generate.calling import rights
from groundrows.transforms.generate.calling.basket import Basket
from groundrows.transforms.generate.calling.engine import Engine
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from tests.support.engines import (
    HandClient,
    ask,
    codes_of,
    engine_for,
    make_question,
    make_settings,
    questions,
    response,
    text_of,
)

SECONDS = 20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


@pytest.fixture
def settings(path):
    return make_settings(ledger=f"sqlite://{path}", batch_size=7)


def texts_of(outcome):
    return [text_of(answer.response) for answer in outcome.answers]


def test_a_second_run_asks_nothing_and_says_the_same(settings):
    async def behaviour(prompt, nth):
        if nth == 1 and prompt.endswith("3"):
            raise CallError("UNAVAILABLE", "")
        return response(f"{prompt}/{nth}")

    asked = [*questions(30), make_question(["one", "two", "three"])]
    with engine_for(settings, HandClient(behaviour)) as engine:
        first = ask(engine, asked)
    client = HandClient()
    with engine_for(replace(settings, run_id="another"), client) as engine:
        second = ask(engine, asked)
    assert client.log == []
    assert codes_of(second) == {"OK": 31}
    for before, after in zip(first, second, strict=True):
        assert (after.calls, after.retry_codes) == (0, ())
        assert [replace(answer, from_ledger=True) for answer in before.answers] == list(after.answers)


def test_failures_are_asked_again(settings):
    async def behaviour(prompt, nth):
        if prompt in ("q2", "q5"):
            raise CallError("INVALID_ARGUMENT" if prompt == "q2" else "UNAVAILABLE", "")
        return response(prompt)

    with engine_for(settings, HandClient(behaviour)) as engine:
        ask(engine, questions(10))
    client = HandClient()
    with engine_for(settings, client) as engine:
        assert codes_of(ask(engine, questions(10))) == {"OK": 10}
    assert sorted(client.log) == ["q2", "q5"]


@pytest.mark.parametrize(
    "change",
    [
        {"location": "projects/p/locations/eu"},
        {"location": "projects/other/locations/global"},
    ],
)
def test_another_location_asks_again(settings, change):
    with engine_for(settings, HandClient()) as engine:
        ask(engine, questions(3))
    client = HandClient()
    with engine_for(replace(settings, **change), client) as engine:
        ask(engine, questions(3))
    assert len(client.log) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"system_instruction": "be brief"},
        {"generation_spec": {"model_id": "another"}},
        {"generation_spec": {"temperature": 0.0}},
        {"facts": ["a fact"]},
        {"id": "another id"},
    ],
)
def test_a_request_that_differs_in_anything_asks_again(settings, fields):
    client = HandClient()
    with engine_for(settings, client) as engine:
        ask(engine, [make_question("q", origin="1"), make_question("q", origin="2", **fields)])
    assert len(client.log) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"max_in_flight": 3},
        {"deadline_seconds": 9.0},
        {"requests_per_minute": 6_000.0},
        {"endpoint": "127.0.0.1:10"},
        {"batch_size": 1},
    ],
)
def test_how_calls_are_made_does_not_ask_again(settings, change):
    with engine_for(settings, HandClient()) as engine:
        ask(engine, questions(3))
    client = HandClient()
    with engine_for(replace(settings, **change), client) as engine:
        assert codes_of(ask(engine, questions(3))) == {"OK": 3}
    assert client.log == []


def test_a_conversation_is_taken_up_in_its_middle(settings):
    async def until_the_third(prompt, nth):
        if prompt == "three":
            raise CallError("UNAVAILABLE", "")
        return response(f"first run: {prompt}")

    conversation = make_question(["one", "two", "three", "four"])
    with engine_for(settings, HandClient(until_the_third)) as engine:
        outcome = ask(engine, [conversation])[0]
    assert (outcome.failure.turn_index, len(outcome.answers)) == (2, 2)
    client = HandClient()
    with engine_for(settings, client) as engine:
        outcome = ask(engine, [conversation])[0]
    assert client.log == ["three", "four"]
    assert texts_of(outcome) == ["first run: one", "first run: two", "three/1", "four/1"]
    assert [answer.from_ledger for answer in outcome.answers] == [True, True, False, False]
    assert outcome.calls == 2
    assert b"first run: two" in outcome.answers[2].request


def test_responses_that_came_just_before_the_end_are_kept(settings, path):
    writing, go = threading.Event(), threading.Event()

    async def behaviour(prompt, nth):
        while prompt != "q0" and not writing.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.005)
        return response(prompt)

    engine = Engine(settings, lambda _: HandClient(behaviour))
    put_many = engine.ledger.put_many

    def slowly(entries):
        writing.set()
        go.wait(SECONDS)
        put_many(entries)
        return [None] * len(entries)

    engine._commit._work = slowly
    engine.submit(list(enumerate(questions(5))), Basket())
    # The first is being written, and the others wait for the next write.
    give_up = time.monotonic() + SECONDS
    while len(engine._commit._waiting) < 4 and time.monotonic() < give_up:
        time.sleep(0.005)
    closing = threading.Thread(target=engine.close, daemon=True)
    closing.start()
    closing.join(0.1)
    go.set()
    closing.join(SECONDS)
    assert not closing.is_alive()
    ledger = SqliteLedger(str(path))
    assert len(list(ledger.entries())) == 5
    ledger.close()


def test_two_engines_on_one_ledger_answer_everything(settings):
    clients = [HandClient(), HandClient()]
    results = [None, None]

    def work(index):
        with engine_for(replace(settings, run_id=f"run {index}"), clients[index]) as engine:
            results[index] = ask(engine, questions(100))

    threads = [threading.Thread(target=work, args=(index,), daemon=True) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert [codes_of(result) for result in results] == [{"OK": 100}, {"OK": 100}]


def test_a_ledger_that_can_not_be_used_is_said_before_anything_starts(path):
    path.write_text("no ledger at all, but something that somebody wrote" * 50)
    with pytest.raises(LedgerError, match="can't be used"):
        Engine(make_settings(ledger=f"sqlite://{path}"), lambda _: HandClient())
    assert "groundrows-calls" not in [thread.name for thread in threading.enumerate()]


def fill_disk(engine):
    pages = engine.ledger._db.execute("PRAGMA page_count").fetchone()[0]
    engine.ledger._db.execute(f"PRAGMA max_page_count={pages}")


def spoil(table):
    def break_it(engine):
        engine.ledger._db.execute(f"ALTER TABLE {table} RENAME TO gone")

    return break_it


@pytest.mark.parametrize(
    "break_it",
    [fill_disk, spoil("responses"), spoil("claims"), spoil("budgets")],
    ids=["full disk", "responses", "claims", "budgets"],
)
@pytest.mark.parametrize("share", [False, True])
def test_a_ledger_that_fails_halts_and_every_question_has_its_outcome(settings, break_it, share, caplog):
    broken = threading.Event()

    async def behaviour(prompt, nth):
        if prompt == "q40":
            break_it(engine)
            broken.set()
        return response(os.urandom(700).hex())  # a page or so each

    settings = replace(settings, max_requests=10_000, share_identical=share, max_in_flight=4)
    client = HandClient(behaviour)
    with engine_for(settings, client) as engine:
        outcomes = ask(engine, questions(400))
        later = ask(engine, questions(30, "later"))
        asked = len(client.log)
    assert broken.is_set()
    assert codes_of(outcomes).keys() == {"OK", NOT_ATTEMPTED}
    # Every response that came was handed on, stored or not.
    assert codes_of(outcomes)["OK"] == sum(len(outcome.answers) for outcome in outcomes) == asked
    assert asked < 400
    assert codes_of(later) == {NOT_ATTEMPTED: 30}
    for outcome in [*outcomes, *later]:
        if outcome.failure:
            assert outcome.failure.retryable
            assert "ledger" in outcome.failure.message
    assert len([record for record in caplog.records if "ledger" in record.message]) <= 2


def test_stored_answers_come_out_when_calling_has_stopped(settings):
    with engine_for(settings, HandClient()) as engine:
        ask(engine, questions(20))

    async def behaviour(prompt, nth):
        raise CallError("UNAUTHENTICATED", "no")

    client = HandClient(behaviour)
    with engine_for(settings, client) as engine:
        ask(engine, questions(30, "new"))
        assert codes_of(ask(engine, questions(40))) == {"OK": 20, NOT_ATTEMPTED: 20}


def test_a_ledger_that_is_locked_for_too_long_halts(settings, path, monkeypatch):
    monkeypatch.setattr("groundrows.transforms.generate.ledger.sqlite.BUSY_SECONDS", 0.2)
    client = HandClient()
    with engine_for(settings, client) as engine:
        assert codes_of(ask(engine, questions(5))) == {"OK": 5}
        locker = sqlite3.connect(path, isolation_level=None)
        locker.execute("BEGIN IMMEDIATE")
        claim, claims = engine.ledger.claim, []
        monkeypatch.setattr(engine.ledger, "claim", lambda *args: claims.append(args) or claim(*args))
        outcomes = ask(engine, questions(200, "locked"))
        locker.close()
    assert len(claims) == 1  # the patience that it takes is not spent on every batch
    assert codes_of(outcomes) == {NOT_ATTEMPTED: 200}
    assert "locked" in outcomes[0].failure.message
    assert len(client.log) == 5


def equal(count):
    return [make_question("the same", origin=str(number), id=f"id {number}") for number in range(count)]


@pytest.mark.parametrize("share", [True, False])
def test_equal_requests_under_different_ids_are_asked_once_only_when_told_to(settings, share):
    client = HandClient()
    with engine_for(replace(settings, share_identical=share), client) as engine:
        outcomes = ask(engine, equal(100))
    assert codes_of(outcomes) == {"OK": 100}
    assert len(client.log) == (1 if share else 100)
    if share:
        assert {text for outcome in outcomes for text in texts_of(outcome)} == {"the same/1"}
        assert sum(outcome.calls for outcome in outcomes) == 1
        assert [outcome.answers[0].from_ledger for outcome in outcomes].count(False) == 1


def test_equal_requests_of_different_batches_and_runs_are_shared(settings):
    client = HandClient()
    sharing = replace(settings, share_identical=True)
    with engine_for(sharing, client) as engine:
        ask(engine, equal(10))
        ask(engine, [make_question("the same", id="much later")])
    with engine_for(replace(sharing, run_id="another"), client) as engine:
        ask(engine, [make_question("the same", id="even later")])
    assert len(client.log) == 1


def test_a_first_that_fails_dooms_nobody(settings):
    async def behaviour(prompt, nth):
        await asyncio.sleep(0.005)
        if nth <= 2:
            raise CallError("INVALID_ARGUMENT", "not now")
        return response("here")

    client = HandClient(behaviour)
    with engine_for(replace(settings, share_identical=True), client) as engine:
        outcomes = ask(engine, equal(100))
    assert codes_of(outcomes) == {"OK": 98, "INVALID_ARGUMENT": 2}
    assert len(client.log) == 3


def test_equal_requests_that_all_fail_are_each_asked_in_turn(settings, monkeypatch):
    async def behaviour(prompt, nth):
        raise CallError("OUT_OF_RANGE", "never")

    leased = []
    lease, end = SqliteLedger.lease, SqliteLedger.end_leases

    def log_lease(self, holder, keys, seconds):
        found = lease(self, holder, keys, seconds)
        leased.extend("taken" for key in keys if key not in found.taken)
        return found

    def log_end(self, holder, keys=None):
        leased.extend("ended" for _ in keys or ())
        end(self, holder, keys)

    monkeypatch.setattr(SqliteLedger, "lease", log_lease)
    monkeypatch.setattr(SqliteLedger, "end_leases", log_end)
    # Each is told by the one before it. None of them has to look for itself.
    monkeypatch.setattr(rights, "LOOK_AGAIN_SECONDS", 3600.0)
    client = HandClient(behaviour)
    sharing = replace(settings, share_identical=True, max_in_flight=256)
    with engine_for(sharing, client) as engine:
        outcomes = ask(engine, equal(400))
    assert codes_of(outcomes) == {"OUT_OF_RANGE": 400}
    assert client.most_out == 1
    # A lease that ended after the next one was taken would leave that one without a lease in the ledger.
    assert leased == ["taken", "ended"] * 400


def test_conversations_share_the_turns_that_are_equal(settings):
    client = HandClient()
    with engine_for(replace(settings, share_identical=True), client) as engine:
        outcomes = ask(
            engine,
            [
                make_question(["start", "left"], id="a", origin="1"),
                make_question(["start", "right"], id="b", origin="2"),
                make_question(["start", "left"], id="c", origin="3"),
            ],
        )
    assert codes_of(outcomes) == {"OK": 3}
    assert sorted(client.log) == ["left", "right", "start"]
    assert [len(outcome.answers) for outcome in outcomes] == [2, 2, 2]
