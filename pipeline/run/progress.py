"""How a run is getting on: a bar and a line on a terminal, or a line every ten seconds elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TextIO

from groundrows.schemas.durations import coarse_duration
from groundrows.transforms.counters import TALLY
from groundrows.transforms.generate.calling import shared

TERMINAL_SECONDS = 0.5
LOG_SECONDS = 10.0
# Rates are taken over the last moments, so that the time left follows a limit that changed.
RATE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a run at one moment.

    Attributes:
        done: Records that have an outcome.
        failed: Those of them that failed.
        in_flight: Calls out.
        retrying: Questions that wait to be asked again.
        calls: Calls made, retries included.
        throttled_seconds: Time spent waiting for the pace.
        limit: Calls a minute, or None.
        budget: Calls that may be made, or None.
    """

    done: int
    failed: int
    in_flight: int
    retrying: int
    calls: int = 0
    throttled_seconds: float = 0.0
    limit: float | None = None
    budget: int | None = None


def sight(broken_before: int = 0) -> Sight:
    """Look at the engines of this process; workers in processes of their own are out of sight.

    Args:
        broken_before: Records that were broken before this run, in the process's tally.
    """
    engines = shared.running()
    asking = [engine for engine in engines if engine.settings.method == "generate"] or engines
    broken = TALLY.broken - broken_before
    return Sight(
        done=broken + sum(engine.done for engine in asking),
        failed=broken + sum(engine.failed for engine in asking),
        in_flight=sum(engine.attempts.out for engine in engines),
        retrying=sum(engine.attempts.waiting_to_retry for engine in engines),
        calls=sum(engine.attempts.made for engine in asking),
        throttled_seconds=sum(engine.throttled_seconds for engine in asking),
        limit=asking[0].settings.requests_per_minute if asking else None,
        budget=asking[0].settings.max_requests if asking else None,
    )


class Meter:
    """Turns sights into lines.

    Args:
        started: When nothing was done yet, in seconds, monotonic.
    """

    def __init__(self, started: float) -> None:
        self._seen = deque([(started, 0, 0)])

    def line(self, now: float, seen: Sight, total: int | None) -> str:
        """The line for this moment.

        Args:
            now: Seconds, monotonic.
            seen: What was seen.
            total: Records there are, or None while that is not known.
        """
        self._seen.append((now, seen.done, seen.calls))
        # The last but one stays, however long ago it was: without it there would be no rate.
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
        count: Counts the records there are; runs beside the work. None where nobody can know.
        stream: Where to; stderr when not given.
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
    # A display that fails must neither end a run nor litter its output.
    with suppress(Exception, SystemExit):  # rich takes a reader that is gone for the end of the program
        before = TALLY.broken
        if stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
            _redraw(count, stream, stop, before)
        else:
            _print(count, stream, stop, before)


def _print(
    count: Callable[[], int] | None, stream: TextIO, stop: threading.Event, broken_before: int
) -> None:
    meter = Meter(time.monotonic())
    total: list[int] | None = None
    while not stop.wait(LOG_SECONDS):
        if total is None:  # a run that is over by now need not be counted
            total = _counted(count)
        known = total[0] if total else None
        print(meter.line(time.monotonic(), sight(broken_before), known), file=stream, flush=True)


def _redraw(
    count: Callable[[], int] | None, stream: TextIO, stop: threading.Event, broken_before: int
) -> None:
    # Not needed, and not paid for, where nobody looks.
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    total = _counted(count)
    meter = Meter(time.monotonic())
    # What others print meanwhile goes above the display.
    with Live(console=Console(file=stream), auto_refresh=False, transient=True) as live:
        while not stop.wait(TERMINAL_SECONDS):
            seen, known = sight(broken_before), total[0] if total else None
            view = Table.grid(expand=True)
            # A bar without a total moves to and fro.
            view.add_row(ProgressBar(total=known, completed=seen.done, pulse=known is None))
            view.add_row(Text(meter.line(time.monotonic(), seen, known)))
            live.update(view, refresh=True)


def _counted(count: Callable[[], int] | None) -> list[int]:
    """A list that the total will be in, once it is known."""
    total: list[int] = []
    if count is not None:
        threading.Thread(target=_count, args=(count, total), daemon=True).start()
    return total


def _count(count: Callable[[], int], total: list[int]) -> None:
    with suppress(Exception):
        total.append(count())
