"""Where the index of a run is kept, and whether it still tells of the files that are there.

An index is a directory named after the files that it was made of: their names, sizes and times of change. It
appears under that name when it is whole. When a file changes or another one comes, the name is another one,
and the index is made anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from groundrows.pipeline.query.run import Run
from groundrows.pipeline.storage.indexes import IN_USE as IN_USE
from groundrows.pipeline.storage.indexes import room_of as room_of
from groundrows.pipeline.storage.indexes import sweep

# Another version makes another index.
VERSION = 1


def name_of(run: Run) -> str:
    """The name of the index of a run as its files are now."""
    said = [
        (table, os.path.basename(file.name), *_state(file.path))
        for table, files in sorted(run.files.items())
        for file in files
    ]
    return hashlib.sha256(json.dumps([VERSION, said]).encode()).hexdigest()[:32]


def _state(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return (-1, -1)
    return found.st_size, found.st_mtime_ns


@contextmanager
def kept(room: str, name: str, make: Callable[[str], None]) -> Iterator[str]:
    """The index `name`, made first where there is none; nobody removes it while the block lasts.

    Args:
        room: The directory for indexes, which is made where it is not there.
        name: The index's name.
        make: Fills the directory that it is given.
    """
    os.makedirs(room, exist_ok=True)
    place = os.path.join(room, name)
    if not os.path.isdir(place):
        _make(room, place, make)
    with open(os.path.join(place, IN_USE), "rb") as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        sweep(room, place)
        yield place


def _make(room: str, place: str, make: Callable[[str], None]) -> None:
    half = os.path.join(room, f"half-{uuid.uuid4().hex}")
    os.mkdir(half)
    try:
        with open(os.path.join(half, IN_USE), "wb") as mark:
            # The lock tells whoever sweeps that this one is being made; it goes with the process.
            fcntl.flock(mark, fcntl.LOCK_SH)
            make(half)
            for each in os.scandir(half):
                _write_through(each.path)
            # Another process may have made the same meanwhile.
            with suppress(OSError):
                os.rename(half, place)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _write_through(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
