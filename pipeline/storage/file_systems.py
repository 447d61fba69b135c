"""Files by their paths: local ones through the standard library, all others through Beam.

Beam takes seconds to import. A command that reads a local directory, such as `report`, does without it.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from groundrows.pipeline.storage.uris import is_remote


def join(path: str, *names: str) -> str:
    """Return the path of something below a directory."""
    return os.path.join(path, *names) if not is_remote(path) else str(_beam().join(path, *names))


def exists(path: str) -> bool:
    """Whether there is something at a path."""
    return bool(_beam().exists(path)) if is_remote(path) else os.path.exists(path)


def opened(path: str) -> BinaryIO:
    """Open a file for reading, as it is stored: nothing is decompressed.

    Raises:
        OSError: It can't be opened. For a remote path also `BeamIOError`, and errors of Google's libraries.
    """
    if is_remote(path):
        remote: BinaryIO = _beam().open(path, **_as_it_is())
        return remote
    return open(path, "rb")


def created(path: str) -> BinaryIO:
    """Open a file for writing, and make its directory if there is none; nothing is compressed.

    Raises:
        OSError: As for `opened`.
    """
    if is_remote(path):
        remote: BinaryIO = _beam().create(path, **_as_it_is())
        return remote
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    return open(path, "wb")


def remote_files(*patterns: str) -> list[str]:
    """Return the paths of the remote files that match any of the patterns."""
    return [file.path for found in _beam().match(list(patterns)) for file in found.metadata_list]


def delete_remote(path: str) -> None:
    """Delete a remote file, or with a slash at the end everything below a directory."""
    _beam().delete([path])


def rename_remote(source: str, target: str) -> None:
    """Give a remote file another name."""
    _beam().rename([source], [target])


def errors() -> tuple[type[Exception], ...]:
    """Return the errors that reading and writing files may raise, those of Google's libraries included.

    An `except` clause calls this only when an error was raised, so nothing else waits for the imports.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    return OSError, ValueError, GoogleAPIError, GoogleAuthError


def _beam() -> Any:
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def _as_it_is() -> dict[str, Any]:
    from apache_beam.io.filesystem import CompressionTypes

    return {"compression_type": CompressionTypes.UNCOMPRESSED}
