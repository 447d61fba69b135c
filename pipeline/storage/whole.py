"""Writes files that appear under their name only when they are complete."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from groundrows.pipeline.storage.files import cause_of, check_name, delete, move, open_for_writing
from groundrows.pipeline.storage.uris import is_remote
from groundrows.schemas.errors import UsageError
from groundrows.schemas.wording import reason_of


@contextmanager
def written_whole(path: str, half: str | None = None) -> Iterator[Any]:
    """Yield a file to write into. It gets its name when the block ends; it is deleted when the block fails.

    Args:
        path: The file's final name, local or on `gs://`. An existing file is replaced.
        half: The file's name until then; by default a unique name beside `path`.
    """
    half = half or f"{path}.{uuid.uuid4().hex}"
    try:
        with open_for_writing(half) as file:
            yield file
        move(half, path)
    except BaseException:
        delete(half)
        raise


@contextmanager
def writing_output(path: str) -> Iterator[None]:
    """Say what is wrong when the file that `--output` names can't be written within the block.

    Raises:
        UsageError: It can't. One that is raised within the block passes.
    """
    try:
        check_name(path)
        yield
    except UsageError:
        raise
    except Exception as error:
        reason = reason_of(cause_of(error))
        raise UsageError(f"--output={path} can't be written: {reason}; name another file.") from None


def write_whole(path: str, data: bytes, half: str | None = None) -> None:
    """Write bytes to a file. The arguments are those of `written_whole`."""
    if is_remote(path):
        # On Cloud Storage, an object appears only when all of it has arrived.
        with open_for_writing(path) as file:
            file.write(data)
        return
    with written_whole(path, half) as file:
        file.write(data)


def check_output(path: str) -> None:
    """Check before the work whether the local file that `--output` names can be written.

    Raises:
        UsageError: It can't.
    """
    if is_remote(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    problem = None
    if os.path.isdir(path):
        problem = "it is a directory"
    elif not os.path.isdir(above):
        problem = f"there is no directory {above}"
    elif not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        problem = f"{above} is not writable"
    if problem:
        raise UsageError(f"--output={path} can't be written: {problem}; name another file.")
