"""An output directory that is taken away while a run writes to it.

It is noticed at once, or the rest would be paid for into files that have no name any more.
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
    """Whether a local directory is still the one that the run has claimed.

    Attributes:
        lost: Why it is not, as a sentence; None while it is.
    """

    def __init__(self, where: Output) -> None:
        self._path = where.path
        self._lock = where.private("lock")
        self._claimed = None if is_remote(where.path) else _identity(self._lock)
        self.lost: str | None = None

    def look(self) -> bool:
        """Look again; returns whether it is lost."""
        if self.lost is None and self._claimed is not None and _identity(self._lock) != self._claimed:
            self.lost = (
                f"--output={self._path} was taken away while the run wrote to it, and what it held is lost; "
                "run the same command again to ask what has no answer there."
            )
        return self.lost is not None


@contextmanager
def watched(where: Output) -> Iterator[Watch]:
    """Stop the calling of this process when the directory is taken away, as long as the block lasts."""
    watch = Watch(where)
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            # Again and again, since an engine may be made later.
            if watch.look():
                with suppress(RuntimeError):  # of one that has closed at this moment
                    shared.halt_calling(f"Calling stopped: --output={where.path} is not there any more.")

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
