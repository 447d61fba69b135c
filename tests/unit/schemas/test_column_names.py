"""Columns can be named in SQL as they are, without quotes."""

from collections.abc import Iterator
from typing import Any

import pytest

from groundrows.schemas.tables import TABLES

# Words that BigQuery or DuckDB reserve, of those that a column might be called.
RESERVED = {
    *("all", "and", "any", "array", "as", "asc", "at", "between", "by", "case", "cast", "contains", "create"),
    *("cross", "cube", "current", "default", "define", "desc", "distinct", "else", "end", "enum", "escape"),
    *(
        "except",
        "exclude",
        "exists",
        "extract",
        "false",
        "fetch",
        "following",
        "for",
        "from",
        "full",
        "group",
    ),
    *("grouping", "groups", "hash", "having", "if", "ignore", "in", "inner", "intersect", "interval", "into"),
    *("is", "join", "lateral", "left", "like", "limit", "lookup", "merge", "natural", "new", "no", "not"),
    *(
        "null",
        "nulls",
        "of",
        "on",
        "or",
        "order",
        "outer",
        "over",
        "partition",
        "preceding",
        "proto",
        "range",
    ),
    *("recursive", "respect", "right", "rollup", "rows", "select", "set", "some", "struct", "table", "then"),
    *("to", "treat", "true", "unbounded", "union", "unnest", "using", "when", "where", "window", "with"),
}


def names(kind: Any) -> Iterator[str]:
    if isinstance(kind, list):
        for each in kind:
            yield from names(each)
    elif isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield field["name"]
            yield from names(field["type"])
        yield from names(kind.get("items"))
        yield from names(kind["type"] if isinstance(kind.get("type"), dict | list) else None)


@pytest.mark.parametrize("table", TABLES)
def test_no_column_is_a_reserved_word(table: str) -> None:
    found = set(names(TABLES[table].schema))
    assert "run_id" in found
    assert not found & RESERVED
