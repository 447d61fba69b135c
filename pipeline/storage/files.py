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
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from fastavro import reader

from groundrows.schemas.errors import UsageError
from groundrows.schemas.wording import reason_of

CODEC = "deflate"
"""How the blocks of Avro files are compressed: every reader knows this codec, BigQuery's loads too."""


def check_name(path: str) -> None:
    """Check that a name on `gs://` stands for itself alone; any local one does.

    Raises:
        ValueError: It doesn't: a pattern to Beam, or no bucket is named.
    """
    if "://" in path and any(mark in path for mark in "*?["):
        raise ValueError("a name with *, ? or [ would stand for others on gs://")
    if re.fullmatch(r"gs:/*", path):
        raise ValueError("it names no bucket")


def make_directory(path: str) -> None:
    """Make a directory unless it is there."""
    if "://" not in path:
        os.makedirs(path, exist_ok=True)


def remove_directory(path: str) -> None:
    """Remove a directory and what is in it, if it is there."""
    if "://" not in path:
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            FileSystems.delete([path.rstrip("/") + "/"])


def move(source: str, target: str) -> None:
    """Give a file its final name."""
    if "://" in source:
        FileSystems.rename([source], [target])
    else:
        os.rename(source, target)


def delete(path: str) -> None:
    """Delete a file, if it is there."""
    if "://" not in path:
        with suppress(FileNotFoundError):
            os.remove(path)
    elif FileSystems.exists(path):
        FileSystems.delete([path])


def open_for_writing(path: str) -> Any:
    """Open a file whose bytes go out as they are given."""
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)


def row_files(directory: str) -> list[str]:
    """The Avro files in a directory, sorted; none when it is not there."""
    if "://" in directory:
        found = FileSystems.match([FileSystems.join(directory, "*.avro")])[0].metadata_list
        return sorted(file.path for file in found)
    if not os.path.isdir(directory):
        return []
    paths = [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".avro")]
    return sorted(path for path in paths if os.path.isfile(path))


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


def column_rows(files: Iterable[str], columns: Any, unreadable: str) -> Iterator[Any]:
    """Yield some columns of every row of Avro files; the others are skipped over.

    Args:
        files: Paths, local or `gs://`.
        columns: The Avro schema to read by.
        unreadable: What is said of a file that can't be read, with `{path}` and `{reason}` in it.

    Raises:
        UsageError: A file can't be read. What whoever takes the rows does to SQLite passes as it is.
    """
    for path in files:
        try:
            with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
                yield from reader(file, reader_schema=columns)
        except sqlite3.Error:
            raise
        except Exception as error:
            raise UsageError(unreadable.format(path=path, reason=reason_of(error))) from None
