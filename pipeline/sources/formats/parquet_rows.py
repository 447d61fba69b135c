"""Parquet: a record is a row as a JSON object."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from groundrows.pipeline.sources.formats.items import Item
from groundrows.pipeline.sources.formats.row_json import plain_row, record_of, unusable_row

# Rows may be megabytes each: few at a time keep memory flat, at 250,000 small rows a second.
_BATCH_ROWS = 64
_BUFFER_BYTES = 1 << 20


def read_parquet(stream: BinaryIO, path: str, text_fields: frozenset[str] = frozenset()) -> Iterator[Item]:
    """Yield a record for each row, a few rows at a time whatever the size of a row group.

    A stream that cannot seek is first copied to a temporary file. Maps become objects; times in nanoseconds
    are cut to microseconds; a row that JSON or Python cannot hold (a map with a key twice, the year 10000)
    fails alone.

    Raises:
        ValueError: two columns have one name.
        Exception: pyarrow's, when the file is not Parquet or is corrupt.
    """
    if stream.seekable():
        yield from _read(stream, path, text_fields)
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy)
        copy.seek(0)
        yield from _read(copy, path, text_fields)


def _read(stream: Any, path: str, text_fields: frozenset[str]) -> Iterator[Item]:
    # With a buffer, a column is read as it is needed instead of a whole row group at once.
    with pq.ParquetFile(stream, buffer_size=_BUFFER_BYTES) as file:
        names = file.schema_arrow.names
        if len(set(names)) != len(names):
            raise ValueError("two of its columns have the same name; rename one of them")
        types = [_in_microseconds(kind) for kind in file.schema_arrow.types]
        schema = pa.schema(list(zip(names, types, strict=True)))
        exact = types == file.schema_arrow.types
        first = 1
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
            yield from _items(batch if exact else batch.cast(schema, safe=False), path, first, text_fields)
            first += len(batch)


def _items(batch: Any, path: str, first: int, text_fields: frozenset[str]) -> Iterator[Item]:
    try:
        rows = [plain_row(row, text_fields) for row in batch.to_pylist(maps_as_pydicts="strict")]
    except Exception as error:
        if len(batch) == 1:
            yield unusable_row(f"{path}:{first}", error)
            return
        for index in range(len(batch)):
            yield from _items(batch.slice(index, 1), path, first + index, text_fields)
        return
    for number, row in enumerate(rows, first):
        yield record_of(row, f"{path}:{number}")


def _in_microseconds(kind: Any) -> Any:
    """`kind` with nanoseconds replaced, at any depth: Python's datetime cannot hold them."""
    types = pa.types
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if types.is_time64(kind) and kind.unit == "ns":
        return pa.time64("us")
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _in_microseconds(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_in_microseconds(kind.key_type), _in_microseconds(kind.item_type))
    if types.is_list(kind):
        return pa.list_(_in_microseconds(kind.value_type))
    if types.is_large_list(kind):
        return pa.large_list(_in_microseconds(kind.value_type))
    return kind
