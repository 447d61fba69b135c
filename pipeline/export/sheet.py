"""What is exported, whatever the file's format: named columns, and rows of Python's own values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

# Rows in memory at once; an answer may be megabytes.
BATCH_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Sheet:
    """Columns and rows.

    Attributes:
        name: What the rows are, in a word or two.
        schema: The columns and their types.
        read: Gives the rows, in batches that fit the schema; may be called again.
        values: Gives the rows where their values are more than the schema has: a column of text holds what
            text stands for. None: the values of `read`.
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
        """The rows: text, numbers, truth values, bytes, moments in UTC, lists and dicts; None for null."""
        if self.values is not None:
            yield from self.values()
            return
        for batch in self.read():
            columns = [column.to_pylist(maps_as_pydicts="strict") for column in batch.columns]
            yield from map(list, zip(*columns, strict=True))


def queried(db: duckdb.DuckDBPyConnection, name: str, query: str) -> Sheet:
    """What a query gives.

    Raises:
        duckdb.Error: The query is wrong.
    """

    def read() -> Iterator[pa.RecordBatch]:
        yield from db.sql(query).to_arrow_reader(BATCH_ROWS)

    schema = db.sql(query).limit(0).to_arrow_table().schema
    return Sheet(name, schema, read)
