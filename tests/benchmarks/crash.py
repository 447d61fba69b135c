"""Killed with -9 at a random moment and started again: nothing is lost, and nothing is paid for twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.service import SERVICES
from tests.benchmarks.tools import (
    ROOT,
    Table,
    address_of,
    archive,
    calls,
    command,
    run_pipeline,
    verdict,
)
from tests.support.runs import comparable, stored, summary

RUNS = 20
COUNT = 2_000
IN_FLIGHT = 64


def measure(folder: Path) -> list[Table]:
    """For each service: each run is killed once, from its first call to its end, and then taken up."""
    return [_measured(service, folder) for service in SERVICES]


def _measured(service: str, folder: Path) -> Table:
    chance = random.Random(11)
    source = archive(folder, COUNT)
    prompt_of = {record["id"]: record["question"] for record in map(json.loads, source.open())}
    log = folder / f"crash-{service}.jsonl"
    balanced = equal = within = again = kills = most_extra = 0
    latency = "--latency=lognormal:0.05,0.3"
    with running_emulator("--port=0", "--rest_port=0", latency, f"--call_log={log}") as emulator:
        address = address_of(service, emulator)
        flags = (f"--max_in_flight={IN_FLIGHT}",)
        undisturbed = folder / f"undisturbed-{service}"
        run_pipeline(address, source, undisturbed, *flags, service=service)
        wanted = comparable(undisturbed)
        for number in range(RUNS):
            output = folder / f"crash-{service}-{number}"
            log.write_text("")
            child = subprocess.Popen(command(address, source, output, *flags, service=service), cwd=ROOT)
            limit = time.monotonic() + 60
            while not calls(log) and child.poll() is None and time.monotonic() < limit:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 3.0))
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                kills += 1
            child.wait(20)
            if not (output / "run.json").exists():
                kept, before = {prompt_of[each] for each in stored(output)}, len(calls(log))
                run_pipeline(address, source, output, *flags, service=service)
                again += bool(kept & {call["prompt"] for call in calls(log)[before:]})
            said = summary(output)
            asked = Counter(call["prompt"] for call in calls(log))
            extra = sum(asked.values()) - COUNT
            most_extra = max(most_extra, extra)
            balanced += said["balanced"] and said["answered"] == COUNT
            equal += comparable(output) == wanted
            within += 0 <= extra <= IN_FLIGHT and len(asked) == COUNT
    rows = [
        ("killed while running", f"{kills} of {RUNS}", ""),
        ("law balanced, all answered", f"{balanced} of {RUNS}", verdict(balanced == RUNS)),
        ("rows equal to an undisturbed run's", f"{equal} of {RUNS}", verdict(equal == RUNS)),
        ("asked again what was stored", f"{again} of {RUNS}", verdict(not again)),
        (f"calls beyond one a question <= {IN_FLIGHT}", f"{within} of {RUNS}", verdict(within == RUNS)),
        ("most calls beyond one a question", str(most_extra), ""),
    ]
    kept_all = balanced == equal == within == RUNS and not again
    title = f"{RUNS} runs of {COUNT:,} questions on {service}, each killed with -9"
    return Table(title, ("", "", ""), rows, kept_all)
