"""Operations on files and directories, local or on `gs://`.

Beam treats a path as a pattern when it finds or deletes files. A directory whose name contains a bracket
would make it delete files of another directory. So this module uses the standard library for local files,
and refuses paths on `gs://` that could be patterns (`check_name`).

On `gs://` there are no directories, and an object appears only when all of it has arrived. A move is a copy
followed by a deletion. When a move is interrupted, both objects may exist; moving again repairs that.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from typing import Any

from groundrows.pipeline.storage import file_systems
from groundrows.pipeline.storage.uris import is_remote


def check_name(path: str) -> None:
    """Check that Beam does not take a path on `gs://` for a pattern. Every local path is accepted.

    Raises:
        ValueError: Beam would take the path for a pattern, or the path names no bucket.
    """
    if is_remote(path) and any(mark in path for mark in "*?["):
        raise ValueError("a path on gs:// with *, ? or [ would match other files")
    if re.fullmatch(r"gs:/*", path):
        raise ValueError("it names no bucket")


def make_directory(path: str) -> None:
    """Create a directory if it does not exist."""
    if not is_remote(path):
        os.makedirs(path, exist_ok=True)


def remove_directory(path: str) -> None:
    """Remove a directory and its content, if it exists."""
    if not is_remote(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            file_systems.delete_remote(path.rstrip("/") + "/")


def move(source: str, target: str) -> None:
    """Move a file to its final name."""
    if is_remote(source):
        file_systems.rename_remote(source, target)
    else:
        os.rename(source, target)


def delete(path: str) -> None:
    """Delete a file, if it exists."""
    if not is_remote(path):
        with suppress(FileNotFoundError):
            os.remove(path)
    elif file_systems.exists(path):
        file_systems.delete_remote(path)


def open_for_writing(path: str) -> Any:
    """Open a file for writing. Beam does not compress it, whatever its suffix is."""
    return file_systems.created(path)


def read_json(path: str) -> dict[str, Any] | None:
    """Read a JSON object from a file. Return None when the file does not exist.

    Raises:
        ValueError: The file does not hold a JSON object.
    """
    if not file_systems.exists(path):
        return None
    with file_systems.opened(path) as file:
        value = json.loads(file.read())
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no JSON object")
    return value


def cause_of(error: BaseException) -> BaseException:
    """Return the cause of one of Beam's errors, which name only the operation that failed and its path."""
    while details := getattr(error, "exception_details", None):
        error = next(iter(details.values()))
    return error
