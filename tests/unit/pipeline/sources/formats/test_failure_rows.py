from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import fastavro
import pytest

from groundrows.pipeline.sources.formats.failure_rows import history_line, read_failure_rows
from groundrows.schemas.record import Record
from groundrows.schemas.tables import TABLES

ROW: dict[str, Any] = {
    "run_id": "r",
    "question_id": "q",
    "turn_index": 0,
    "failure_id": "f",
    "stage": "generate",
    "code": "UNAVAILABLE",
    "message": "It was unavailable.",
    "retryable": True,
    "attempts": 5,
    "origin": "a.csv:7",
    "record": b'{"question": "Why?"}',
    "failed_at": datetime(2026, 11, 29, 20, 0, 0, 999_999, tzinfo=UTC),
    "metadata": None,
    "generation": 0,
    "history": [],
}
LINE = "2026-11-29T20:00:00Z generate UNAVAILABLE after 5 attempts"


def avro(schema: Any, *rows: dict[str, Any]) -> io.BytesIO:
    file = io.BytesIO()
    fastavro.writer(file, schema, rows)
    file.seek(0)
    return file


def test_a_row_is_its_record_from_its_first_origin_with_a_line_more_of_history() -> None:
    again = {**ROW, "code": "INTERNAL", "attempts": 1, "generation": 1, "history": [LINE]}
    assert list(read_failure_rows(avro(TABLES["failures"].schema, ROW, again), "failures.avro")) == [
        Record(ROW["record"], "a.csv:7", (LINE,)),
        Record(ROW["record"], "a.csv:7", (LINE, "2026-11-29T20:00:00Z generate INTERNAL after 1 attempt")),
    ]


def test_times_are_in_utc() -> None:
    moment = ROW["failed_at"].astimezone(timezone(timedelta(hours=-7)))
    assert history_line({**ROW, "failed_at": moment}) == LINE


def test_rows_of_a_version_without_history_are_read() -> None:
    schema = {
        "type": "record",
        "name": "groundrows.failures",
        "fields": [
            {"name": field["name"], "type": field["type"]}
            for field in TABLES["failures"].schema["fields"]
            if field["name"] not in ("history", "generation")
        ],
    }
    (record,) = read_failure_rows(avro(schema, ROW), "failures.avro")
    assert record == Record(ROW["record"], "a.csv:7", (LINE,))


def test_another_table_is_refused() -> None:
    schema = {
        "type": "record",
        "name": "groundrows.failures",
        "fields": [{"name": "run_id", "type": "string"}],
    }
    with pytest.raises(Exception, match="question_id"):
        list(read_failure_rows(avro(schema, {"run_id": "r"}), "x.avro"))
