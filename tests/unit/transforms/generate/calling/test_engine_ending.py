"""How calling ends: what is out may end and is kept, nothing else is let out, and nothing hangs."""

import asyncio
import threading
from contextlib import closing

import pytest

from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.basket import Basket
from groundrows.transforms.generate.calling.engine import Engine
from groundrows.transforms.generate.ledger.uri import open_ledger
from tests.support.closing import close, join, never, until
from tests.support.engines import (
    HandClient,
    ask,
    codes_of,
    engine_for,
    make_question,
    make_settings,
    questions,
    response,
)


@pytest.fixture
def ledger(tmp_path):
    return f"sqlite://{tmp_path}/ledger"


def stored(ledger):
    with closing(open_ledger(ledger, read_only=True)) as opened:
        return {entry.question_id for entry in opened.entries()}


class Held(HandClient):
    """Answers nobody before it is told to, and then with the prompt or with `error`."""

    def __init__(self, error=None):
        super().__init__(self._when_told)
        self.go = threading.Event()
        self._error = error

    async def _when_told(self, prompt, nth):
        while not self.go.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.005)
        if self._error:
            raise self._error
        return response(prompt)


@pytest.mark.parametrize("told_before", [True, False], ids=["stopped first", "closed"])
@pytest.mark.parametrize("limit", [None, 60_000.0])
def test_what_is_out_is_waited_for_and_kept_and_nothing_follows(ledger, told_before, limit, caplog):
    client, basket = Held(), Basket()
    engine = Engine(
        make_settings(ledger=ledger, max_in_flight=4, requests_per_minute=limit), lambda _: client
    )
    engine.submit(list(enumerate(questions(30))), basket)
    until(lambda: client.out == 4)
    if told_before:
        assert engine.stop_calling() == 4
    thread = close(engine)
    until(lambda: engine.attempts.halted.is_set())
    client.go.set()
    join(thread)
    assert len(client.log) == 4
    assert stored(ledger) == set(client.log)
    assert client.closed
    assert basket.take() == []  # nobody goes on with what is not there
    assert caplog.records == []
    again = HandClient()
    with engine_for(make_settings(ledger=ledger), again) as second:
        assert codes_of(ask(second, questions(30))) == {"OK": 30}
    assert sorted(again.log + client.log) == sorted(f"q{number}" for number in range(30))


def test_a_conversation_ends_with_the_turn_that_is_out(ledger):
    client = Held()
    engine = Engine(make_settings(ledger=ledger), lambda _: client)
    engine.submit([(0, make_question(["one", "two"]))], Basket())
    until(lambda: client.out)
    engine.stop_calling()
    until(lambda: engine.attempts.halted.is_set())
    client.go.set()
    join(close(engine))
    assert client.log == ["one"]


def test_a_call_that_fails_meanwhile_is_not_made_again(ledger):
    client = Held(CallError("UNAVAILABLE", ""))
    engine = Engine(make_settings(ledger=ledger), lambda _: client)
    engine.submit(list(enumerate(questions(3))), Basket())
    until(lambda: client.out == 3)
    engine.stop_calling()
    until(lambda: engine.attempts.halted.is_set())
    client.go.set()
    join(close(engine))
    assert len(client.log) == 3


def test_who_waits_to_try_again_is_not_waited_for(ledger):
    async def refuse(prompt, nth):
        raise CallError("UNAVAILABLE", "")

    client = HandClient(refuse)
    engine = Engine(make_settings(ledger=ledger, backoff_seconds=600.0), lambda _: client)
    engine.submit(list(enumerate(questions(3))), Basket())
    until(lambda: engine.attempts.waiting_to_retry)
    assert engine.stop_calling() == 0
    join(close(engine))


def test_without_a_ledger_there_is_nothing_to_wait_for():
    client = Held()
    engine = Engine(make_settings(deadline_seconds=600.0), lambda _: client)
    engine.submit(list(enumerate(questions(3))), Basket())
    until(lambda: client.out == 3)
    assert engine.stop_calling() == 0
    join(close(engine))
    assert client.out == 0


@pytest.mark.parametrize("limit", [None, 60.0])
def test_calls_that_hang_are_waited_for_no_longer_than_an_attempt_lasts(limit, ledger):
    client = HandClient(never)
    engine = Engine(
        make_settings(
            ledger=ledger, max_requests=100, max_in_flight=8, requests_per_minute=limit, deadline_seconds=0.2
        ),
        lambda _: client,
    )
    engine.submit(list(enumerate(questions(30))), Basket())
    until(lambda: client.out)
    join(close(engine))
    assert client.closed
    assert client.out == 0


def test_whoever_hands_questions_in_after_that_is_not_heard(ledger):
    client, basket = Held(), Basket()
    engine = Engine(make_settings(ledger=ledger), lambda _: client)
    engine.submit([(0, make_question("before"))], Basket())
    until(lambda: client.out)
    engine.stop_calling()
    until(lambda: engine.attempts.halted.is_set())
    engine.submit(list(enumerate(questions(30))), basket)
    client.go.set()
    join(close(engine))
    engine.submit(list(enumerate(questions(30))), basket)
    assert client.log == ["before"]
    assert basket.take() == []


def test_a_halt_that_came_before_stays(ledger):
    async def refuse(prompt, nth):
        raise CallError("PERMISSION_DENIED", "no")

    with engine_for(make_settings(ledger=ledger), HandClient(refuse)) as engine:
        ask(engine, questions(30))
        reason = engine.halt.reason
        assert engine.stop_calling() == 0
    assert engine.halt.reason == reason
    assert "PERMISSION_DENIED" in reason
