import asyncio
import threading
import time
from dataclasses import replace

import pytest

from groundrows.schemas.codes import NOT_ATTEMPTED
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.basket import Basket
from groundrows.transforms.generate.calling.engine import Engine
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

SECONDS = 40


@pytest.fixture(params=["none", "sqlite"])
def ledger(request, tmp_path):
    return "none" if request.param == "none" else f"sqlite://{tmp_path}/ledger"


@pytest.fixture
def shared(tmp_path):
    return f"sqlite://{tmp_path}/ledger"


async def every_third_fails_first(prompt, nth):
    await asyncio.sleep(0.001)
    if nth == 1 and int(prompt.strip("abcdefq")) % 3 == 0:
        raise CallError("UNAVAILABLE", "")
    return response(prompt)


@pytest.mark.parametrize("limit", [1, 8, 60, 333])
def test_not_one_call_over_with_256_in_flight_and_retries(ledger, limit):
    client = HandClient(every_third_fails_first)
    settings = make_settings(ledger=ledger, max_requests=limit, max_in_flight=256)
    with engine_for(settings, client) as engine:
        outcomes = ask(engine, questions(500))
    assert len(client.log) == limit
    assert sum(outcome.calls for outcome in outcomes) == limit
    codes = codes_of(outcomes)
    assert codes.keys() <= {"OK", "UNAVAILABLE", NOT_ATTEMPTED}
    for outcome in outcomes:
        if outcome.failure:
            assert outcome.failure.retryable
            if outcome.failure.code == NOT_ATTEMPTED:
                assert (outcome.failure.attempts, outcome.calls) == (0, 0)
                assert "--max_requests" in outcome.failure.message


def test_a_budget_that_is_enough_stops_nobody(ledger):
    with engine_for(make_settings(ledger=ledger, max_requests=100), HandClient()) as engine:
        assert codes_of(ask(engine, questions(100))) == {"OK": 100}


@pytest.mark.parametrize("limit", [0, 1, 50, 400])
def test_engines_and_threads_that_share_a_ledger_share_its_budget(shared, limit):
    clients = [HandClient(every_third_fails_first) for _ in range(3)]
    settings = make_settings(ledger=shared, max_requests=limit, max_in_flight=64, batch_size=5)
    engines = [Engine(settings, lambda _, client=client: client) for client in clients]
    results = []

    def bundle(number):
        results.extend(ask(engines[number % 3], questions(60, "abcdef"[number])))

    threads = [threading.Thread(target=bundle, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    for engine in engines:
        engine.close()
    assert len(results) == 360
    made = sum(len(client.log) for client in clients)
    assert made <= limit
    # What one engine held in reserve when another found the budget spent may go unused.
    assert made >= min(limit, 360) - 3 * 8
    assert sum(outcome.calls for outcome in results) == made


def test_shards_share_one_budget_where_there_is_a_ledger(shared):
    client = HandClient()
    settings = make_settings(
        ledger=shared, max_requests=20, rate_limiter="sharded", pacing_shards=4, requests_per_minute=1e9
    )
    with engine_for(settings, client) as engine:
        for shard in range(4):
            ask(engine, questions(10, f"{shard}-"), shard)
    assert len(client.log) == 20


def test_what_one_shard_holds_in_reserve_another_may_use(shared):
    client = HandClient()
    settings = make_settings(
        ledger=shared, max_requests=8, rate_limiter="sharded", pacing_shards=2, requests_per_minute=1e9
    )
    with engine_for(settings, client) as engine:
        basket = Basket()
        engine.submit([("0", make_question("q"))], basket, 0)
        engine.submit([(str(n), make_question(f"q{n}")) for n in range(7)], basket, 1)
        outcomes = [outcome for finished in basket.drain() for _, outcome in finished]
    assert codes_of(outcomes) == {"OK": 8}


def test_shards_have_a_part_each_where_there_is_none():
    client = HandClient()
    settings = make_settings(
        max_requests=10, rate_limiter="sharded", pacing_shards=4, requests_per_minute=1e9
    )
    with engine_for(settings, client) as engine:
        for shard in range(4):
            ask(engine, questions(10, f"{shard}-"), shard)
    by_shard = [sum(prompt.startswith(f"{shard}-") for prompt in client.log) for shard in range(4)]
    assert by_shard == [3, 3, 2, 2]


def test_what_was_reserved_and_not_used_is_there_for_others(shared):
    client = HandClient()
    settings = make_settings(ledger=shared, max_requests=20)
    one, two = (Engine(settings, lambda _: client) for _ in range(2))
    assert codes_of(ask(one, questions(3, "a"))) == {"OK": 3}  # a bundle ends: what is left is given back
    assert codes_of(ask(two, questions(30, "b"))) == {"OK": 17, NOT_ATTEMPTED: 13}
    one.close()
    two.close()
    assert len(client.log) == 20


def test_closing_gives_back_what_is_held(shared):
    go = threading.Event()

    async def behaviour(prompt, nth):
        while not go.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.005)
        return response("")

    client = HandClient(behaviour)
    settings = make_settings(ledger=shared, max_requests=20, deadline_seconds=0.1)
    engine = Engine(settings, lambda _: client)
    engine.submit([(0, make_question("hangs"))], Basket())
    while not client.log:
        time.sleep(0.005)
    engine.close()  # one of the eight that were reserved was used
    with engine_for(settings, HandClient()) as second:
        assert codes_of(ask(second, questions(30))) == {"OK": 19, NOT_ATTEMPTED: 11}


def test_a_run_that_is_taken_up_counts_on_and_another_run_starts_afresh(shared):
    settings = make_settings(ledger=shared, max_requests=10)
    client = HandClient()
    with engine_for(settings, client) as engine:
        ask(engine, questions(6))
    with engine_for(settings, client) as engine:
        assert codes_of(ask(engine, questions(12))) == {"OK": 10, NOT_ATTEMPTED: 2}
    assert len(client.log) == 10
    with engine_for(replace(settings, run_id="another"), client) as engine:
        assert codes_of(ask(engine, questions(12))) == {"OK": 12}
    assert len(client.log) == 12


def test_answers_from_the_ledger_cost_nothing(shared):
    with engine_for(make_settings(ledger=shared), HandClient()) as engine:
        ask(engine, questions(50))
    settings = make_settings(ledger=shared, run_id="another", max_requests=1)
    with engine_for(settings, HandClient()) as engine:
        assert codes_of(ask(engine, questions(60))) == {"OK": 51, NOT_ATTEMPTED: 9}


def test_the_rest_does_not_wait_for_the_pace_once_the_budget_is_spent(shared):
    # At one call a second the hundred would take longer than is waited here.
    settings = make_settings(ledger=shared, max_requests=1, requests_per_minute=60.0)
    finished = []
    with engine_for(settings, HandClient()) as engine:
        thread = threading.Thread(target=lambda: finished.append(ask(engine, questions(100))), daemon=True)
        thread.start()
        thread.join(SECONDS)
    assert codes_of(finished[0]) == {"OK": 1, NOT_ATTEMPTED: 99}
