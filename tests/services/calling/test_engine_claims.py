"""A question that comes again: a duplicate, unless the first has failed and it is a stream."""

import asyncio
import threading
import time

import pytest

from groundrows.schemas.codes import NOT_ATTEMPTED
from groundrows.schemas.errors import CallError, LedgerError
from groundrows.transforms.generate.calling.basket import Basket
from tests.support.engines import (
    HandClient,
    ask,
    codes_of,
    engine_for,
    make_question,
    make_settings,
    response,
)

SECONDS = 20


@pytest.fixture(params=["none", "sqlite", "redis"])
def uri(request, tmp_path):
    if request.param == "redis":
        return request.getfixturevalue("redis_uri")
    return "none" if request.param == "none" else f"sqlite://{tmp_path}/ledger"


async def at_first_nothing(prompt, nth):
    """Fails whatever starts with `bad`, the first time."""
    if prompt.startswith("bad") and nth == 1:
        raise CallError("INVALID_ARGUMENT", "not today")
    return response(prompt)


def published(number, *texts):
    """The questions as one publication of them: each has its origin."""
    return [make_question(text, origin=f"message {number} {text}") for text in texts]


def test_in_a_stream_what_failed_and_comes_again_is_asked_again(uri):
    client = HandClient(at_first_nothing)
    with engine_for(make_settings(ledger=uri, release_failed=True), client) as engine:
        first = ask(engine, published(1, "good", "bad"))
        assert codes_of(first) == {"OK": 1, "INVALID_ARGUMENT": 1}
        assert codes_of(ask(engine, published(2, "good", "bad"))) == {"duplicate": 1, "OK": 1}
        assert codes_of(ask(engine, published(3, "good", "bad"))) == {"duplicate": 2}
    assert sorted(client.log) == ["bad", "bad", "good"]


def test_in_an_archive_it_is_a_duplicate(uri):
    client = HandClient(at_first_nothing)
    with engine_for(make_settings(ledger=uri), client) as engine:
        ask(engine, published(1, "good", "bad"))
        assert codes_of(ask(engine, published(2, "good", "bad"))) == {"duplicate": 2}
    assert sorted(client.log) == ["bad", "good"]


def test_it_need_not_wait_until_nothing_else_is_asked(uri):
    go = threading.Event()

    async def behaviour(prompt, nth):
        while prompt == "slow" and not go.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.005)
        return await at_first_nothing(prompt, nth)

    client, basket = HandClient(behaviour), Basket()
    with engine_for(make_settings(ledger=uri, release_failed=True), client) as engine:
        engine.submit(list(enumerate(published(1, "slow"))), basket)
        give_up = time.monotonic() + SECONDS
        while not client.out and time.monotonic() < give_up:
            time.sleep(0.005)
        for code in ("INVALID_ARGUMENT", "OK"):
            assert codes_of(ask(engine, published(code, "bad"))) == {code: 1}
        assert codes_of(ask(engine, published(2, "slow"))) == {"duplicate": 1}
        go.set()
        outcomes = [outcome for finished in basket.drain() for _, outcome in finished]
    assert codes_of(outcomes) == {"OK": 1}


def test_only_failures_talk_to_the_ledger_for_it(uri, monkeypatch):
    with engine_for(make_settings(ledger=uri, release_failed=True), HandClient(at_first_nothing)) as engine:
        release, released = engine.ledger.release, []
        monkeypatch.setattr(engine.ledger, "release", lambda *args: released.append(args) or release(*args))
        ask(engine, published(1, *(f"good {number}" for number in range(50))))
        assert released == []
        ask(engine, published(1, "bad 1", "bad 2", "good 3"))
        assert sorted(origin for _, claims in released for origin in claims.values()) == [
            "message 1 bad 1",
            "message 1 bad 2",
        ]


def test_a_conversation_is_asked_again_from_where_it_failed(tmp_path):
    client = HandClient(at_first_nothing)
    settings = make_settings(ledger=f"sqlite://{tmp_path}/ledger", release_failed=True)
    with engine_for(settings, client) as engine:
        for code in ("INVALID_ARGUMENT", "OK", "duplicate"):
            asked = make_question(["one", "bad two"], origin=code)
            assert codes_of(ask(engine, [asked])) == {code: 1}
    assert client.log == ["one", "bad two", "bad two"]


def test_a_ledger_that_can_not_release_stops_the_calling(tmp_path, monkeypatch):
    def broken(*_):
        tried.append(1)
        raise LedgerError("The ledger is gone.")

    tried = []
    settings = make_settings(ledger=f"sqlite://{tmp_path}/ledger", release_failed=True)
    with engine_for(settings, HandClient(at_first_nothing)) as engine:
        monkeypatch.setattr(engine.ledger, "release", broken)
        assert codes_of(ask(engine, published(1, "bad"))) == {"INVALID_ARGUMENT": 1}
        later = ask(engine, published(1, *(f"later {number}" for number in range(20))))
    assert codes_of(later) == {NOT_ATTEMPTED: 20}
    assert later[0].failure.message == "The ledger is gone."
    assert len(tried) == 1
