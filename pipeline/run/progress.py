"""Shows the progress of a run: a bar and a line on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TextIO

from groundrows.schemas.durations import coarse_duration
from groundrows.transforms.counters import TALLY, Tally
from groundrows.transforms.generate.calling import shared

TERMINAL_SECONDS = 0.5
LOG_SECONDS = 10.0
# How long a run that was stopped may take to count its source for the last sentence.
COUNTING_SECONDS = 3.0
# Rates are averages over the last seconds, so that the estimated time left follows a changed limit.
RATE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The progress of a run at one moment.

    Attributes:
        done: Number of records that have an outcome.
        failed: Number of records that failed.
        in_flight: Number of calls that wait for their answer.
        retrying: Number of questions that wait for their next attempt.
        calls: Number of calls made, retries included.
        throttled_seconds: Seconds that calls waited for the rate limit.
        limit: The rate limit in calls per minute, or None.
        budget: The largest number of calls that the run may make, or None.
    """

    done: int
    failed: int
    in_flight: int
    retrying: int
    calls: int = 0
    throttled_seconds: float = 0.0
    limit: float | None = None
    budget: int | None = None


def snapshot(before: Tally) -> Snapshot:
    """Return the progress of the engines in this process. It does not cover worker processes.

    Args:
        before: The tally of the process before this run.
    """
    engines = shared.running()
    asking = [engine for engine in engines if engine.settings.method == "generate"] or engines
    broken = TALLY.broken - before.broken
    return Snapshot(
        done=broken + TALLY.left_out - before.left_out + sum(engine.done for engine in asking),
        failed=broken + sum(engine.failed for engine in asking),
        in_flight=sum(engine.attempts.out for engine in engines),
        retrying=sum(engine.attempts.waiting_to_retry for engine in engines),
        calls=sum(engine.attempts.made for engine in asking),
        throttled_seconds=sum(engine.throttled_seconds for engine in asking),
        limit=asking[0].settings.requests_per_minute if asking else None,
        budget=asking[0].settings.max_requests if asking else None,
    )


class Meter:
    """Writes the progress line, with rates over the last seconds.

    Args:
        started: When the run started, in seconds on the monotonic clock.
    """

    def __init__(self, started: float) -> None:
        self._seen = deque([(started, 0, 0)])

    def line(self, now: float, seen: Snapshot, total: int | None) -> str:
        """Return the progress line for this moment.

        Args:
            now: Seconds on the monotonic clock.
            seen: The progress now.
            total: Number of records in the source, or None while it is unknown.
        """
        self._seen.append((now, seen.done, seen.calls))
        # Two entries always stay, because a rate needs two.
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        since, done, calls = self._seen[0]
        passed = now - since
        rate = max(0, seen.done - done) / passed if passed > 0 else 0.0
        of = f"/{total:,}" if total is not None else ""
        parts = [f"{seen.done:,}{of} done"]
        if total is not None and rate > 0:
            parts.append(f"{coarse_duration(max(0, total - seen.done) / rate)} left")
        parts += [f"{seen.failed:,} failed", f"{seen.in_flight} in flight"]
        if seen.retrying:
            parts.append(f"{seen.retrying} waiting to retry")
        parts.append(f"{rate:.1f}/s")
        if seen.limit is not None:
            a_minute = 60 * max(0, seen.calls - calls) / passed if passed > 0 else 0.0
            parts.append(f"{a_minute:,.0f} of {seen.limit:,g} calls/min")
        if seen.throttled_seconds >= 1:
            parts.append(f"{coarse_duration(seen.throttled_seconds)} throttled")
        if seen.budget is not None:
            parts.append(f"{seen.calls:,} of {seen.budget:,} calls spent")
        return " · ".join(parts)


@contextmanager
def shown(count: Callable[[], int] | None, stream: TextIO | None = None) -> Iterator[None]:
    """Show progress while the block runs.

    Args:
        count: Counts the records of the source. It runs in a thread of its own. None for an endless source.
        stream: Where to write; stderr by default.
    """
    stop = threading.Event()
    thread = threading.Thread(target=_show, args=(count, stream or sys.stderr, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _show(count: Callable[[], int] | None, stream: TextIO, stop: threading.Event) -> None:
    # A failing display must not end the run. `rich` raises SystemExit when the reader of the stream is gone.
    with suppress(Exception, SystemExit):
        before = replace(TALLY)
        if stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
            _redraw(count, stream, stop, before)
        else:
            _print(count, stream, stop, before)


def _print(count: Callable[[], int] | None, stream: TextIO, stop: threading.Event, before: Tally) -> None:
    meter = Meter(time.monotonic())
    total: list[int] | None = None
    while not stop.wait(LOG_SECONDS):
        if total is None:  # counting starts late, so that a short run needs none
            total = _counting(count)[0]
        known = total[0] if total else None
        print(meter.line(time.monotonic(), snapshot(before), known), file=stream, flush=True)


def _redraw(count: Callable[[], int] | None, stream: TextIO, stop: threading.Event, before: Tally) -> None:
    # Imported here because only a terminal needs it.
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    total, _ = _counting(count)
    meter = Meter(time.monotonic())
    # `Live` moves what other code prints above the display.
    with Live(console=Console(file=stream), auto_refresh=False, transient=True) as live:
        while not stop.wait(TERMINAL_SECONDS):
            seen, known = snapshot(before), total[0] if total else None
            view = Table.grid(expand=True)
            # Without a total, the bar pulses.
            view.add_row(ProgressBar(total=known, completed=seen.done, pulse=known is None))
            view.add_row(Text(meter.line(time.monotonic(), seen, known)))
            live.update(view, refresh=True)


def counted(count: Callable[[], int]) -> int | None:
    """Return the number of records in a source; None when that can't be found out in a few seconds."""
    total, thread = _counting(count)
    thread.join(COUNTING_SECONDS)
    return total[0] if total else None


def _counting(count: Callable[[], int] | None) -> tuple[list[int], threading.Thread]:
    """Start to count; return a list that will hold the total, and the thread that counts."""
    total: list[int] = []

    def run() -> None:
        with suppress(Exception):
            if count is not None:
                total.append(count())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return total, thread
