"""Rows of the failures table as the records they hold, to be asked again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any, BinaryIO

import fastavro

from groundrows.pipeline.sources.formats.items import Item
from groundrows.schemas.record import Record
from groundrows.schemas.tables import TABLES


def read_failure_rows(stream: BinaryIO, path: str) -> Iterator[Item]:
    """Yield the record of each row, from where it first came from, with this failure added to its history.

    Files of earlier versions, which know no history, are read too.

    Raises:
        Exception: fastavro's, of many types, when the file is not Avro, is corrupt, or is another table's.
    """
    for row in fastavro.reader(stream, reader_schema=TABLES["failures"].schema):
        yield Record(row["record"], row["origin"], (*row["history"], history_line(row)))


def history_line(row: Mapping[str, Any]) -> str:
    """One failure in a line: `2026-11-29T20:00:00Z generate UNAVAILABLE after 5 attempts`."""
    when = row["failed_at"].astimezone(UTC)
    attempts = "1 attempt" if row["attempts"] == 1 else f"{row['attempts']} attempts"
    return f"{when:%Y-%m-%dT%H:%M:%SZ} {row['stage']} {row['code']} after {attempts}"
