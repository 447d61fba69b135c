"""SIGTERM and Ctrl-C for a worker: what has begun is finished first; a second signal waits for nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from groundrows.pipeline.run.stopping import handled

FIRST = "Stopping: what has begun is finished and acknowledged; a second signal ends it at once.\n"
SECOND = "Ended at once; what was not acknowledged comes again.\n"


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

    with handled(note):
        yield came
