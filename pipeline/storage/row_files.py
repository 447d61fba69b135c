"""Reads and writes files of rows, local or on `gs://`. The end of a file's name tells its format."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from groundrows.pipeline.storage import file_systems
from groundrows.pipeline.storage.files import open_for_writing
from groundrows.pipeline.storage.row_formats.known import FORMATS, format_of
from groundrows.pipeline.storage.uris import is_remote
from groundrows.pipeline.storage.whole import written_whole
from groundrows.schemas.errors import UsageError
from groundrows.schemas.rows import Row
from groundrows.schemas.tables import TABLES
from groundrows.schemas.wording import reason_of


class RowFile:
    """A file of one table's rows that is being written. Its name decides the format.

    Attributes:
        path: The file, local or on `gs://`.
        rows: Number of rows written so far.
    """

    def __init__(self, path: str, table: str) -> None:
        self.path = path
        self.rows = 0
        form = format_of(path)
        self._file = open_for_writing(path)
        self._writer = form.writer(self._file, TABLES[table].schema)

    def write(self, row: Row) -> None:
        """Add a row.

        Raises:
            RowError: The row does not fit the table's schema.
        """
        self._writer.write(row)
        self.rows += 1

    def close(self) -> None:
        """Write the buffered rows and close the file."""
        self._writer.close()
        self._file.close()


def row_files(directory: str) -> list[str]:
    """Return the row files in a directory, of every format, sorted. Empty when there is no directory."""
    suffixes = tuple(each.suffix for each in FORMATS.values())
    if is_remote(directory):
        patterns = [file_systems.join(directory, f"*{suffix}") for suffix in suffixes]
        return sorted(file_systems.remote_files(*patterns))
    if not os.path.isdir(directory):
        return []
    paths = [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(suffixes)]
    return sorted(path for path in paths if os.path.isfile(path))


def count_rows(path: str) -> int:
    """Return the number of rows in a file, without decoding them."""
    with _opened(path) as file:
        return format_of(path).count(file)


def read_rows(path: str, columns: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file as mappings from column to value.

    Args:
        path: The file, local or on `gs://`.
        columns: The columns to read, from `columns_of`; None for all columns of the file.

    Raises:
        Exception: The file can't be read.
    """
    with _opened(path) as file:
        yield from format_of(path).read(file, columns)


def _opened(path: str) -> Any:
    return file_systems.opened(path)


def rewrite_rows(path: str, rows: Iterable[Mapping[str, Any]], table: str, half: str) -> None:
    """Put other rows in the place of a file's, all at once: whoever opens it finds the old ones or the new.

    Args:
        path: The file, local or on `gs://`.
        rows: Values by column; a column that is left out has its default.
        table: The table they are of.
        half: A file that holds the new rows until all of them are there.
    """
    schema = TABLES[table].schema
    missing = {field["name"]: field["default"] for field in schema["fields"] if "default" in field}
    with written_whole(path, half) as file:
        writer = format_of(path).writer(file, schema)
        for row in rows:
            writer.write_values({**missing, **row})
        writer.close()
        if not is_remote(path):
            # The name must not pass to rows that are in memory alone: the old ones are gone with it.
            file.flush()
            os.fsync(file.fileno())


def columns_of(table: str, *names: str, missing: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an Avro record schema of some columns of a table, for `read_rows`.

    Args:
        table: The table's name.
        names: The columns.
        missing: The value of a column in files of earlier versions that lack it.
    """
    schema = TABLES[table].schema
    chosen = [field for field in schema["fields"] if field["name"] in names]
    fields = [
        {**field, "default": missing[field["name"]]} if missing and field["name"] in missing else field
        for field in chosen
    ]
    return {"type": "record", "name": schema["name"], "fields": fields}


UNREADABLE = "The rows of {path} can't be read: {reason}; repair the file or move it away."
"""The sentence about a file of rows that can't be read."""


def readable_rows(
    files: Iterable[str], columns: Mapping[str, Any] | None, unreadable: str = UNREADABLE
) -> Iterator[dict[str, Any]]:
    """Yield some columns of every row of several files.

    Args:
        files: Paths, local or on `gs://`.
        columns: As for `read_rows`.
        unreadable: The sentence about a file that can't be read. It contains `{path}` and `{reason}`.

    Raises:
        UsageError: A file can't be read.
        sqlite3.Error: The consumer of the rows raised it.
    """
    for path in files:
        try:
            yield from read_rows(path, columns)
        except sqlite3.Error:
            raise
        except Exception as error:
            raise UsageError(unreadable.format(path=path, reason=reason_of(error))) from None
