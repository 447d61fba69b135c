"""A fifth of all calls goes wrong, in every way the emulator knows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import Table, archive, calls, run_pipeline, verdict
from tests.integration.runs import rows as table_rows

COUNT = 2_000
MAX_ATTEMPTS = 5
DEADLINE = 2.0


def measure(folder: Path) -> list[Table]:
    """Every question is answered or dead-lettered, and nothing is asked too often."""
    log = folder / "faults.jsonl"
    faults = "--faults=all:0.195,disconnect:0.005"
    with running_emulator("--port=0", faults, "--seed=5", "--latency=0.01", f"--call_log={log}") as emulator:
        run = run_pipeline(
            emulator.address,
            archive(folder, COUNT),
            folder / "faults",
            f"--max_attempts={MAX_ATTEMPTS}",
            f"--deadline_seconds={DEADLINE}",
            "--max_in_flight=128",
        )
    said = run.summary
    asked = Counter(call["prompt"] for call in calls(log))
    failures = Counter(row["code"] for row in table_rows(run.output, "failures"))
    accounted = said["answered"] + said["failed"] == COUNT and said["balanced"]
    once = max(asked.values()) <= MAX_ATTEMPTS
    rows = [
        ("answered", f"{said['answered']:,}", ""),
        (
            "dead-lettered",
            f"{said['failed']:,}",
            ", ".join(f"{n} {code}" for code, n in sorted(failures.items())),
        ),
        ("every question has its outcome", "", verdict(accounted)),
        (f"most calls for one question (<= {MAX_ATTEMPTS})", str(max(asked.values())), verdict(once)),
        ("retries by code", "", ", ".join(f"{n} {code}" for code, n in said["retries_by_code"].items())),
        ("wall", f"{run.seconds:.1f} s", ""),
    ]
    title = f"{COUNT:,} questions, a fifth of the calls faulty, deadline {DEADLINE} s"
    return [Table(title, ("", "", ""), rows, accounted and once)]
