"""Rows made up for tests of what is done with rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime
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

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)

_ANSWER = AnswerRow(
    run_id="run",
    question_id="q",
    turn_index=0,
    answer_id="a",
    candidate_index=0,
    question="Why?",
    answer_text="Because.",
    role="model",
    grounding_score=0.5,
    support_coverage=0.25,
    claim_count=0,
    supported_claim_count=0,
    chunk_count=0,
    web_search_queries=(),
    search_suggestions_html=None,
    search_sdk_blob=None,
    retrieval=(),
    images=(),
    videos=(),
    model_id=None,
    api_version="v1",
    streamed=False,
    attempts=1,
    latency_ms=100.0,
    first_part_ms=None,
    asked_at=NOON,
    answered_at=NOON,
    from_ledger=False,
    uris_expire_at=None,
    warnings=(),
    metadata=None,
    request_json="{}",
    response_json=None,
)
_CHECK = GroundingCheckRow(
    run_id="run",
    question_id="q",
    turn_index=0,
    answer_id="a",
    candidate_index=0,
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
    asked_at=NOON,
    checked_at=NOON,
    from_ledger=False,
    warnings=(),
    metadata=None,
    request_json="{}",
    response_json=None,
)
_CHUNK = SupportChunkRow(
    run_id="run",
    question_id="q",
    turn_index=0,
    answer_id="a",
    candidate_index=0,
    answered_at=NOON,
    chunk_index=0,
    chunk_text="It is so because.",
    source="0",
    uri="https://why.test",
    title=None,
    domain=None,
    document_id=None,
    page_identifier=None,
    source_metadata={},
    index_in_stream=None,
    uris_expire_at=None,
)
_FAILURE = FailureRow(
    run_id="run",
    question_id="q",
    turn_index=0,
    failure_id="f",
    stage="generate",
    code="UNAVAILABLE",
    message="Away.",
    retryable=True,
    attempts=1,
    origin="a.jsonl:1",
    record=b"{}",
    failed_at=NOON,
    metadata=None,
    generation=0,
    history=(),
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
