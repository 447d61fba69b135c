"""A fifth of all calls goes wrong, in every way the emulator knows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import Table, archive, calls, run_pipeline, verdict
from tests.support.runs import rows as table_rows

COUNT = 2_000
MAX_ATTEMPTS = 5
DEADLINE = 2.0


# Faults that the log calls OK, since the call itself succeeds.
CODE_OF_FAULT = {"empty": "NO_CANDIDATES", "undecodable": "UNDECODABLE_RESPONSE"}
CODE_OF_END = {"HANG": "DEADLINE_EXCEEDED", "DISCONNECT": "UNAVAILABLE"}


def wrong_codes(log: Sequence[dict[str, Any]], failures: Sequence[dict[str, Any]]) -> int:
    """Failure rows whose code is not what the server did to the question's last call.

    A connection that is cut takes its neighbours along, which the log does not know of.
    """
    last = {call["prompt"]: call for call in log}
    wrong = 0
    for row in failures:
        call = last[json.loads(row["record"])["question"]]
        code = CODE_OF_FAULT.get(call.get("fault") or "", CODE_OF_END.get(call["code"], call["code"]))
        wrong += row["code"] not in (code, "UNAVAILABLE")
    return wrong


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
    wrong = wrong_codes(calls(log), table_rows(run.output, "failures"))
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
    rows.insert(3, ("dead-lettered with another code than the server's", str(wrong), verdict(wrong == 0)))
    title = f"{COUNT:,} questions, a fifth of the calls faulty, deadline {DEADLINE} s"
    return [Table(title, ("", "", ""), rows, accounted and once and wrong == 0)]
