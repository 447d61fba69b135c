"""`--max_requests`: never one call over, whatever the size, the concurrency and the faults."""

from __future__ import annotations

import random
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import Table, archive, calls, run_pipeline, verdict

RUNS = 50


def measure(folder: Path) -> list[Table]:
    """Random budgets over random archives; every fifth run by two processes."""
    chance = random.Random(3)
    log = folder / "budget.jsonl"
    over = unbalanced = short = 0
    faults = "--faults=unavailable:0.1,internal:0.05"
    with running_emulator(
        "--port=0", faults, "--latency=lognormal:0.01,0.05", f"--call_log={log}"
    ) as emulator:
        for number in range(RUNS):
            log.write_text("")
            count = chance.choice((50, 150, 400))
            budget = chance.randint(1, count + 50)
            flags = [f"--max_requests={budget}", f"--max_in_flight={chance.choice((1, 7, 64, 256))}"]
            flags.append(f"--batch_size={chance.choice((1, 8, 32))}")
            if number % 5 == 0:
                flags += ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
            run = run_pipeline(emulator.address, archive(folder, count), folder / f"budget-{number}", *flags)
            made = len(calls(log))
            over += made > budget
            unbalanced += not run.summary["balanced"] or made != run.summary["calls"]
            # A budget that was enough must not have been held back.
            short += made < budget and run.summary["failures_by_code"].get("NOT_ATTEMPTED", 0) > 0
    rows = [
        ("runs with a call over", str(over), verdict(over == 0)),
        ("runs whose account is not the server's", str(unbalanced), verdict(unbalanced == 0)),
        ("runs that left out questions with calls to spare", str(short), verdict(short == 0)),
    ]
    return [Table(f"{RUNS} runs with a budget", ("", "", ""), rows, over + unbalanced + short == 0)]
