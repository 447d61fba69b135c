"""Rows made up for tests of what is done with rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastavro

from groundrows.schemas.rows import (
    AnswerRow,
    CitedChunk,
    FailureRow,
    GroundingCheckRow,
    Row,
    SupportChunkRow,
)
from groundrows.schemas.tables import TABLES
from tests.support.read_back import as_read
from tests.support.table_rows import NOON as NOON
from tests.support.table_rows import row_of

_ANSWER = row_of(
    AnswerRow,
    run_id="run",
    question_id="q",
    answer_id="a",
    question="Why?",
    answer_text="Because.",
    role="model",
    grounding_score=0.5,
    support_coverage=0.25,
    api_version="v1",
    attempts=1,
    latency_ms=100.0,
    request_json="{}",
)
_CHECK = row_of(
    GroundingCheckRow,
    run_id="run",
    question_id="q",
    answer_id="a",
    check_id="c",
    claim_index=0,
    claim_text="Because.",
    claim_start=0,
    claim_end=8,
    grounding_check_required=True,
    claim_score=0.75,
    support_score=0.5,
    citation_threshold=0.6,
    citations=(CitedChunk(0, "It is so because.", "0", "https://why.test", None, None, {}, None),),
    cited_chunk_count=1,
    answer_text="Because.",
    api_version="v1",
    attempts=1,
    latency_ms=100.0,
    request_json="{}",
)
_CHUNK = row_of(
    SupportChunkRow,
    run_id="run",
    question_id="q",
    answer_id="a",
    chunk_text="It is so because.",
    source="0",
    uri="https://why.test",
)
_FAILURE = row_of(
    FailureRow,
    run_id="run",
    question_id="q",
    failure_id="f",
    stage="generate",
    code="UNAVAILABLE",
    message="Away.",
    retryable=True,
    attempts=1,
    origin="a.jsonl:1",
    record=b"{}",
)


def answer(**changes: Any) -> AnswerRow:
    return dataclasses.replace(_ANSWER, **changes)


def grounding_check(**changes: Any) -> GroundingCheckRow:
    return dataclasses.replace(_CHECK, **changes)


def chunk(**changes: Any) -> SupportChunkRow:
    return dataclasses.replace(_CHUNK, **changes)


def failure(**changes: Any) -> FailureRow:
    return dataclasses.replace(_FAILURE, **changes)


def write_rows(path: Path, rows: Iterable[Row], table: str = "answers") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, TABLES[table].schema, [as_read(row) for row in rows])
    return path
