"""Peak memory: it must not grow with the archive."""

from __future__ import annotations

from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import Table, archive, run_pipeline, verdict

MOST = 1.15


def measure(folder: Path) -> list[Table]:
    """The same run over ten times the archive, without latency."""
    peaks = {}
    rows = []
    with running_emulator("--port=0", "--answers=canned") as emulator:
        for count in (10_000, 100_000):
            run = run_pipeline(emulator.address, archive(folder, count), folder / f"memory-{count}")
            peaks[count] = run.peak_kib
            rate = count / run.seconds
            rows.append(
                (f"{count:,}", f"{run.peak_kib / 1024:.0f} MiB", f"{run.seconds:.1f} s", f"{rate:.0f}/s", "")
            )
    ratio = peaks[100_000] / peaks[10_000]
    rows.append(("ratio", f"{ratio:.3f}", f"<= {MOST}", "", verdict(ratio <= MOST)))
    return [Table("Peak memory of a run", ("questions", "peak", "wall", "rate", ""), rows, ratio <= MOST)]
