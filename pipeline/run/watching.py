"""Notices that somebody removes the output directory while a run writes to it.

Without this, the run would go on paying for answers and would write them into files that are deleted.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.uris import is_remote
from groundrows.transforms.generate.calling import shared

LOOK_SECONDS = 0.1


class Watch:
    """Checks that a local directory is still the one that the run claimed.

    Attributes:
        lost: A sentence about the lost directory; None while it is there.
    """

    def __init__(self, where: Output) -> None:
        self._path = where.path
        self._lock = where.private("lock")
        self._claimed = None if is_remote(where.path) else _identity(self._lock)
        self.lost: str | None = None

    def look(self) -> bool:
        """Look at the directory now; return whether it is lost."""
        if self.lost is None and self._claimed is not None and _identity(self._lock) != self._claimed:
            self.lost = (
                f"--output={self._path} was removed while the run wrote to it, and its content is lost; run "
                "the same command again to ask the questions that have no answer there."
            )
        return self.lost is not None


@contextmanager
def watched(where: Output) -> Iterator[Watch]:
    """While the block runs, stop this process's calls when the directory is removed."""
    watch = Watch(where)
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            # Repeated, because an engine may be created after the directory was lost.
            if watch.look():
                with suppress(RuntimeError):  # an engine that has just closed raises it
                    shared.halt_calling(f"Calling stopped: --output={where.path} does not exist any more.")

    thread = threading.Thread(target=look, name="groundrows-watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
        watch.look()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
