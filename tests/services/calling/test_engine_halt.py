import asyncio
import json
import signal
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.codes import INTERNAL_ERROR, NOT_ATTEMPTED
from groundrows.schemas.errors import CallError, SetupError
from groundrows.transforms.generate.calling.engine import Engine
from groundrows.transforms.generate.calling.halt import (
    HOPELESS_STREAK,
    LONG_WAIT_STREAK,
    REJECTED_STREAK,
    TRANSIENT_STREAK,
)
from tests.support.engines import (
    HandClient,
    ask,
    codes_of,
    engine_for,
    make_settings,
    questions,
    read_log,
    response,
)

SECONDS = 20


def checked(outcomes, *codes):
    """The outcomes' codes, after a look at what was not attempted."""
    for outcome in outcomes:
        if outcome.failure and outcome.failure.code == NOT_ATTEMPTED:
            assert (outcome.failure.retryable, outcome.failure.attempts, outcome.calls) == (True, 0, 0)
            assert outcome.failure.message.startswith("Calling stopped: ")
            assert "\n" not in outcome.failure.message
    found = codes_of(outcomes)
    assert found.keys() <= {*codes, NOT_ATTEMPTED}
    return found


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("unauthenticated", "UNAUTHENTICATED"),
        ("permission_denied", "PERMISSION_DENIED"),
        ("not_found", "NOT_FOUND"),
        ("failed_precondition", "FAILED_PRECONDITION"),
    ],
)
def test_when_nothing_can_work_a_short_streak_is_all_that_is_asked(fault, code, tmp_path):
    log = tmp_path / "log"
    with running_emulator(f"--faults={fault}:1", f"--call_log={log}") as emulator:
        with engine_for(make_settings(emulator.address, max_in_flight=4)) as engine:
            found = checked(ask(engine, questions(300)), code)
            asked = len(read_log(log))
            later = checked(ask(engine, questions(50, "later")))
        assert later == {NOT_ATTEMPTED: 50}
        assert len(read_log(log)) == asked
    assert found[code] == asked <= HOPELESS_STREAK + 3  # with what was in the air
    assert found[NOT_ATTEMPTED] == 300 - asked


def test_a_location_that_the_service_refuses_stops_the_run(tmp_path):
    log = tmp_path / "log"
    with running_emulator(f"--call_log={log}") as emulator:
        settings = make_settings(emulator.address, max_in_flight=4, location="projects/p/nowhere")
        with engine_for(settings) as engine:
            found = checked(ask(engine, questions(300)), "INVALID_ARGUMENT")
            assert "projects/PROJECT/locations" in engine.halt.reason
    assert REJECTED_STREAK <= found["INVALID_ARGUMENT"] <= REJECTED_STREAK + 3
    assert len(read_log(log)) == found["INVALID_ARGUMENT"]


def test_a_few_bad_questions_stop_nothing():
    async def behaviour(prompt, nth):
        if prompt.startswith("bad"):
            raise CallError("INVALID_ARGUMENT", "the same words")
        return response("")

    with engine_for(make_settings(max_in_flight=4), HandClient(behaviour)) as engine:
        mixed = [q for pair in zip(questions(100), questions(100, "bad"), strict=True) for q in pair]
        assert codes_of(ask(engine, mixed)) == {"OK": 100, "INVALID_ARGUMENT": 100}


def test_a_quota_that_runs_out_for_good_leaves_the_others_askable(tmp_path):
    log, limits = tmp_path / "log", tmp_path / "limits"
    limits.write_text(json.dumps({"requests_per_minute": None}))
    flags = ("--answers=canned", "--latency=0.01", f"--call_log={log}", f"--limits_file={limits}")
    with running_emulator(*flags) as emulator:
        settings = make_settings(
            emulator.address, max_in_flight=32, exhausted_seconds=0.3, backoff_seconds=0.05
        )
        with engine_for(settings) as engine:
            assert codes_of(ask(engine, questions(5))) == {"OK": 5}
            limits.write_text(json.dumps({"requests_per_minute": 0}))
            emulator.signal(signal.SIGHUP)
            time.sleep(0.3)
            found = checked(ask(engine, questions(2_000, "rest")), "RESOURCE_EXHAUSTED")
            assert "RESOURCE_EXHAUSTED" in engine.halt.reason
    assert found[NOT_ATTEMPTED] > 1_900
    assert len(read_log(log)) < 5 + 32 + 5 * TRANSIENT_STREAK


def test_being_told_to_come_back_tomorrow_again_and_again_stops_the_run():
    async def behaviour(prompt, nth):
        if prompt in ("q0", "q1", "q2", "q3", "q4"):
            return response("")
        raise CallError("RESOURCE_EXHAUSTED", "the day's quota is used up", 40_000.0)

    client = HandClient(behaviour)
    with engine_for(make_settings(max_in_flight=1), client) as engine:
        found = checked(ask(engine, questions(500)), "OK", "RESOURCE_EXHAUSTED")
    assert found == {"OK": 5, "RESOURCE_EXHAUSTED": LONG_WAIT_STREAK, NOT_ATTEMPTED: 490}
    assert len(client.log) == 5 + LONG_WAIT_STREAK


