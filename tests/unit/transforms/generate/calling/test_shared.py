import threading
from functools import partial

import pytest

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.calling import shared
from groundrows.transforms.generate.pacing.open import open_pacer
from tests.support.engines import HandClient, ask, make_question, make_settings

made = []


def hand_client(settings):
    made.append(HandClient())
    return made[-1]


def failing_client(settings):
    raise RuntimeError("no client")


@pytest.fixture(autouse=True)
def _nothing_is_left():
    made.clear()
    yield
    assert shared.running() == []


def test_equal_settings_share_one_engine_until_the_last_user_goes():
    one = shared.acquire(make_settings(), hand_client, open_pacer)
    two = shared.acquire(make_settings(), hand_client, open_pacer)
    assert one is two
    assert shared.running() == [one]
    shared.release(one)
    assert not made[0].closed
    assert ask(two, [make_question("q")])[0].failure is None
    shared.release(two)
    assert made[0].closed
    three = shared.acquire(make_settings(), hand_client, open_pacer)
    assert three is not one
    shared.release(three)


def test_other_settings_have_an_engine_of_their_own():
    engines = [
        shared.acquire(make_settings(max_in_flight=count), hand_client, open_pacer) for count in (1, 2)
    ]
    assert engines[0] is not engines[1]
    assert shared.running() == engines
    for engine in engines:
        shared.release(engine)


def test_all_engines_of_the_process_stop_calling_even_where_they_were_interrupted(tmp_path):
    engines = [
        shared.acquire(make_settings(max_in_flight=count), hand_client, open_pacer) for count in (1, 2)
    ]
    with shared._lock:  # a signal may come at any moment
        assert shared.stop_calling() == 0
    for engine in engines:
        shared.release(engine)
    assert [engine.attempts.halted.is_set() for engine in engines] == [True, True]
    assert shared.stop_calling() == 0


def test_threads_that_come_at_once_get_the_same():
    barrier = threading.Barrier(8)
    engines = []

    def come():
        barrier.wait(10)
        engines.append(shared.acquire(make_settings(), hand_client, open_pacer))

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(set(map(id, engines))) == 1
    assert len(made) == 1
    for engine in engines:
        shared.release(engine)


def test_what_can_not_be_made_leaves_nothing_behind(tmp_path):
    with pytest.raises(RuntimeError, match="no client"):
        shared.acquire(make_settings(), failing_client, open_pacer)
    with pytest.raises(LedgerError):
        shared.acquire(make_settings(ledger=f"sqlite://{tmp_path}"), hand_client, open_pacer)
    threads = [thread.name for thread in threading.enumerate()]
    assert "groundrows-calls" not in threads


def test_makers_that_are_not_equal_do_not_share():
    # Two partials of the same function are two values: a pipeline's makers are plain functions.
    engines = [shared.acquire(make_settings(), partial(hand_client), open_pacer) for _ in range(2)]
    assert engines[0] is not engines[1]
    for engine in engines:
        shared.release(engine)
