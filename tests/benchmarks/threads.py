"""Run the pipeline in this process, and print the CPU seconds of each of its threads, by name, as JSON.

    python -m tests.benchmarks.threads FLAG…

The system keeps a thread's CPU time only as long as the thread lives, so that it is read again and again.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path

from groundrows.pipeline import cli

LOOK_SECONDS = 0.1
_TASKS = Path("/proc/self/task")
# What Python's own name of a thread begins with, or the system's name of one that Python does not know.
NAMES = {
    "MainThread": "Beam, reading and rows",
    "groundrows-calls": "the loop of the calls",
    "groundrows-ledger": "the ledger",
    "event_engine": "gRPC",
}
REST = "everything else"


def cpu_by_thread(over: threading.Event) -> Counter[str]:
    """CPU seconds by thread, until `over` is set; a thread's last moments, of `LOOK_SECONDS`, may be missing."""
    seconds: dict[str, float] = {}
    names: dict[str, str] = {}
    while True:
        names |= {str(thread.native_id): thread.name for thread in threading.enumerate()}
        for task in _TASKS.iterdir():
            try:
                # The first number is the nanoseconds on a processor.
                seconds[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
                names.setdefault(task.name, (task / "comm").read_text().strip())
            except OSError:
                continue  # it has ended at this moment
        if over.wait(LOOK_SECONDS):
            break
    found: Counter[str] = Counter()
    for task_id, spent in seconds.items():
        name = next((name for start, name in NAMES.items() if names[task_id].startswith(start)), REST)
        found[name] += spent
    return found


def main() -> None:
    """Run, and print."""
    over = threading.Event()
    found: list[Counter[str]] = []
    looking = threading.Thread(target=lambda: found.append(cpu_by_thread(over)), name="looking")
    looking.start()
    try:
        code = cli.main(["run", *sys.argv[1:]])
    finally:
        over.set()
        looking.join()
    print(json.dumps(found[0]))
    sys.exit(code)


if __name__ == "__main__":
    main()
