"""Killed with -9 at a random moment and started again: nothing is lost, and nothing is paid for twice."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import ROOT, Table, archive, calls, command, run_pipeline, verdict
from tests.support.runs import comparable, summary

RUNS = 20
COUNT = 2_000
IN_FLIGHT = 64


def measure(folder: Path) -> list[Table]:
    """Each run is killed once, from its first call to its end, and then taken up."""
    chance = random.Random(11)
    source = archive(folder, COUNT)
    log = folder / "crash.jsonl"
    balanced = equal = within = kills = most_extra = 0
    latency = "--latency=lognormal:0.05,0.3"
    with running_emulator("--port=0", latency, f"--call_log={log}") as emulator:
        flags = (f"--max_in_flight={IN_FLIGHT}",)
        undisturbed = folder / "undisturbed"
        run_pipeline(emulator.address, source, undisturbed, *flags)
        wanted = comparable(undisturbed)
        for number in range(RUNS):
            output = folder / f"crash-{number}"
            log.write_text("")
            child = subprocess.Popen(command(emulator.address, source, output, *flags), cwd=ROOT)
            limit = time.monotonic() + 60
            while not calls(log) and child.poll() is None and time.monotonic() < limit:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 3.0))
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                kills += 1
            child.wait(20)
            if not (output / "run.json").exists():
                run_pipeline(emulator.address, source, output, *flags)
            said = summary(output)
            asked = Counter(call["prompt"] for call in calls(log))
            extra = sum(asked.values()) - COUNT
            most_extra = max(most_extra, extra)
            balanced += said["balanced"] and said["answered"] == COUNT
            equal += comparable(output) == wanted
            within += 0 <= extra <= IN_FLIGHT and len(asked) == COUNT
    kept = balanced == equal == within == RUNS
    rows = [
        ("killed while running", f"{kills} of {RUNS}", ""),
        ("law balanced, all answered", f"{balanced} of {RUNS}", verdict(balanced == RUNS)),
        ("rows equal to an undisturbed run's", f"{equal} of {RUNS}", verdict(equal == RUNS)),
        (f"calls beyond one a question <= {IN_FLIGHT}", f"{within} of {RUNS}", verdict(within == RUNS)),
        ("most calls beyond one a question", str(most_extra), ""),
    ]
    return [Table(f"{RUNS} runs of {COUNT:,} questions, each killed with -9", ("", "", ""), rows, kept)]
