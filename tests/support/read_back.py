"""What a reader that is not ours makes of a row."""

import dataclasses
from io import BytesIO
from typing import Any

import fastavro

from groundrows.schemas.rows import Row, encode
from groundrows.schemas.tables import TABLES


def read_back(row: Row) -> dict[str, Any]:
    """The row, encoded by us and read by fastavro; nothing is left over."""
    data = BytesIO(encode(row))
    read: Any = fastavro.schemaless_reader(data, TABLES[row.TABLE].schema, None)
    assert not data.read(), f"bytes behind a row of {row.TABLE}"
    return dict(read)


def as_read(value: Any) -> Any:
    """A row, or a value in one, in the shape in which a reader gives it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_read(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [as_read(item) for item in value]
    return value
