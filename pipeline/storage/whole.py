"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from groundrows.pipeline.storage.files import delete, move, open_for_writing
from groundrows.pipeline.storage.uris import is_remote


@contextmanager
def written_whole(path: str, half: str | None = None) -> Iterator[Any]:
    """Give a file to write into, which gets its name when the block ends, and vanishes when the block fails.

    Args:
        path: The file's name, local or on `gs://`. What is there is replaced.
        half: Its name until then; by default one beside `path` that nobody else has.
    """
    half = half or f"{path}.{uuid.uuid4().hex}"
    try:
        with open_for_writing(half) as file:
            yield file
        move(half, path)
    except BaseException:
        delete(half)
        raise


def write_whole(path: str, data: bytes, half: str | None = None) -> None:
    """Write a file in one go. Arguments as for `written_whole`."""
    if is_remote(path):
        # An object appears once all of it has arrived.
        with open_for_writing(path) as file:
            file.write(data)
        return
    with written_whole(path, half) as file:
        file.write(data)
