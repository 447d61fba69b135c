"""`groundrows browse` over a million answers: its index, its memory, and how long a search takes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tests.benchmarks.browse_runs import make_run
from tests.benchmarks.tools import ROOT, Table, verdict

ANSWERS = 1_000_000
MOST_INDEX_SECONDS = 90
MOST_MIB = 1_000
MOST_OPEN_SECONDS = 2.0
MOST_SEARCH_SECONDS = 0.5
COMMAND = "import sys; from groundrows.pipeline.cli import main; sys.exit(main(['browse', *sys.argv[1:]]))"
# One answer, a word of a few answers, words of nearly all of them, a phrase, an order over all of them.
SEARCHES = ("q=000000123456", "q=hulum", "q=ba+co", "q=%22ba+co%22", "q=ba&sort=score", "sort=score")


def measure(folder: Path) -> list[Table]:
    """The reader of a run that was made up, started twice."""
    output = make_run(folder / "run", ANSWERS)
    index_seconds, mebibytes, _ = _served(output, ())
    open_seconds, _, searched = _served(output, SEARCHES)
    slowest = max(searched)
    kept = (
        index_seconds <= MOST_INDEX_SECONDS,
        mebibytes <= MOST_MIB,
        open_seconds <= MOST_OPEN_SECONDS,
        slowest <= MOST_SEARCH_SECONDS,
    )
    rows = [
        (
            "start with an index to make",
            f"{index_seconds:.1f} s",
            f"<= {MOST_INDEX_SECONDS} s",
            verdict(kept[0]),
        ),
        ("peak memory of that", f"{mebibytes:.0f} MiB", f"<= {MOST_MIB} MiB", verdict(kept[1])),
        ("start with an index", f"{open_seconds:.1f} s", f"<= {MOST_OPEN_SECONDS} s", verdict(kept[2])),
        ("slowest page of a search", f"{slowest:.2f} s", f"<= {MOST_SEARCH_SECONDS} s", verdict(kept[3])),
    ]
    return [Table(f"The reader of {ANSWERS:,} answers", ("", "measured", "limit", ""), rows, all(kept))]


def _served(output: Path, searches: tuple[str, ...]) -> tuple[float, float, list[float]]:
    """Seconds until it serves, its peak memory in MiB, and the seconds of each search."""
    started = time.monotonic()
    command = [sys.executable, "-c", COMMAND, str(output), "--no_open"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdout is not None
        said = child.stdout.readline().split()
        seconds = time.monotonic() - started
        if not said:
            raise SystemExit("the reader did not start")
        searched = [_seconds(f"{said[-1]}?{query}") for query in searches]
        child.terminate()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return seconds, usage.ru_maxrss / 1024, searched


def _seconds(address: str) -> float:
    started = time.monotonic()
    with urllib.request.urlopen(address) as answer:
        answer.read()
    return time.monotonic() - started
