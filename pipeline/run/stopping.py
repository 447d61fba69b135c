"""Ctrl-C, SIGTERM, and SIGHUP as of a terminal that closes: the work ends in order, and goes on another time.

Calls that are out are paid for, so their answers are waited for, unless a second signal says not to. A worker
also finishes and acknowledges the messages that it has begun with (`noted`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SENTENCE = "Stopped; the same command run again takes it up where it is."
STORED = (
    "Stopped with {stored:,} new answers stored; the same command run again asks only what has no stored "
    "answer yet."
)
NOTHING_STORED = (
    "Stopped; there is no ledger that stores answers, so the same command run again asks them all."
)
WAITING = "Stopping when the calls that are out have ended, {calls} now; a second signal stops at once."
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WORKER_STOPPING = "Stopping: what has begun is finished and acknowledged; a second signal ends it at once."
WORKER_ENDED = "Ended at once; what was not acknowledged comes again."
# What a stopped command says at the end.
_said = [SENTENCE]
_stop_calling: list[Callable[[], int]] = []


@contextmanager
def watched() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt in the main thread on any signal; a second one ends the process at once.

    Yields:
        The signals that came: what arrives at the top may be the runner's copy of the interrupt.
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
    """Note the first signal instead of raising anything; a second one ends the process on the spot.

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
    """Say something in a signal's handler; the terminal may be what has gone."""
    with suppress(OSError):
        os.write(2, f"{sentence}\n".encode())


@contextmanager
def handled(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Give the signals to `handler` as long as the block lasts; only the main thread can.

    A signal that whoever started us has set to be ignored, as nohup and a shell's & do, stays so.
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
    """Have a signal stop the calling before it interrupts anything, as long as the block lasts.

    Args:
        stop_calling: Called from the signal's handler; it lets no more calls out, and returns for how many
            the end of the work will wait.
        sentence: What to say in the end of what was interrupted; called once nothing goes on any more.
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
    """What became of a command that a signal stopped."""
    return _said[0]
