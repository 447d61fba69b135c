"""SIGTERM and Ctrl-C for a worker: what has begun is finished first; a second signal waits for nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FIRST = "Stopping: what has begun is finished and acknowledged; a second signal ends it at once.\n"
SECOND = "Ended at once; what was not acknowledged comes again.\n"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noted() -> Iterator[list[int]]:
    """Note the first signal instead of ending the process, as long as the block lasts.

    Yields:
        The signals that came.
    """
    came: list[int] = []

    def note(signum: int, frame: Any) -> None:
        os.write(2, (SECOND if came else FIRST).encode())
        if came:
            os._exit(1)
        came.append(signum)

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    # Whoever started us may have set them to be ignored, as nohup and a shell's & do.
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    ours = [each for each, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for each in ours:
        signal.signal(each, note)
    try:
        yield came
    finally:
        for each in ours:
            signal.signal(each, before[each])
