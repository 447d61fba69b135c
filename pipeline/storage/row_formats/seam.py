"""What a format of row files does. Everything that reads or writes rows goes through this."""

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
        """Add a row that `RowFormat.read` gave, or one of a file that is no table: values by column."""

    def close(self) -> None:
        """Write what is buffered, and what the format has at the end of a file. The file stays open."""


class RowFormat(Protocol):
    """A format of row files. It deals with open files; opening them is `storage.row_files`' matter."""

    @property
    def name(self) -> str:
        """What people call it: `avro`."""

    @property
    def suffix(self) -> str:
        """The end of its files' names, with the dot."""

    def writer(self, file: BinaryIO, schema: Mapping[str, Any]) -> RowWriter:
        """Begin a file.

        Args:
            file: Open for writing.
            schema: The Avro schema of its rows, as fastavro parsed it; every format derives its own from it.
        """

    def read(self, file: BinaryIO, columns: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows, values by column.

        Args:
            file: Open for reading.
            columns: An Avro record schema with the columns to read; the others are skipped without decoding
                them. A column that the file lacks has the schema's default. None: all columns of the file.

        Raises:
            Exception: The file is not of this format, is damaged, or lacks a column that has no default.
        """

    def count(self, file: BinaryIO) -> int:
        """The number of rows, without decoding one."""

    def check_whole(self, path: str) -> None:
        """Check that a local file is complete, without decoding a row.

        Raises:
            ValueError: The file breaks off or is damaged.
        """

    def scan(self, path: str, batch_rows: int) -> pl.LazyFrame:
        """A local file's rows for polars, which takes `batch_rows` of them into memory at a time."""
