"""Calls a second in steady state, beside a bare loop and beside what the latency allows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import ROOT, Table, answers, archive, median, middle_rate, run_pipeline, verdict

LATENCY = 0.2
ROUNDS = 3


def bare_rate(address: str, count: int, in_flight: int) -> float:
    """The bare loop, in a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.bare_loop", address, str(count), str(in_flight)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(finished.stdout)


def pipeline_rate(address: str, count: int, in_flight: int, output: Path, *flags: str) -> float:
    """The pipeline, by when its answers came."""
    source = archive(output.parent, count)
    run = run_pipeline(address, source, output, f"--max_in_flight={in_flight}", *flags)
    return middle_rate([row["answered_at"].timestamp() for row in answers(run.output)])


def measure(folder: Path) -> list[Table]:
    """Alternate the two, so that a machine that slows down slows both."""
    rows = []
    all_kept = True
    with running_emulator("--port=0", "--answers=canned", f"--latency={LATENCY}") as emulator:
        for in_flight, count, least in ((64, 4_000, 0.97), (256, 12_000, 0.9)):
            bare, ours = [], []
            for number in range(ROUNDS):
                bare.append(bare_rate(emulator.address, count, in_flight))
                output = folder / f"steady-{in_flight}-{number}"
                ours.append(pipeline_rate(emulator.address, count, in_flight, output))
            ratio = median([own / other for own, other in zip(ours, bare, strict=True)])
            all_kept &= ratio >= least
            rows.append(
                (
                    str(in_flight),
                    f"{in_flight / LATENCY:.0f}",
                    f"{median(bare):.0f}",
                    f"{median(ours):.0f}",
                    f"{ratio:.3f}",
                    f">= {least}",
                    verdict(ratio >= least),
                )
            )
    header = ("in flight", "limit/s", "bare loop/s", "pipeline/s", "ratio", "wanted", "")
    return [Table(f"Calls a second in steady state, {LATENCY * 1000:.0f} ms latency", header, rows, all_kept)]
