"""The Avro schemas of the tables: the `.avsc` files beside this module."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import fastavro

DIRECTORY: Traversable = resources.files("groundrows.schemas")


@cache
def schema_of(table: str) -> dict[str, Any]:
    """A table's Avro schema as fastavro parsed it, which is what a writer takes. Every field has a `doc`.

    Raises:
        FileNotFoundError: No `.avsc` file has the table's name.
    """
    text = DIRECTORY.joinpath(f"{table}.avsc").read_text(encoding="utf-8")
    parsed: dict[str, Any] = fastavro.parse_schema(json.loads(text))
    return parsed
