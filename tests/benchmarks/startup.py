"""From the start of the process to the first call, and where the time goes.

As a program (`python -m tests.benchmarks.startup RUN_FLAGS`) it is the run itself, with a clock at each step.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import ROOT, Table, archive, calls, command, verdict

MOST_SECONDS = 6.0
CLOCK = "GROUNDROWS_BENCH_CLOCK"


def run_with_clock(argv: list[str]) -> int:
    """The same run as `python -m pipeline`, noting when each step is reached."""
    steps = [("interpreter", time.time())]
    import apache_beam  # noqa: F401

    steps.append(("import of Beam", time.time()))
    from groundrows.pipeline.commands.run import run
    from groundrows.pipeline.run import session

    steps.append(("import of the rest", time.time()))
    built = session.build

    def build(*args: object) -> None:
        steps.append(("flags, archive, output, ledger", time.time()))
        built(*args)  # type: ignore[arg-type]
        steps.append(("graph", time.time()))

    session.build = build
    code = run(argv)
    Path(os.environ[CLOCK]).write_text("\n".join(f"{name}\t{moment}" for name, moment in steps))
    return code


def measure(folder: Path) -> list[Table]:
    """One warm start: the package's files are in the page cache, as after any first use."""
    rows = []
    clock, log = folder / "clock.tsv", folder / "startup-calls.jsonl"
    source = archive(folder, 100)
    with running_emulator("--port=0", "--answers=canned", f"--call_log={log}") as emulator:
        for name in ("cold", "warm"):
            log.write_text("")
            flags = command(emulator.address, source, folder / f"startup-{name}")[3:]
            started = time.time()
            subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.startup", *flags],
                cwd=ROOT,
                check=True,
                env={**os.environ, CLOCK: str(clock)},
            )
            first_call = min(call["t"] for call in calls(log))
    before = started
    for line in clock.read_text().splitlines():
        step, moment = line.split("\t")
        rows.append((step, f"{float(moment) - before:.2f} s", ""))
        before = float(moment)
    rows.append(("runner, to the first call", f"{first_call - before:.2f} s", ""))
    total = first_call - started
    rows.append(("together", f"{total:.2f} s", f"<= {MOST_SECONDS:.0f} s {verdict(total <= MOST_SECONDS)}"))
    return [Table("From process start to first call", ("step", "time", ""), rows, total <= MOST_SECONDS)]


if __name__ == "__main__":
    sys.exit(run_with_clock(sys.argv[1:]))
