"""Rows in Avro object container files, a format that BigQuery and most other tools can load."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from fastavro import block_reader, parse_schema, reader, schemaless_reader
from fastavro.write import Writer

from groundrows.pipeline.storage.row_formats.names import AVRO
from groundrows.schemas.rows import Row, encode

if TYPE_CHECKING:
    import polars as pl

# Every Avro reader supports this codec.
CODEC = "deflate"
# Size of a block before compression. Readers hold one block in memory; larger blocks compress no better.
BLOCK_BYTES = 64_000

# The header of a file, from Avro's specification.
_HEADER = parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
        ],
    }
)


class Avro:
    """The format `avro`."""

    name = AVRO
    suffix = ".avro"

    def writer(self, file: BinaryIO, schema: Mapping[str, Any]) -> AvroWriter:
        """Start a file."""
        return AvroWriter(file, schema)

    def read(self, file: BinaryIO, columns: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows. Other columns than `columns` are skipped without decoding them."""
        rows: Iterator[Any] = iter(reader(file, reader_schema=cast(Any, columns)))
        return rows

    def count(self, file: BinaryIO) -> int:
        """Return the number of rows, which the blocks' headers hold."""
        return sum(block.num_records for block in block_reader(file))

    def check_whole(self, path: str) -> None:
        """Check that the file is complete by reading its blocks' headers.

        Without this, polars would silently skip a last block that is cut off.
        """
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            sync = cast(dict[str, bytes], schemaless_reader(file, _HEADER, None))["sync"]
            while file.tell() < size:
                schemaless_reader(file, "long", None)  # the number of its rows
                file.seek(cast(int, schemaless_reader(file, "long", None)), os.SEEK_CUR)
                if file.read(len(sync)) != sync:
                    raise ValueError("it is cut off or damaged")

    def scan(self, path: str, batch_rows: int) -> pl.LazyFrame:
        """Return a file's rows as a polars frame."""
        # Imported here because only the report needs polars, which is an optional dependency.
        from polars_avro import scan_avro

        return scan_avro(path, batch_size=batch_rows, glob=False)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block in the form that fastavro's writer takes: encoded rows, not yet compressed."""

    num_records: int
    bytes_: BytesIO


class AvroWriter:
    """Writes an Avro file block by block."""

    def __init__(self, file: BinaryIO, schema: Mapping[str, Any]) -> None:
        self._writer = Writer(file, cast(Any, schema), codec=CODEC)
        self._block = bytearray()
        self._block_rows = 0

    def write(self, row: Row) -> None:
        """Add a row. Encoding it also checks it."""
        self._block += encode(row)
        self._block_rows += 1
        if len(self._block) >= BLOCK_BYTES:
            self._end_block()

    def write_values(self, values: Mapping[str, Any]) -> None:
        """Add a row given as a mapping."""
        if self._block_rows:
            self._end_block()
        self._writer.write(cast(Any, values))

    def close(self) -> None:
        """Write the buffered rows."""
        if self._block_rows:
            self._end_block()
        self._writer.flush()

    def _end_block(self) -> None:
        self._writer.write_block(cast(Any, _Block(self._block_rows, BytesIO(self._block))))
        self._block = bytearray()
        self._block_rows = 0
