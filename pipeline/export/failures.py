"""What has failed and was not made good since, as records that go back in once they are mended.

A row is the record itself, its fields as columns, and beside them why it failed and where it is from. A run
leaves these columns out again (`schemas.failed_fields`): the mended file is an archive like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa

from groundrows.pipeline.export.files.plain import as_json
from groundrows.pipeline.export.sheet import BATCH_ROWS, Sheet
from groundrows.schemas.failed_fields import FAILURE, ORIGIN, RECORD, as_it_was


def records(db: duckdb.DuckDBPyConnection, query: str) -> Sheet:
    """The records of a query over `failures`."""
    columns = list(dict.fromkeys([FAILURE, ORIGIN, *(name for row in _records(db, query) for name in row)]))
    schema = pa.schema([(name, pa.string()) for name in columns])

    def values() -> Iterator[list[Any]]:
        for row in _records(db, query):
            yield [row.get(name) for name in columns]

    def read() -> Iterator[pa.RecordBatch]:
        for rows in batched(values(), BATCH_ROWS):
            texts = [pa.array(map(_text, column), pa.string()) for column in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(texts, schema=schema)

    return Sheet("failures", schema, read, values)


def _records(db: duckdb.DuckDBPyConnection, query: str) -> Iterator[dict[str, Any]]:
    wanted = f"SELECT code, message, origin, record FROM ({query})"
    for batch in db.sql(wanted).to_arrow_reader(BATCH_ROWS):
        for row in batch.to_pylist():
            yield {
                FAILURE: f"{row['code']}: {row['message']}",
                ORIGIN: row["origin"],
                **_fields(row["record"]),
            }


def _fields(record: bytes) -> dict[str, Any]:
    try:
        read = json.loads(record)
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, dict):
        return as_it_was(read)
    return {RECORD: record.decode("utf-8", "replace")}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else as_json(value)


def batched(rows: Iterable[list[Any]], size: int) -> Iterator[list[list[Any]]]:
    """The rows in lists of at most `size`."""
    rest = iter(rows)
    while batch := list(islice(rest, size)):
        yield batch
