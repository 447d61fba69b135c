"""The interface of a format of row files. All code that reads or writes rows uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from groundrows.schemas.rows import Row

if TYPE_CHECKING:
    import polars as pl


class RowWriter(Protocol):
    """Writes rows of one table into one open file."""

    def write(self, row: Row) -> None:
        """Add a row.

        Raises:
            RowError: A value does not fit the table's schema.
        """

    def write_values(self, values: Mapping[str, Any]) -> None:
        """Add a row given as a mapping from column to value, such as one from `RowFormat.read`.

        Exports use this for files that are not tables.
        """

    def close(self) -> None:
        """Write the buffered rows and the end of the file, if the format has one. The file stays open."""


class RowFormat(Protocol):
    """A format of row files. It works on open files; `storage.row_files` opens them."""

    @property
    def name(self) -> str:
        """The format's name, such as `avro`."""

    @property
    def suffix(self) -> str:
        """The end of its files' names, such as `.avro`."""

    def writer(self, file: BinaryIO, schema: Mapping[str, Any]) -> RowWriter:
        """Start a file.

        Args:
            file: Open for writing.
            schema: The rows' Avro schema, parsed by fastavro. Every format derives its own schema from it.
        """

    def read(self, file: BinaryIO, columns: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows as mappings from column to value.

        Args:
            file: Open for reading.
            columns: An Avro record schema of the columns to read; other columns are skipped without decoding
                them. A column that the file lacks has the schema's default. None reads all columns.

        Raises:
            Exception: The file is not of this format, is damaged, or lacks a column that has no default.
        """

    def count(self, file: BinaryIO) -> int:
        """Return the number of rows, without decoding them."""

    def check_whole(self, path: str) -> None:
        """Check that a local file is complete, without decoding a row.

        Raises:
            ValueError: The file is cut off or damaged.
        """

    def scan(self, path: str, batch_rows: int) -> pl.LazyFrame:
        """Return a local file's rows as a polars frame. Polars reads `batch_rows` rows at a time."""
