import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from tests.support.paths import ROOT

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path):
    ledger = SqliteLedger(str(path))
    yield ledger
    ledger.close()


OPEN_TOGETHER = """
import sys, time
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
print("ready", flush=True)
sys.stdin.readline()
SqliteLedger(sys.argv[1]).close()
print("opened", flush=True)
"""

WRITE = """
import os, sys
from datetime import UTC, datetime
from groundrows.transforms.generate.ledger.base import Entry
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ledger, first, count = SqliteLedger(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
granted = 0
for number in range(first, first + count):
    ledger.put_many([Entry(number.to_bytes(16, "big"), f"q{number}", 0, "m", b"r" * 100, 1, 1.0, NOW, NOW)])
    granted += ledger.reserve("run", 500, 3)
    print(number, granted, flush=True)
print("done", granted, flush=True)
sys.stdin.readline()
"""


def test_processes_that_make_the_same_ledger_at_once_all_get_it(path):
    children = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_TOGETHER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        for _ in range(4)
    ]
    for process in children:
        assert process.stdout.readline() == "ready\n"
    for process in children:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in children:
        assert process.communicate(timeout=40)[0] == "opened\n"


def test_two_processes_write_at_once_and_share_a_budget(path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(path), str(first), "150"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        for first in (0, 1_000)
    ]
    said = [process.communicate("\n", timeout=60)[0].splitlines() for process in processes]
    granted = [int(lines[-1].split()[1]) for lines in said]
    assert sum(granted) == 500
    ledger = SqliteLedger(str(path))
    numbers = [*range(150), *range(1_000, 1_150)]
    assert len(ledger.get_many([number.to_bytes(16, "big") for number in numbers])) == 300
    ledger.close()


@pytest.mark.parametrize("lines", [1, 40])
def test_what_was_told_to_be_durable_survives_kill_9(path, lines):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(path), "0", "1000"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    told = -1
    for _ in range(lines):
        told = int(process.stdout.readline().split()[0])
    process.send_signal(signal.SIGKILL)
    rest = process.communicate(timeout=20)[0].splitlines()
    told = max([told, *(int(line.split()[0]) for line in rest if line.count(" ") == 1 and line[0].isdigit())])
    ledger = SqliteLedger(str(path))
    assert set(ledger.get_many([number.to_bytes(16, "big") for number in range(told + 1)])) == {
        number.to_bytes(16, "big") for number in range(told + 1)
    }
    ledger.close()
