"""How a run is getting on: one line, rewritten on a terminal, or one every ten seconds elsewhere."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TextIO

from transforms.generate import shared

TERMINAL_SECONDS = 0.5
LOG_SECONDS = 10.0
# The rate is taken over the last moments, so that the time left follows a limit that changed.
RATE_SECONDS = 15.0
CLEAR = "\r\x1b[2K"


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a run at one moment."""

    done: int
    failed: int
    in_flight: int
    retrying: int


def sight() -> Sight:
    """Look at the engines of this process; workers in processes of their own are out of sight."""
    engines = shared.running()
    return Sight(
        done=sum(engine.done for engine in engines),
        failed=sum(engine.failed for engine in engines),
        in_flight=sum(engine.attempts.out for engine in engines),
        retrying=sum(engine.attempts.waiting_to_retry for engine in engines),
    )


class Meter:
    """Turns sights into lines.

    Args:
        started: When nothing was done yet, in seconds, monotonic.
    """

    def __init__(self, started: float) -> None:
        self._seen = [(started, 0)]

    def line(self, now: float, seen: Sight, total: int | None) -> str:
        """The line for this moment.

        Args:
            now: Seconds, monotonic.
            seen: What was seen.
            total: Questions there are, or None while that is not known.
        """
        self._seen.append((now, seen.done))
        # The last but one stays, however long ago it was: without it there would be no rate.
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_SECONDS:
            self._seen.pop(0)
        since, before = self._seen[0]
        rate = max(0, seen.done - before) / (now - since) if now > since else 0.0
        of = f"/{total:,}" if total is not None else ""
        parts = [f"{seen.done:,}{of} done", f"{seen.failed:,} failed", f"{seen.in_flight} in flight"]
        if seen.retrying:
            parts.append(f"{seen.retrying} waiting to retry")
        parts.append(f"{rate:.1f}/s")
        if total is not None and rate > 0:
            parts.append(f"{duration(max(0, total - seen.done) / rate)} left")
        return " · ".join(parts)


@contextmanager
def shown(count: Callable[[], int], stream: TextIO | None = None) -> Iterator[None]:
    """Show progress while the block runs.

    Args:
        count: Counts the questions there are; runs beside the work, and only for a terminal.
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


def _show(count: Callable[[], int], stream: TextIO, stop: threading.Event) -> None:
    # A display that fails must neither end a run nor litter its output.
    with suppress(Exception):
        _keep_showing(count, stream, stop)


def _keep_showing(count: Callable[[], int], stream: TextIO, stop: threading.Event) -> None:
    terminal = stream.isatty()
    total: list[int] = []
    if terminal:
        threading.Thread(target=_count, args=(count, total), daemon=True).start()
    meter = Meter(time.monotonic())
    while not stop.wait(TERMINAL_SECONDS if terminal else LOG_SECONDS):
        line = meter.line(time.monotonic(), sight(), total[0] if total else None)
        if terminal:
            # A line that wraps could not be rewritten.
            line = f"{CLEAR}{line[: shutil.get_terminal_size().columns - 1]}"
        print(line, end="" if terminal else "\n", file=stream, flush=True)
    if terminal:
        print(CLEAR, end="", file=stream, flush=True)


def _count(count: Callable[[], int], total: list[int]) -> None:
    with suppress(Exception):
        total.append(count())


def duration(seconds: float) -> str:
    """A stretch of time for people, to the second or the minute."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
