"""Exports failed records that no later run answered, so that a person can correct and ask them again.

A row holds the record's fields as columns, and further columns that say why it failed and where it comes
from. A run ignores these further columns (`schemas.failed_fields`), so it can read the corrected file like
any other archive.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

from groundrows.pipeline.export.files.plain import as_json
from groundrows.pipeline.export.sheet import BATCH_ROWS, Sheet
from groundrows.schemas.failed_fields import FAILURE, ORIGIN, RECORD, as_it_was


def records(db: duckdb.DuckDBPyConnection, query: str) -> Sheet:
    """Return the failed records that a query over `failures` selects."""
    found = (name for batch in _records(db, query) for row in batch for name in row)
    columns = list(dict.fromkeys([FAILURE, ORIGIN, *found]))
    schema = pa.schema([(name, pa.string()) for name in columns])

    def values() -> Iterator[list[Any]]:
        for batch in _records(db, query):
            yield from ([row.get(name) for name in columns] for row in batch)

    def read() -> Iterator[pa.RecordBatch]:
        for batch in _records(db, query):
            texts = [pa.array([_text(row.get(name)) for row in batch], pa.string()) for name in columns]
            yield pa.RecordBatch.from_arrays(texts, schema=schema)

    return Sheet("failures", schema, read, values)


def _records(db: duckdb.DuckDBPyConnection, query: str) -> Iterator[list[dict[str, Any]]]:
    wanted = f"SELECT code, message, origin, record FROM ({query})"
    for batch in db.sql(wanted).to_arrow_reader(BATCH_ROWS):
        yield [
            {FAILURE: f"{row['code']}: {row['message']}", ORIGIN: row["origin"], **_fields(row["record"])}
            for row in batch.to_pylist()
        ]


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
