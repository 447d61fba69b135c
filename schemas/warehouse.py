"""The tables in BigQuery, derived from the `.avsc` files: columns, layout, and rows in BigQuery's shape.

Columns are what BigQuery itself makes of such a file when it loads one: a nullable type is NULLABLE, an array
REPEATED, a map a REPEATED record of `key` and `value`, any other column REQUIRED.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from groundrows.schemas.errors import ShapeError
from groundrows.schemas.rows import Row
from groundrows.schemas.tables import TABLES

Column = dict[str, Any]
"""A column as BigQuery's REST interface has it: `name`, `type`, `mode`; some also `description`, `fields`."""

_TYPES = {
    "string": "STRING",
    "bytes": "BYTES",
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "INTEGER",
    "float": "FLOAT",
    "double": "FLOAT",
}

_Convert = Callable[[Any], Any]


def columns(schema: Mapping[str, Any]) -> list[Column]:
    """The columns of a record as fastavro parsed it, in its order.

    Raises:
        ValueError: A type that no table here has, such as a union of two types beside null.
    """
    return [_column(field["name"], field["type"], field.get("doc")) for field in schema["fields"]]


def table_schema(table: str) -> dict[str, list[Column]]:
    """A table's schema as BigQuery takes it."""
    return {"fields": columns(TABLES[table].schema)}


def table_layout(table: str) -> dict[str, Any]:
    """How BigQuery lays a table out: a partition for each day of its time column; clustered."""
    declared = TABLES[table]
    by_time = {"type": "DAY", "field": declared.time_column}
    return {"timePartitioning": by_time, "clustering": {"fields": list(declared.clustered_by)}}


def merged(there: Sequence[Column], ours: Sequence[Column], within: str = "") -> list[Column]:
    """The columns of a table that exists, with those of ours that it lacks at the end.

    Columns that somebody else added stay; a column that was relaxed to NULLABLE does too.

    Raises:
        ShapeError: One of ours is there with another type or mode, or can't be added.
    """
    by_name = {column["name"].lower(): column for column in there}
    found: list[Column] = [dict(column) for column in there]
    for column in ours:
        name = f"{within}{column['name']}"
        known = by_name.get(column["name"].lower())
        if known is None:
            if column["mode"] == "REQUIRED":
                raise ShapeError(
                    f"its column {name} is missing, and one that is always filled can't be added"
                )
            found.append(column)
            continue
        _check_same(name, known, column)
        if column["type"] == "RECORD":
            index = there.index(known)
            found[index]["fields"] = merged(known["fields"], column["fields"], f"{name}.")
    return found


def check_layout(there: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Check that a table is partitioned and clustered as ours; a load would be refused at its end.

    Args:
        there: The table as BigQuery describes it.
        ours: What `table_layout` says.

    Raises:
        ShapeError: It is not.
    """
    partitioned = there.get("timePartitioning", {})
    wanted = ours["timePartitioning"]
    if any(partitioned.get(name) != wanted.get(name) for name in ("type", "field")):
        raise ShapeError(f"it should have a partition for each day of {wanted['field']}")
    clustered_by = ours["clustering"]["fields"]
    if there.get("clustering", {}).get("fields") != clustered_by:
        raise ShapeError(f"it should be clustered by {', '.join(clustered_by)}")


def row_dict(row: Row) -> dict[str, Any]:
    """A row as a dictionary in the shape of its table's columns; times stay datetimes, bytes stay bytes."""
    converted: dict[str, Any] = _row_converter(row.TABLE)(row)
    return converted


def json_row(row: Row) -> dict[str, Any]:
    """The same as JSON, as BigQuery takes rows that are inserted: bytes in base64, times as text."""
    converted: dict[str, Any] = _json_value(row_dict(row))
    return converted


def row_id(table: str, row: Mapping[str, Any]) -> str:
    """What a row, a dictionary, shares with itself delivered once more, and with no other of its table."""
    return "/".join(str(row[column]) for column in TABLES[table].key)


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json_value(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_json_value(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else value


def _column(name: str, kind: Any, doc: str | None) -> Column:
    mode = "REQUIRED"
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        if len(others) != 1 or len(kind) != 2:
            raise ValueError(f"{name} is a union of {kind}: only null and one type make a column")
        mode, kind = "NULLABLE", others[0]
    if isinstance(kind, dict) and kind["type"] in ("array", "map"):
        if mode == "NULLABLE":
            raise ValueError(f"{name} is an array or a map that may be null, which no column can be")
        mode = "REPEATED"
        kind = _entry(kind) if kind["type"] == "map" else kind["items"]
    column: Column = {"name": name, "type": _type(name, kind), "mode": mode}
    if doc is not None:
        column["description"] = doc
    if column["type"] == "RECORD":
        column["fields"] = columns(kind)
    return column


def _entry(kind: Mapping[str, Any]) -> dict[str, Any]:
    fields = [{"name": "key", "type": "string"}, {"name": "value", "type": kind["values"]}]
    return {"type": "record", "fields": fields}


def _type(name: str, kind: Any) -> str:
    if isinstance(kind, dict):
        if kind["type"] == "record":
            return "RECORD"
        if kind.get("logicalType") == "timestamp-micros":
            return "TIMESTAMP"
        if "logicalType" not in kind and isinstance(kind["type"], str):
            kind = kind["type"]
    if isinstance(kind, str) and kind in _TYPES:
        return _TYPES[kind]
    raise ValueError(f"{name} is of type {kind}, which no column is made for")


_NAMES = {"BOOL": "BOOLEAN", "INT64": "INTEGER", "FLOAT64": "FLOAT", "STRUCT": "RECORD"}


def _check_same(name: str, there: Column, ours: Column) -> None:
    kind = _NAMES.get(there["type"], there["type"])
    if kind != ours["type"]:
        raise ShapeError(f"its column {name} is {kind} and should be {ours['type']}")
    mode = there.get("mode") or "NULLABLE"
    relaxed = mode == "NULLABLE" and ours["mode"] == "REQUIRED"
    if mode != ours["mode"] and not relaxed:
        raise ShapeError(f"its column {name} is {mode} and should be {ours['mode']}")


def _converter(kind: Any) -> _Convert | None:
    """What brings a value into its column's shape, or None when it has it already; built once."""
    if isinstance(kind, list):
        inner = _converter(next(one for one in kind if one != "null"))
        return None if inner is None else lambda value: None if value is None else inner(value)
    if not isinstance(kind, dict):
        return None
    match kind["type"]:
        case "array":
            item = _converter(kind["items"])
            return list if item is None else lambda value: [item(one) for one in value]
        case "map":
            held = _converter(kind["values"]) or _as_it_is
            return lambda value: [{"key": key, "value": held(one)} for key, one in value.items()]
        case "record":
            return _record_converter(kind)
    return None


def _as_it_is(value: Any) -> Any:
    return value


def _record_converter(kind: Mapping[str, Any]) -> _Convert:
    fields = [(field["name"], _converter(field["type"])) for field in kind["fields"]]

    def convert(value: Any) -> dict[str, Any]:
        return {
            name: getattr(value, name) if inner is None else inner(getattr(value, name))
            for name, inner in fields
        }

    return convert


@cache
def _row_converter(table: str) -> _Convert:
    return _record_converter(TABLES[table].schema)
