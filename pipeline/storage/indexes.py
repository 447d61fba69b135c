"""Where `groundrows browse` keeps indexes of a run's rows, and how those that nobody uses are removed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil

from groundrows.pipeline.storage.summaries import PRIVATE
from groundrows.pipeline.storage.uris import is_remote

ROOM = "browse"
IN_USE = "in_use"


def room_of(directory: str) -> str:
    """The directory for the indexes of a run: within its own, or in the user's cache."""
    if not is_remote(directory) and os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        return os.path.join(directory, PRIVATE, ROOM)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    whole = directory if is_remote(directory) else os.path.abspath(directory)
    named = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return os.path.join(cache, "groundrows", ROOM, named)


def sweep(room: str, keep: str = "") -> bool:
    """Remove the indexes that nobody uses: of earlier states of the files, and of killed processes.

    Args:
        room: The directory for indexes, which need not be there.
        keep: The path of one that stays.

    Returns:
        Whether none but that is left in use.
    """
    free = True
    for each in os.scandir(room) if os.path.isdir(room) else ():
        if each.path == keep or not each.is_dir(follow_symlinks=False):
            continue
        try:
            with open(os.path.join(each.path, IN_USE), "rb") as mark:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(each.path, ignore_errors=True)
        except BlockingIOError:
            free = False
        except OSError:
            # It may be about to be filled by another process, which has not marked it yet.
            continue
    return free
