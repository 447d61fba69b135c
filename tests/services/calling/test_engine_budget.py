import os
import subprocess
import sys

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from tests.support.engines import read_log
from tests.support.paths import ROOT

SECONDS = 40


@pytest.fixture
def shared(tmp_path):
    return f"sqlite://{tmp_path}/ledger"


SPEND = """
import sys
from tests.support.engines import *
address, ledger, name, limit = sys.argv[1:]
settings = make_settings(address, ledger=ledger, max_requests=int(limit), max_in_flight=64)
with engine_for(settings) as engine:
    outcomes = ask(engine, [make_question(f"{name} {n}") for n in range(150)])
print(sum(outcome.calls for outcome in outcomes))
"""


@pytest.mark.parametrize("limit", [37, 200])
def test_processes_never_make_one_call_too_many_by_the_servers_own_log(shared, tmp_path, limit):
    log = tmp_path / "log"
    flags = ("--answers=canned", "--faults=unavailable:0.3", f"--call_log={log}")
    with running_emulator(*flags) as emulator:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", SPEND, emulator.address, shared, name, str(limit)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
            )
            for name in "ab"
        ]
        said = [int(process.communicate(timeout=SECONDS)[0]) for process in processes]
    assert len(read_log(log)) == sum(said) <= limit
    assert sum(said) >= limit - 2 * 8
