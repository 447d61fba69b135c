"""A heavy tail: one slow answer must not hold up its neighbours."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.steady import pipeline_rate
from tests.benchmarks.tools import ROOT, Table, verdict

IN_FLIGHT = 64
MEDIAN, P99 = 0.2, 2.0
LEAST = 0.9
# Questions enough for about half a minute each.
RIVALS = {
    "barrier batches of 64": ("barrier", 1_500),
    "RunInference, 64 threads a batch": ("run_inference_threads", 1_500),
    "RunInference, a batch in a loop": ("run_inference", 128),
    "RequestResponseIO": ("request_response_io", 100),
}


def limit() -> float:
    """Calls a second that `IN_FLIGHT` calls of this latency allow, by Little's law and the mean."""
    sigma = math.log(P99 / MEDIAN) / 2.3263478740408408
    return IN_FLIGHT / (MEDIAN * math.exp(sigma**2 / 2))


def measure(folder: Path) -> list[Table]:
    """The pipeline, then each rival, against the same server."""
    flags = ("--port=0", "--answers=canned", f"--latency=lognormal:{MEDIAN},{P99}")
    with running_emulator(*flags) as emulator:
        ours = pipeline_rate(emulator.address, 6_000, IN_FLIGHT, folder / "tail")
        kept = ours / limit() >= LEAST
        rows = [("groundrows", f"{ours:.1f}", f"{ours / limit():.3f}", "1.0", f">= {LEAST} {verdict(kept)}")]
        for name, (kind, count) in RIVALS.items():
            finished = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.rivals", kind, emulator.address, str(count)],
                cwd=ROOT,
                check=True,
                capture_output=True,
                text=True,
            )
            rate = float(finished.stdout.splitlines()[-1])
            rows.append((name, f"{rate:.1f}", f"{rate / limit():.3f}", f"{ours / rate:.1f}", ""))
    title = (
        f"Latency lognormal, median {MEDIAN} s and p99 {P99} s, {IN_FLIGHT} in flight: limit {limit():.0f}/s"
    )
    return [Table(title, ("", "calls/s", "of the limit", "groundrows is x times", "wanted"), rows, kept)]