def test_one_answer_that_says_come_back_tomorrow_stops_nobody():
    async def behaviour(prompt, nth):
        if prompt == "q5":
            raise CallError("RESOURCE_EXHAUSTED", "the day's quota is used up", 40_000.0)
        return response("")

    with engine_for(make_settings(max_in_flight=1), HandClient(behaviour)) as engine:
        found = checked(ask(engine, questions(500)), "OK", "RESOURCE_EXHAUSTED")
    assert found == {"OK": 499, "RESOURCE_EXHAUSTED": 1}


def test_a_server_that_is_down_stops_the_run(tmp_path):
    with running_emulator("--answers=canned") as emulator:
        settings = make_settings(emulator.address, exhausted_seconds=0.5, backoff_seconds=0.2)
        with engine_for(settings) as engine:
            assert codes_of(ask(engine, questions(5))) == {"OK": 5}
            emulator.signal(signal.SIGKILL)
            emulator.wait()
            found = checked(ask(engine, questions(3_000, "rest")), "UNAVAILABLE")
    assert found[NOT_ATTEMPTED] > 0
    assert found["UNAVAILABLE"] + found[NOT_ATTEMPTED] == 3_000


def test_who_waits_for_the_pace_or_to_retry_is_released_at_once():
    out, all_out = [], asyncio.Event()

    async def behaviour(prompt, nth):
        if prompt == "q0":
            raise CallError("UNAVAILABLE", "", 300.0)
        out.append(prompt)
        if len(out) == LONG_WAIT_STREAK:
            all_out.set()
        await all_out.wait()
        raise CallError("RESOURCE_EXHAUSTED", "", 86_400.0)

    finished = []
    settings = make_settings(requests_per_minute=300.0)
    with engine_for(settings, HandClient(behaviour)) as engine:
        thread = threading.Thread(target=lambda: finished.extend(ask(engine, questions(150))), daemon=True)
        thread.start()
        thread.join(SECONDS)
    found = checked(finished, "UNAVAILABLE", "RESOURCE_EXHAUSTED")
    assert (found["UNAVAILABLE"], found["RESOURCE_EXHAUSTED"]) == (1, LONG_WAIT_STREAK)
    assert found[NOT_ATTEMPTED] > 140


def test_the_reason_is_said_once(caplog):
    async def behaviour(prompt, nth):
        raise CallError("UNAUTHENTICATED", "who are you")

    with engine_for(make_settings(), HandClient(behaviour)) as engine:
        for round_ in range(3):
            ask(engine, questions(100, f"{round_}-"))
    assert [record.message.startswith("Calling stopped: ") for record in caplog.records] == [True]


# -- what the engine is made of fails --------------------------------------------------------------------


class Pacer:
    def __init__(self, error=None, after=0):
        self._error, self._left = error, after

    async def acquire(self):
        self._left -= 1
        if self._error is not None and self._left < 0:
            raise self._error

    def throttled(self, sent_at, retry_after):
        pass

    async def close(self):
        if self._error is not None:
            raise self._error


def no_pacer(settings):
    raise SetupError("The server of the pace is not there.")


def odd_pacer(settings):
    raise ZeroDivisionError


@pytest.mark.parametrize("limit", [None, 1e9])
@pytest.mark.parametrize(
    ("pacer_of", "code", "most"),
    [
        (no_pacer, NOT_ATTEMPTED, 0),
        (odd_pacer, INTERNAL_ERROR, 0),
        (lambda settings: Pacer(SetupError("The server of the pace is not there."), 5), NOT_ATTEMPTED, 5),
    ],
    ids=["refused", "a fault of ours", "later"],
)
def test_without_a_pace_nothing_is_called_and_nothing_hangs(pacer_of, code, most, limit):
    client = HandClient()
    engine = Engine(make_settings(requests_per_minute=limit), lambda _: client, pacer_of)
    outcomes = ask(engine, questions(50))
    later = ask(engine, questions(50, "later"))
    with suppress(SetupError):  # the pacer's own, on closing; everything else is closed all the same
        engine.close()
    assert client.closed
    assert "groundrows-calls" not in [thread.name for thread in threading.enumerate()]
    assert codes_of(outcomes) == Counter({"OK": most, code: 50 - most})
    assert codes_of(later) == {code: 50}
    assert len(client.log) == most
    if code == NOT_ATTEMPTED:
        assert outcomes[-1].failure.message == "The server of the pace is not there."


def test_a_client_that_can_not_be_made_is_said_and_nothing_is_left(tmp_path):
    def no_client(settings):
        raise SetupError("No credentials.")

    with pytest.raises(SetupError, match="No credentials"):
        Engine(make_settings(ledger=f"sqlite://{tmp_path}/ledger"), no_client)
    assert "groundrows-calls" not in [thread.name for thread in threading.enumerate()]
