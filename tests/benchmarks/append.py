"""`--append` with nothing new: CPU and memory that it takes to find out that everything is answered."""

from __future__ import annotations

from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import Table, archive, run_pipeline, verdict

QUESTIONS = 30_000
MOST = 1.15
# Of the first run's CPU. Start-up is in both; of more questions --append takes a smaller share.
MOST_CPU = 0.25


def measure(folder: Path) -> list[Table]:
    """A run, and the same run again with `--append`."""
    source, output = archive(folder, QUESTIONS), folder / "append"
    with running_emulator("--port=0", "--answers=canned") as emulator:
        first = run_pipeline(emulator.address, source, output)
        again = run_pipeline(emulator.address, source, output, "--append")
    if again.summary["already_answered"] != QUESTIONS or again.summary["calls"]:
        raise SystemExit("the second run asked something")
    ratio, cpu = again.peak_kib / first.peak_kib, again.cpu_seconds / first.cpu_seconds
    kept = ratio <= MOST and cpu <= MOST_CPU
    rows = [
        (
            name,
            f"{run.seconds:.1f} s",
            f"{run.cpu_seconds:.1f} s",
            f"{QUESTIONS / run.seconds:,.0f}/s",
            f"{run.peak_kib / 1024:.0f} MiB",
            "",
        )
        for name, run in (("first", first), ("--append", again))
    ]
    limits = (f"{cpu:.3f} <= {MOST_CPU}", "", f"{ratio:.3f} <= {MOST}")
    rows.append(("ratio", "", *limits, verdict(kept)))
    header = ("run", "wall", "CPU", "records", "peak memory", "")
    return [Table(f"A run of {QUESTIONS:,} questions, and again with nothing new", header, rows, kept)]
