"""Files and directories, local or `gs://`, by their names.

Beam takes a name for a pattern when it finds, deletes or removes: for a bracket in this directory's name it
deletes what another one holds. Local files are therefore left to the standard library, and on `gs://` no
name that could be a pattern is written to (`check_name`).

On `gs://` there are no directories, an object is there once it is whole, and a move is a copy and a deletion:
one that is broken off leaves both, and is made good by moving again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from typing import Any

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from groundrows.pipeline.storage.uris import is_remote


def check_name(path: str) -> None:
    """Check that a name on `gs://` stands for itself alone; any local one does.

    Raises:
        ValueError: It doesn't: a pattern to Beam, or no bucket is named.
    """
    if is_remote(path) and any(mark in path for mark in "*?["):
        raise ValueError("a name with *, ? or [ would stand for others on gs://")
    if re.fullmatch(r"gs:/*", path):
        raise ValueError("it names no bucket")


def make_directory(path: str) -> None:
    """Make a directory unless it is there."""
    if not is_remote(path):
        os.makedirs(path, exist_ok=True)


def remove_directory(path: str) -> None:
    """Remove a directory and what is in it, if it is there."""
    if not is_remote(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            FileSystems.delete([path.rstrip("/") + "/"])


def move(source: str, target: str) -> None:
    """Give a file its final name."""
    if is_remote(source):
        FileSystems.rename([source], [target])
    else:
        os.rename(source, target)


def delete(path: str) -> None:
    """Delete a file, if it is there."""
    if not is_remote(path):
        with suppress(FileNotFoundError):
            os.remove(path)
    elif FileSystems.exists(path):
        FileSystems.delete([path])


def open_for_writing(path: str) -> Any:
    """Open a file whose bytes go out as they are given."""
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)


def read_json(path: str) -> dict[str, Any] | None:
    """A JSON object from a file, or None when the file is not there.

    Raises:
        ValueError: It holds something else.
    """
    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        value = json.loads(file.read())
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no JSON object")
    return value


def cause_of(error: BaseException) -> BaseException:
    """The error behind one of Beam's, which say only that an operation failed, and on what."""
    while details := getattr(error, "exception_details", None):
        error = next(iter(details.values()))
    return error
