"""Engines that share a ledger: each question is asked by one of them, and both get its answer."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest

from groundrows.schemas.codes import LEFT_TO_ANOTHER
from groundrows.schemas.errors import CallError, LedgerError
from groundrows.transforms.generate.calling import leases, rights
from groundrows.transforms.generate.calling.basket import Basket
from groundrows.transforms.generate.ledger.uri import open_ledger
from tests.support.engines import (
    HandClient,
    ask,
    codes_of,
    engine_for,
    make_question,
    make_settings,
    response,
    text_of,
)

SECONDS = 20


@pytest.fixture(params=["sqlite", "redis"])
def settings(request, tmp_path):
    uri = request.getfixturevalue("redis_uri") if request.param == "redis" else f"sqlite://{tmp_path}/ledger"
    return make_settings(ledger=uri, run_id="one")


def questions(count, of=""):
    return [make_question(f"q{number}", origin=f"{of}:{number}") for number in range(count)]


def until(what):
    give_up = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < give_up
        time.sleep(0.005)


class Held(HandClient):
    """Answers nothing until it is told to go on."""

    def __init__(self):
        super().__init__(self._answer)
        self.go = threading.Event()

    async def _answer(self, prompt, nth):
        while not self.go.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.005)
        return response(prompt)


def asked_in_thread(engine, asked):
    """Begins to ask, and returns what waits for the outcomes."""
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.extend(ask(engine, asked)))
    thread.start()

    def join():
        thread.join(SECONDS)
        assert not thread.is_alive()
        return outcomes

    return join


def test_what_one_is_asking_the_other_waits_for_and_gets(settings):
    held, other = Held(), HandClient()
    with (
        engine_for(settings, held) as one,
        engine_for(replace(settings, run_id="two"), other) as two,
    ):
        first = asked_in_thread(one, questions(10))
        until(lambda: held.out == 10)
        second = asked_in_thread(two, questions(12))
        until(lambda: len(other.log) == 2)  # what nobody holds is asked at once
        held.go.set()
        assert codes_of(first()) == {"OK": 10}
        outcomes = second()
    assert codes_of(outcomes) == {"OK": 12}
    assert [outcome.answers[0].from_ledger for outcome in outcomes] == [True] * 10 + [False] * 2
    assert sorted(other.log) == ["q10", "q11"]


def test_more_than_a_backlog_of_waiting_questions_locks_nobody_up(settings):
    small = replace(settings, max_in_flight=2, batch_size=4)
    clients = [HandClient(), HandClient()]
    with (
        engine_for(small, clients[0]) as one,
        engine_for(replace(small, run_id="two"), clients[1]) as two,
    ):
        asked = questions(200)
        ends = [asked_in_thread(one, asked), asked_in_thread(two, asked[::-1])]
        assert [codes_of(end()) for end in ends] == [{"OK": 200}] * 2
    assert Counter(clients[0].log + clients[1].log) == {f"q{number}": 1 for number in range(200)}


def test_what_one_can_not_get_answered_the_other_asks(settings):
    async def no(prompt, nth):
        raise CallError("INVALID_ARGUMENT", "not today")

    with engine_for(settings, HandClient(no)) as one, engine_for(settings, HandClient()) as two:
        assert codes_of(ask(one, questions(3))) == {"INVALID_ARGUMENT": 3}
        two.settings = replace(settings, run_id="two")
        assert codes_of(ask(two, questions(3))) == {"OK": 3}


def test_what_an_engine_that_ends_has_not_asked_the_other_asks(settings):
    held, other = Held(), HandClient()
    with engine_for(replace(settings, run_id="two"), other) as two:
        with engine_for(replace(settings, max_in_flight=1), held) as one:
            one.submit(list(enumerate(questions(5))), Basket())
            until(lambda: held.out == 1)
            second = asked_in_thread(two, questions(5))
            held.go.set()
        assert codes_of(second()) == {"OK": 5}
    assert Counter(held.log + other.log) == {f"q{number}": 1 for number in range(5)}


def test_who_stood_still_looks_again_before_it_asks(settings, monkeypatch):
    """Five are out at the moment of the stop, and no more than those are paid twice."""
    held, other = Held(), HandClient()
    with (
        engine_for(replace(settings, max_in_flight=5), held) as one,
        engine_for(replace(settings, run_id="two"), other) as two,
    ):
        first = asked_in_thread(one, questions(30))
        until(lambda: held.out == 5)
        # Its clock jumps, and the others' respect for it has ended.
        clock = one._leases._clock
        monkeypatch.setattr(one._leases, "_clock", lambda: clock() + 60)
        with closing(open_ledger(settings.ledger)) as ledger:
            ledger.end_leases(one._leases._name)
        assert codes_of(ask(two, questions(30))) == {"OK": 30}
        held.go.set()
        outcomes = first()
    assert codes_of(outcomes) == {"OK": 30}
    assert len(other.log) == 30
    assert len(held.log) == 5
    assert [outcome.answers[0].from_ledger for outcome in outcomes].count(True) == 25


def test_a_killed_process_s_questions_are_asked_when_its_time_has_passed(settings):
    with closing(open_ledger(settings.ledger)) as ledger, engine_for(settings, HandClient()) as engine:
        keys = []
        find = engine._find
        engine._find = lambda jobs: keys.extend(job.key for job in jobs) or find(jobs)
        ask(engine, questions(3))
        asked = [make_question(f"q{number}", id=f"other {number}") for number in range(3)]
        # The dead one held them; it lives on for others for a moment only.
        engine._find = lambda jobs: ledger.lease("dead/1", [job.key for job in jobs], 0.3) and find(jobs)
        assert codes_of(ask(engine, asked)) == {"OK": 3}


def test_a_question_that_is_another_worker_s_by_now_is_left_to_it(settings):
    client = HandClient()
    with engine_for(settings, client) as engine:
        engine.is_wanted = lambda origin: origin != "message:1"
        outcomes = ask(engine, questions(3, "message"))
    assert codes_of(outcomes) == {"OK": 2, LEFT_TO_ANOTHER: 1}
    assert outcomes[1].failure.retryable
    assert sorted(client.log) == ["q0", "q2"]


def test_an_idle_engine_says_nothing_and_a_busy_one_that_it_lives(settings, monkeypatch):
    monkeypatch.setattr(rights, "BEAT_SECONDS", 0.01)
    held, said = Held(), threading.Event()
    with engine_for(settings, held) as engine:
        renew = engine.ledger.renew
        monkeypatch.setattr(engine.ledger, "renew", lambda *args: said.set() or renew(*args))
        assert not said.wait(0.1)
        end = asked_in_thread(engine, questions(1))
        assert said.wait(SECONDS)
        held.go.set()
        assert codes_of(end()) == {"OK": 1}


def test_what_was_stored_lies_in_the_ledger_s_own_file_a_sign_of_life_later(tmp_path, monkeypatch):
    """Also when nothing is asked any more: the file that SQLite keeps beside it may get lost after a kill."""
    monkeypatch.setattr(rights, "BEAT_SECONDS", 0.01)
    settings = make_settings(ledger=f"sqlite://{tmp_path}/ledger", run_id="one")

    def in_the_file():
        shutil.copyfile(tmp_path / "ledger", tmp_path / "copy")
        with closing(open_ledger(f"sqlite://{tmp_path}/copy", read_only=True)) as ledger:
            return len(list(ledger.entries()))

    with engine_for(settings, HandClient()) as engine:
        assert codes_of(ask(engine, questions(5))) == {"OK": 5}
        until(lambda: in_the_file() == 5)


def test_a_sign_of_life_that_can_not_be_given_stops_the_calling(settings, monkeypatch):
    def broken(*_):
        raise LedgerError("The ledger is gone.")

    monkeypatch.setattr(rights, "BEAT_SECONDS", 0.05)
    held = Held()
    with engine_for(replace(settings, max_in_flight=2), held) as engine:
        end = asked_in_thread(engine, questions(10))
        until(lambda: held.out == 2)
        monkeypatch.setattr(engine.ledger, "renew", broken)
        until(lambda: engine.halt.reason is not None)
        held.go.set()
        outcomes = end()
    assert codes_of(outcomes) == {"OK": 2, "NOT_ATTEMPTED": 8}
    assert {text_of(outcome.answers[0].response) for outcome in outcomes if outcome.answers} <= set(held.log)


def test_a_process_trusts_its_leases_for_a_shorter_time_than_others_and_says_so_often_enough():
    assert 2 * leases.BEAT_SECONDS < leases.SURE_SECONDS < leases.LEASE_SECONDS


def test_of_a_ledger_that_has_failed_nothing_is_asked_again(settings, monkeypatch):
    def broken(*_):
        raise LedgerError("The ledger is gone.")

    client = HandClient()
    with engine_for(settings, client) as engine:
        monkeypatch.setattr(engine.ledger, "claim", broken)
        assert codes_of(ask(engine, questions(5))) == {"NOT_ATTEMPTED": 5}
        asked = []
        for name in ("get_many", "lease", "claim", "renew", "end_leases", "release"):
            monkeypatch.setattr(engine.ledger, name, lambda *args: asked.append(args))
        assert codes_of(ask(engine, questions(300, "later"))) == {"NOT_ATTEMPTED": 300}
    assert asked == client.log == []
    assert engine.halt.reason == "The ledger is gone."
