"""The tables that a run writes, each declared once.

Everything that deals with all tables iterates `TABLES`: the directories under `--output`, the sinks, the
accounting, BigQuery's tables and the views over them, the report, the released schemas, the reference page,
and the rows that tests make up. CONTRIBUTING.md shows how to add a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from groundrows.schemas.avsc import schema_of
from groundrows.schemas.rows import (
    AnswerRow,
    ClaimSupportRow,
    FailureRow,
    GroundingCheckRow,
    Row,
    SupportChunkRow,
)

Maker = Literal["outcomes", "checks", "records"]
"""What makes rows: outcomes of questions, checks of answers, and records that never became a question."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        row: The class of its rows, whose fields are the columns. It names the table, as `TABLE`.
        key: The columns that tell a row from every other one, except from repetitions of the same row.
        time_column: When the row came about. BigQuery has a partition for each day of it.
        made_by: What makes its rows.
        clustered_by: The columns by which BigQuery keeps similar rows together.
    """

    row: type[Row]
    key: tuple[str, ...]
    time_column: str
    made_by: frozenset[Maker]
    clustered_by: tuple[str, ...] = ("question_id",)

    @property
    def name(self) -> str:
        """Its name, which is also that of its directory under `--output` and of BigQuery's table."""
        return self.row.TABLE

    @property
    def schema(self) -> dict[str, Any]:
        """Its Avro schema, from the `.avsc` file of its name."""
        return schema_of(self.name)


_ANSWER_KEY = ("answer_id", "answered_at")
_OUTCOMES = frozenset[Maker](("outcomes",))
_CHECKS = frozenset[Maker](("checks",))
_ALL = frozenset[Maker](("outcomes", "checks", "records"))
_DECLARED = {
    table.name: table
    for table in (
        Table(AnswerRow, _ANSWER_KEY, "answered_at", _OUTCOMES),
        Table(SupportChunkRow, (*_ANSWER_KEY, "chunk_index"), "answered_at", _OUTCOMES),
        Table(ClaimSupportRow, (*_ANSWER_KEY, "claim_index", "chunk_index"), "answered_at", _OUTCOMES),
        Table(GroundingCheckRow, ("check_id", "checked_at", "claim_index"), "checked_at", _CHECKS),
        Table(FailureRow, ("failure_id", "run_id"), "failed_at", _ALL),
    )
}

TABLES: Mapping[str, Table] = MappingProxyType(_DECLARED)
"""The tables by name. A table that refers to another one stands after it."""


def tables_made_by(maker: Maker) -> tuple[str, ...]:
    """The names of the tables into which `maker` puts rows."""
    return tuple(name for name, table in TABLES.items() if maker in table.made_by)
