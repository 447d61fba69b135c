"""`--append` with nothing new: what it costs to find out that everything is answered, and in how much memory."""

from __future__ import annotations

from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import Table, archive, run_pipeline, verdict

QUESTIONS = 30_000
MOST = 1.15


def measure(folder: Path) -> list[Table]:
    """A run, and the same run again with `--append`."""
    source, output = archive(folder, QUESTIONS), folder / "append"
    with running_emulator("--port=0", "--answers=canned") as emulator:
        first = run_pipeline(emulator.address, source, output)
        again = run_pipeline(emulator.address, source, output, "--append")
    if again.summary["already_answered"] != QUESTIONS or again.summary["calls"]:
        raise SystemExit("the second run asked something")
    ratio = again.peak_kib / first.peak_kib
    rows = [
        (
            name,
            f"{run.seconds:.1f} s",
            f"{QUESTIONS / run.seconds:,.0f}/s",
            f"{run.peak_kib / 1024:.0f} MiB",
            "",
        )
        for name, run in (("first", first), ("--append", again))
    ]
    rows.append(("ratio", "", "", f"{ratio:.3f} <= {MOST}", verdict(ratio <= MOST)))
    header = ("run", "wall", "records", "peak memory", "")
    return [
        Table(f"A run of {QUESTIONS:,} questions, and again with nothing new", header, rows, ratio <= MOST)
    ]
