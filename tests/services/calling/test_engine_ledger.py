import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from tests.support.engines import (
    ask,
    codes_of,
    engine_for,
    make_question,
    make_settings,
    read_log,
)
from tests.support.paths import ROOT

SECONDS = 20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


@pytest.fixture
def settings(path):
    return make_settings(ledger=f"sqlite://{path}", batch_size=7)


KILLED = """
import sys
from tests.support.engines import *
settings = make_settings(sys.argv[1], ledger=sys.argv[2], max_in_flight=8)
questions = [make_question([f"{n} one", f"{n} two", f"{n} three"]) for n in range(40)]
with engine_for(settings) as engine:
    ask(engine, questions)
"""


def settled(count):
    """The count once it stays: what a killed process sent is logged a moment after its end."""
    seen, again = -1, count()
    while seen != again:
        time.sleep(0.2)
        seen, again = again, count()
    return again


def test_a_run_that_is_killed_pays_again_only_for_what_was_in_the_air(tmp_path, path):
    log = tmp_path / "log"
    flags = ("--answers=canned", "--latency=lognormal:0.02,0.1", f"--call_log={log}")
    with running_emulator(*flags) as emulator:
        uri = f"sqlite://{path}"
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, emulator.address, uri],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        give_up = time.monotonic() + SECONDS
        while len(read_log(log)) < 50 and time.monotonic() < give_up:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS)
        before = settled(lambda: len(read_log(log)))
        assert 50 <= before < 120
        asked = [make_question([f"{n} one", f"{n} two", f"{n} three"]) for n in range(40)]
        with engine_for(make_settings(emulator.address, ledger=uri, max_in_flight=8)) as engine:
            outcomes = ask(engine, asked)
    assert codes_of(outcomes) == {"OK": 40}
    assert all([answer.turn_index for answer in outcome.answers] == [0, 1, 2] for outcome in outcomes)
    calls = Counter(call["prompt"] for call in read_log(log))
    assert len(calls) == 120
    assert sum(calls.values()) - 120 <= 8
    assert sum(outcome.calls for outcome in outcomes) == sum(calls.values()) - before
