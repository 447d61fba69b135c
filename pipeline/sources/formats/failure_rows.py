"""Rows of the failures table as the records they hold, to be asked again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any, BinaryIO

from groundrows.pipeline.sources.formats.items import Item
from groundrows.pipeline.storage.row_formats.known import format_of
from groundrows.schemas.record import Record
from groundrows.schemas.tables import TABLES


def read_failure_rows(stream: BinaryIO, path: str) -> Iterator[Item]:
    """Yield the record of each row, from where it first came from, with this failure added to its history.

    Files of earlier versions, which know no history, are read too.

    Raises:
        Exception: The file is not of the format that its name says, is damaged, or is another table's.
    """
    for row in format_of(path).read(stream, TABLES["failures"].schema):
        yield Record(row["record"], row["origin"], (*row["history"], history_line(row)))


def history_line(row: Mapping[str, Any]) -> str:
    """One failure in a line: `2026-11-29T20:00:00Z generate UNAVAILABLE after 5 attempts`."""
    when = row["failed_at"].astimezone(UTC)
    attempts = "1 attempt" if row["attempts"] == 1 else f"{row['attempts']} attempts"
    return f"{when:%Y-%m-%dT%H:%M:%SZ} {row['stage']} {row['code']} after {attempts}"
