"""Rows of every table, of which a test names only the columns it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from groundrows.schemas.rows import (
    AnswerRow,
    ClaimSupportRow,
    FailureRow,
    GroundingCheckRow,
    Row,
    SupportChunkRow,
)
from groundrows.schemas.tables import TABLES

R = TypeVar("R", bound=Row)
NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
_PLAIN: dict[str, Any] = {"string": "", "bytes": b"", "boolean": False, "int": 0, "long": 0, "double": 0.0}


def later(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def answer(**columns: Any) -> AnswerRow:
    return row_of(AnswerRow, **columns)


def chunk(**columns: Any) -> SupportChunkRow:
    return row_of(SupportChunkRow, **columns)


def claim(**columns: Any) -> ClaimSupportRow:
    return row_of(ClaimSupportRow, **columns)


def check(**columns: Any) -> GroundingCheckRow:
    return row_of(GroundingCheckRow, **columns)


def failure(**columns: Any) -> FailureRow:
    return row_of(FailureRow, **columns)


def row_of(kind: type[R], **columns: Any) -> R:
    """A row of any table: what is not given is null or empty."""
    empty = {field["name"]: _empty(field["type"]) for field in TABLES[kind.TABLE].schema["fields"]}
    return kind(**{**empty, **columns})


def _empty(kind: Any) -> Any:
    if isinstance(kind, list):
        return None
    if isinstance(kind, str):
        return _PLAIN[kind]
    if kind.get("logicalType") == "timestamp-micros":
        return NOON
    return {"array": (), "map": {}}[kind["type"]]
