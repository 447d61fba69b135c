"""Rows in Parquet files: by column, so that a query reads the columns it needs and nothing else."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from groundrows.pipeline.storage.row_formats.names import PARQUET
from groundrows.schemas.rows import Row, encode

if TYPE_CHECKING:
    import polars as pl

COMPRESSION = "zstd"
# Bytes of rows as Avro encodes them. Rows are Python objects until there are so many of them, …
BATCH_BYTES = 1 << 20
# … and in Arrow's form, which is as compact, until there are enough for a row group.
GROUP_BYTES = 8 << 20

# Rows may be megabytes each, so only a few are decoded at a time.
_READ_ROWS = 64
_READ_BYTES = 1 << 20

_ARROW: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "bytes": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
}
_MOMENT = pa.timestamp("us", tz="UTC")


class Parquet:
    """The format `parquet`."""

    name = PARQUET
    suffix = ".parquet"

    def writer(self, file: BinaryIO, schema: Mapping[str, Any]) -> ParquetWriter:
        """Begin a file."""
        return ParquetWriter(file, arrow_schema(schema))

    def read(self, file: BinaryIO, columns: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows; only `columns` are read from the file."""
        if not file.seekable():  # a Parquet file is read from its end
            with tempfile.TemporaryFile() as copy:
                shutil.copyfileobj(file, copy, _READ_BYTES)
                copy.seek(0)
                yield from _rows(copy, columns)
        else:
            yield from _rows(file, columns)

    def count(self, file: BinaryIO) -> int:
        """The number of rows, from the end of the file."""
        return int(pq.read_metadata(file).num_rows)

    def check_whole(self, path: str) -> None:
        """Check that the file has its end, which says where everything else is."""
        pq.read_metadata(path)

    def scan(self, path: str, batch_rows: int) -> pl.LazyFrame:
        """A file's rows for polars, which reads a row group at a time."""
        # Here, because only the report has polars.
        import polars as pl

        return pl.scan_parquet(path, glob=False)


def arrow_schema(schema: Mapping[str, Any]) -> pa.Schema:
    """The Arrow schema of rows that have this Avro schema.

    A union with null becomes a field that may be null, and every other field one that may not. Times are
    microseconds in UTC; arrays, maps and records become lists, maps and structs.

    Raises:
        KeyError: It has a type that no table has.
    """
    return pa.schema([_field(field["name"], field["type"]) for field in schema["fields"]])


def _field(name: str, kind: Any) -> pa.Field:
    nullable = isinstance(kind, list)
    if nullable:
        (kind,) = [each for each in kind if each != "null"]
    return pa.field(name, _type(kind), nullable=nullable)


def _type(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        return _ARROW[kind]
    if kind.get("logicalType") == "timestamp-micros":
        return _MOMENT
    if kind["type"] == "array":
        return pa.list_(_field("element", kind["items"]))
    if kind["type"] == "map":
        return pa.map_(pa.string(), _field("value", kind["values"]))
    if kind["type"] == "record":
        return pa.struct([_field(field["name"], field["type"]) for field in kind["fields"]])
    return _ARROW[kind["type"]]


class ParquetWriter:
    """Writes a Parquet file, a row group at a time."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(file, schema, compression=COMPRESSION)
        self._rows: list[dict[str, Any]] = []
        self._row_bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0

    def write(self, row: Row) -> None:
        """Add a row, checked as it is for Avro."""
        self._add(_plain(row), len(encode(row)))

    def write_values(self, values: Mapping[str, Any]) -> None:
        """Add a row that is a mapping."""
        self._add(_plain(values), _size(values))

    def close(self) -> None:
        """Write what is buffered, and where everything is."""
        self._end_batch()
        self._end_group()
        self._writer.close()

    def _add(self, row: dict[str, Any], size: int) -> None:
        self._rows.append(row)
        self._row_bytes += size
        if self._row_bytes >= BATCH_BYTES:
            self._end_batch()
            if self._batch_bytes >= GROUP_BYTES:
                self._end_group()

    def _end_batch(self) -> None:
        if self._rows:
            self._batches.append(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
            self._batch_bytes += self._row_bytes
        self._rows, self._row_bytes = [], 0

    def _end_group(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches, self._batch_bytes = [], 0


def _plain(value: Any) -> Any:
    """A value as Arrow takes it: mappings of text to text as pairs, records as mappings."""
    if isinstance(value, (str, bytes, int, float)) or value is None:
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value


def _size(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    if isinstance(value, (tuple, list)):
        return sum(map(_size, value))
    return 8


def _rows(file: Any, columns: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    # With a buffer, a column is read as it is needed instead of a whole row group at once.
    with pq.ParquetFile(file, buffer_size=_READ_BYTES) as parquet:
        there = parquet.schema_arrow.names
        wanted = there if columns is None else [field["name"] for field in columns["fields"]]
        lacking = {name: _default(columns, name) for name in wanted if name not in there}
        found = [name for name in wanted if name in there]
        for batch in parquet.iter_batches(batch_size=_READ_ROWS, columns=found, use_threads=False):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                yield {name: lacking[name] if name in lacking else row[name] for name in wanted}


def _default(columns: Mapping[str, Any] | None, name: str) -> Any:
    for field in columns["fields"] if columns else ():
        if field["name"] == name and "default" in field:
            return field["default"]
    raise ValueError(f"it has no column {name}")
