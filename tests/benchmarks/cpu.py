"""CPU time per answer of the pipeline's process, beside that of a bare loop which only calls.

A wall clock says little on a machine that is busy with other things; the user and system time of a process
stays nearly the same. What a process spends before and after its answers is taken off with a second, shorter
run of the same command: an answer costs the difference in time over the difference in answers. The emulator
runs in a process of its own and is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.service import DISCOVERY_ENGINE, GEMINI
from tests.benchmarks.threads import NAMES, REST
from tests.benchmarks.tools import ROOT, Table, archive, command, median, verdict

LATENCY = 0.2
IN_FLIGHT = 256
LONG, SHORT = 8_000, 2_000
ROUNDS = 5
MOST = 2.2
# Gemini's answers may cost so many times the CPU of the other service's over REST.
MOST_OF_GEMINI = 1.3


def cpu_seconds(argv: list[str]) -> float:
    """User and system time of a process from its start to its end."""
    child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"a measured run ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def of_pipeline(
    address: str, count: int, output: Path, *flags: str, service: str = DISCOVERY_ENGINE
) -> float:
    """CPU seconds of a run over `count` questions."""
    source = archive(output.parent, count)
    argv = command(address, source, output, f"--max_in_flight={IN_FLIGHT}", *flags, service=service)
    return cpu_seconds(argv)


def of_bare_loop(address: str, count: int) -> float:
    """CPU seconds of the bare loop over the same questions."""
    return cpu_seconds(
        [sys.executable, "-m", "tests.benchmarks.bare_loop", address, str(count), str(IN_FLIGHT)]
    )


def of_threads(address: str, count: int, output: Path) -> dict[str, float]:
    """CPU seconds of a run over `count` questions, by thread."""
    source = archive(output.parent, count)
    flags = command(address, source, output, f"--max_in_flight={IN_FLIGHT}")[3:]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.threads", *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    seconds: dict[str, float] = json.loads(ran.stdout)
    return seconds


def threads(folder: Path) -> Table:
    """Where an answer's CPU goes, thread by thread."""
    with running_emulator("--port=0", "--answers=canned", f"--latency={LATENCY}") as emulator:
        rounds = [
            [
                of_threads(emulator.address, count, folder / f"threads-{number}-{count}")
                for count in (LONG, SHORT)
            ]
            for number in range(ROUNDS)
        ]
    rows = []
    for name in (*NAMES.values(), REST):
        each = [1000 * (long.get(name, 0) - short.get(name, 0)) / (LONG - SHORT) for long, short in rounds]
        rows.append((name, f"{min(each):.3f} ms", f"{median(each):.3f} ms"))
    return Table("CPU per answer, by thread", ("thread", "least", "median"), rows)


def services(folder: Path) -> Table:
    """Gemini beside the Grounded Generation API, both over REST, in turns."""
    flags = {DISCOVERY_ENGINE: ("--transport=rest",), GEMINI: ()}
    spent: dict[str, list[float]] = {service: [] for service in flags}
    quick = ("--port=0", "--rest_port=0", "--answers=canned", f"--latency={LATENCY}")
    with running_emulator(*quick) as emulator:
        address = str(emulator.rest_address)
        for number in range(ROUNDS):
            for service, own in flags.items():
                long, short = (
                    of_pipeline(address, count, folder / f"{service}-{number}-{count}", *own, service=service)
                    for count in (LONG, SHORT)
                )
                spent[service].append(1000 * (long - short) / (LONG - SHORT))
    ratio = median([new / old for new, old in zip(spent[GEMINI], spent[DISCOVERY_ENGINE], strict=True)])
    kept = ratio <= MOST_OF_GEMINI
    rows = [(name, f"{min(each):.2f} ms", f"{median(each):.2f} ms", "", "") for name, each in spent.items()]
    rows.append(("ratio", "", f"{ratio:.2f}", f"<= {MOST_OF_GEMINI}", verdict(kept)))
    return Table(
        "CPU per answer of each service over REST", ("", "least", "median", "wanted", ""), rows, kept
    )


def measure(folder: Path) -> list[Table]:
    """Alternate the two, so that a machine that slows down slows both."""
    bare, ours = [], []
    with running_emulator("--port=0", "--answers=canned", f"--latency={LATENCY}") as emulator:
        for number in range(ROUNDS):
            long, short = (of_bare_loop(emulator.address, count) for count in (LONG, SHORT))
            bare.append(1000 * (long - short) / (LONG - SHORT))
            long, short = (
                of_pipeline(emulator.address, count, folder / f"cpu-{number}-{count}")
                for count in (LONG, SHORT)
            )
            ours.append(1000 * (long - short) / (LONG - SHORT))
    ratio = median([own / other for own, other in zip(ours, bare, strict=True)])
    rows = [
        ("bare loop", f"{min(bare):.2f} ms", f"{median(bare):.2f} ms", "", ""),
        ("pipeline", f"{min(ours):.2f} ms", f"{median(ours):.2f} ms", "", ""),
        ("ratio", f"{min(ours) / min(bare):.2f}", f"{ratio:.2f}", f"<= {MOST}", verdict(ratio <= MOST)),
    ]
    title = f"CPU per answer (user and system time), {IN_FLIGHT} in flight"
    return [
        Table(title, ("", "least", "median", "wanted", ""), rows, ratio <= MOST),
        services(folder),
        threads(folder),
    ]
