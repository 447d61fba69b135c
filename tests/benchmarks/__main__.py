"""`make bench`, or `python -m tests.benchmarks NAME…` for some of them. Exits 1 when a limit was missed."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

BENCHMARKS = (
    "startup",
    "steady",
    "cpu",
    "overhead",
    "memory",
    "append",
    "ledger",
    "tail",
    "faults",
    "budget",
    "crash",
    "schedules",
    "quota",
    "follow",
    "refusals",
    "report",
    "browse",
)


def main(names: list[str]) -> int:
    """Run the named measurements and print their tables."""
    kept = True
    for name in names or BENCHMARKS:
        module = importlib.import_module(f"tests.benchmarks.{name}")
        with tempfile.TemporaryDirectory(prefix="groundrows-bench-") as folder:
            for table in module.measure(Path(folder)):
                print(f"\n{table}", flush=True)
                kept &= table.kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
