"""What is exported, in any file format: named columns, and rows of Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

# The number of rows in memory at once. It is small, because an answer may have megabytes.
BATCH_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Sheet:
    """The columns and rows to export.

    Attributes:
        name: A short name for the rows.
        schema: The columns and their types.
        read: Returns the rows in batches with this schema. It may be called several times.
        values: Returns the rows with their original values where the schema has only text for them, such as
            lists. None when `read` has the original values.
    """

    name: str
    schema: pa.Schema
    read: Callable[[], Iterator[pa.RecordBatch]]
    values: Callable[[], Iterator[list[Any]]] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows: text, numbers, booleans, bytes, times in UTC, lists and dicts; None for null."""
        if self.values is not None:
            yield from self.values()
            return
        for batch in self.read():
            columns = [column.to_pylist(maps_as_pydicts="strict") for column in batch.columns]
            yield from map(list, zip(*columns, strict=True))


def queried(db: duckdb.DuckDBPyConnection, name: str, query: str) -> Sheet:
    """Return the result of a query.

    Raises:
        duckdb.Error: The query is wrong.
    """

    def read() -> Iterator[pa.RecordBatch]:
        yield from db.sql(query).to_arrow_reader(BATCH_ROWS)

    schema = db.sql(query).limit(0).to_arrow_table().schema
    return Sheet(name, schema, read)
