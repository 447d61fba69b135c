"""Ctrl-C and SIGTERM: the work ends at once and in order, and what was begun can be taken up."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SENTENCE = "Stopped; the same command run again takes it up where it is."
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def watched() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt in the main thread on either signal; a second one ends the process on the spot.

    Yields:
        The signals that came: what arrives at the top may be the runner's copy of the interrupt.
    """
    came: list[int] = []

    def stop(signum: int, frame: Any) -> None:
        if came:
            os.write(2, f"{SENTENCE}\n".encode())
            os._exit(1)
        came.append(signum)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    # Whoever started us may have set them to be ignored, as nohup and a shell's & do.
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    ours = [each for each, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for each in ours:
        signal.signal(each, stop)
    try:
        yield came
    finally:
        for each in ours:
            signal.signal(each, before[each])
