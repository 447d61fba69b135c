"""The five tables a run writes, and their Avro schemas: the `.avsc` files beside this module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any

import fastavro

TABLES: tuple[str, ...] = ("answers", "support_chunks", "claim_supports", "grounding_checks", "failures")
"""The names of the tables: also of their directories under `--output` and of BigQuery's tables."""


def _load(table: str) -> dict[str, Any]:
    text = resources.files("groundrows.schemas").joinpath(f"{table}.avsc").read_text(encoding="utf-8")
    parsed: dict[str, Any] = fastavro.parse_schema(json.loads(text))
    return parsed


SCHEMAS: Mapping[str, dict[str, Any]] = MappingProxyType({table: _load(table) for table in TABLES})
"""Table name to Avro schema as fastavro parsed it: what a writer takes. Every field carries a `doc`."""
