"""Rows in Avro object container files, the format that every reader has, BigQuery's loads included."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from fastavro import block_reader, parse_schema, reader, schemaless_reader
from fastavro.write import Writer

from groundrows.schemas.rows import Row, encode

if TYPE_CHECKING:
    import polars as pl

# The codec that every reader has.
CODEC = "deflate"
# Before compression. Readers take a block at a time; larger blocks compress no better.
BLOCK_BYTES = 64_000

# The header of a file, by Avro's specification.
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

    name = "avro"
    suffix = ".avro"

    def writer(self, file: BinaryIO, schema: Mapping[str, Any]) -> AvroWriter:
        """Begin a file."""
        return AvroWriter(file, schema)

    def read(self, file: BinaryIO, columns: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows; only `columns` are decoded into Python."""
        rows: Iterator[Any] = iter(reader(file, reader_schema=cast(Any, columns)))
        return rows

    def count(self, file: BinaryIO) -> int:
        """The number of rows, from the headers of the blocks."""
        return sum(block.num_records for block in block_reader(file))

    def check_whole(self, path: str) -> None:
        """Check by their headers that every block is there; polars leaves out a last block that is cut."""
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            sync = cast(dict[str, bytes], schemaless_reader(file, _HEADER, None))["sync"]
            while file.tell() < size:
                schemaless_reader(file, "long", None)  # the number of its rows
                file.seek(cast(int, schemaless_reader(file, "long", None)), os.SEEK_CUR)
                if file.read(len(sync)) != sync:
                    raise ValueError("it breaks off, or is damaged")

    def scan(self, path: str, batch_rows: int) -> pl.LazyFrame:
        """A file's rows for polars."""
        # Here, because only the report has polars.
        from polars_avro import scan_avro

        return scan_avro(path, batch_size=batch_rows, glob=False)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block as fastavro's writer takes it: rows that are encoded, and not compressed."""

    num_records: int
    bytes_: BytesIO


class AvroWriter:
    """Writes an Avro file block by block."""

    def __init__(self, file: BinaryIO, schema: Mapping[str, Any]) -> None:
        self._writer = Writer(file, cast(Any, schema), codec=CODEC)
        self._block = bytearray()
        self._block_rows = 0

    def write(self, row: Row) -> None:
        """Add a row, checked as it is encoded."""
        self._block += encode(row)
        self._block_rows += 1
        if len(self._block) >= BLOCK_BYTES:
            self._end_block()

    def write_values(self, values: Mapping[str, Any]) -> None:
        """Add a row that is a mapping."""
        if self._block_rows:
            self._end_block()
        self._writer.write(cast(Any, values))

    def close(self) -> None:
        """Write what is buffered."""
        if self._block_rows:
            self._end_block()
        self._writer.flush()

    def _end_block(self) -> None:
        self._writer.write_block(cast(Any, _Block(self._block_rows, BytesIO(self._block))))
        self._block = bytearray()
        self._block_rows = 0
