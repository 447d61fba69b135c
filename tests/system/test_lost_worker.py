"""A worker process that is killed ends the run, says the likely cause, and leaves nobody behind who calls."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.run.worker_processes import workers_of
from tests.support.paths import ROOT
from tests.support.runs import calls, command, run, summary, write_lines
from tests.support.tools import is_one_sentence
from tests.system.test_main_job import questions

COUNT = 200
IN_FLIGHT = 8
WORKERS = 2


def wait_until(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def gone(pids: list[int]) -> Callable[[], bool]:
    return lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_killed_worker_ends_the_run_and_all_other_workers(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "questions.jsonl", questions(COUNT))
    log = tmp_path / "calls.jsonl"
    with running_emulator("--port=0", "--latency=0.3", f"--call_log={log}") as emulator:
        flags = [
            "--service=emulator",
            f"--endpoint={emulator.address}",
            f"--input={source}",
            f"--output={tmp_path / 'out'}",
            f"--max_in_flight={IN_FLIGHT}",
            "--direct_running_mode=multi_processing",
            f"--direct_num_workers={WORKERS}",
            "--requests_per_minute=3000",
            "--quiet",
        ]
        child = subprocess.Popen(command(*flags), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wait_until(lambda: len(calls(log)) > 2 * IN_FLIGHT)
        workers = workers_of(child.pid)
        assert len(workers) >= WORKERS  # a shell that stands before each may be among them
        os.kill(workers[-1], signal.SIGKILL)
        said = child.communicate(timeout=60)[1].decode()
        wait_until(gone(workers))
        made = len(calls(log))
        assert child.returncode == 1
        last = said.strip().splitlines()[-1]
        assert is_one_sentence(last)
        assert "memory ran out" in last
        assert "report" not in said
        assert "Traceback" not in said
        # It does what it says.
        run(*flags)
        assert made < COUNT
        assert len(calls(log)) <= COUNT + WORKERS * IN_FLIGHT
    assert (summary(tmp_path / "out")["answered"], summary(tmp_path / "out")["balanced"]) == (COUNT, True)
