"""Handles signals: Ctrl-C, SIGTERM, and the SIGHUP of a terminal that closes.

The first signal ends the work in order, and the same command can continue it later. Calls in flight are paid
for, so the process waits for their answers. A worker also finishes and acknowledges the messages that it has
begun (`noted`). A second signal ends the process at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SENTENCE = "Stopped; run the same command again to continue."
STORED = (
    "Stopped with {stored:,} new answers stored; the same command run again asks only what has no stored "
    "answer yet."
)
STORED_OF = (
    "Stopped with {stored:,} new answers stored; the same command run again asks only what has no stored "
    "answer yet, at most {left:,} of {records:,} records."
)
NOTHING_STORED = (
    "Stopped; there is no ledger that stores answers, so the same command run again asks them all."
)
WAITING = "Stopping when the calls in flight have ended, {calls} now; a second signal stops at once."
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WORKER_STOPPING = (
    "Stopping: the messages in progress are finished and acknowledged first; a second signal stops at once."
)
WORKER_ENDED = "Stopped at once; Pub/Sub delivers the unacknowledged messages again."
# The sentence that a stopped command prints at the end. A list, so that the signal's handler sees changes.
_said = [SENTENCE]
_stop_calling: list[Callable[[], int]] = []


@contextmanager
def watched() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt in the main thread on any signal; a second one ends the process at once.

    Yields:
        The signals that came. They show that an interrupt ended the block even when the runner raises a
        different exception for it.
    """
    came: list[int] = []
    _said[0] = SENTENCE

    def stop(signum: int, frame: Any) -> None:
        if came:
            _tell(said())
            os._exit(1)
        came.append(signum)
        if calls := sum(stop_calling() for stop_calling in _stop_calling):
            _tell(WAITING.format(calls=calls))
        raise KeyboardInterrupt

    with handled(stop):
        yield came


@contextmanager
def noted() -> Iterator[list[int]]:
    """Note the first signal without raising an exception; a second one ends the process at once.

    Yields:
        The signals that came.
    """
    came: list[int] = []

    def note(signum: int, frame: Any) -> None:
        _tell(WORKER_ENDED if came else WORKER_STOPPING)
        if came:
            os._exit(1)
        came.append(signum)

    with handled(note):
        yield came


def _tell(sentence: str) -> None:
    """Print a sentence from a signal's handler, unless the terminal has closed."""
    with suppress(OSError):
        os.write(2, f"{sentence}\n".encode())


@contextmanager
def handled(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Call `handler` for the signals while the block runs. Does nothing outside the main thread.

    A signal that the parent process set to be ignored, as `nohup` and a shell's `&` do, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    ours = [each for each, former in before.items() if former not in (signal.SIG_IGN, None)]
    for each in ours:
        signal.signal(each, handler)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, before[each])


@contextmanager
def stopped_first(
    stop_calling: Callable[[], int], sentence: Callable[[], str] = lambda: SENTENCE
) -> Iterator[None]:
    """While the block runs, let a signal stop the calling before it interrupts the block.

    Args:
        stop_calling: Prevents new calls, and returns the number of calls in flight. The signal's handler
            calls it.
        sentence: Returns the sentence to print about the interrupted block. It is called after the work has
            ended.
    """
    _stop_calling.append(stop_calling)
    try:
        yield
    except BaseException:
        _said[0] = sentence()
        raise
    finally:
        _stop_calling.remove(stop_calling)


def said() -> str:
    """Return the sentence to print about a command that a signal stopped."""
    return _said[0]
