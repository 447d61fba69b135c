"""Gemini's requests and responses, made up for tests, and the rows that come of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from groundrows.schemas.outcome import Answer, Outcome
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.schemas.response import Candidate, Response
from groundrows.schemas.rows import encode
from groundrows.schemas.service import GEMINI, service_of
from groundrows.transforms.generate.calling.conversation import turn_request
from groundrows.transforms.rows.flatten import FlattenSettings, Rows, flatten

MODEL = "gemini-2.5-flash"
AGENT = "projects/p/locations/global"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def question_of(
    record: dict[str, Any] | None = None, *, api_version: str = "v1beta", **settings: Any
) -> Question:
    fields = {"id": "q", "question": "When does tin melt?"} if record is None else record
    given = {"model": MODEL, **settings}
    return parse_question(
        Record(json.dumps(fields).encode(), "a.jsonl:1"),
        RecordSettings(api_version=api_version, transport="rest", service=GEMINI, **given),
    )


def sent(
    record: dict[str, Any] | None = None, *, api_version: str = "v1beta", location: str = "", **settings: Any
) -> dict[str, Any]:
    """The first request of a record as it goes out: the body, and beside it the model and headers."""
    question = question_of(record, api_version=api_version, **settings)
    envelope: dict[str, Any] = json.loads(turn_request(question, (), location))
    envelope.pop("inline", None)
    return envelope


def response(*parts: str | dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A response of one candidate: its parts, texts or whole, and its grounding metadata."""
    whole = [{"text": part} if isinstance(part, str) else part for part in parts]
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": whole}, "finishReason": "STOP"}
    if metadata:
        candidate["groundingMetadata"] = metadata
    return {"candidates": [candidate]}


def support(text: str, start: int = 0, *cited: int, **segment: Any) -> dict[str, Any]:
    """A support whose offsets are right for a text that starts at a byte."""
    placed = {"startIndex": start, "endIndex": start + len(text.encode()), "text": text, **segment}
    return {"segment": placed, "groundingChunkIndices": list(cited)}


def answer_of(
    body: object, *, record: dict[str, Any] | None = None, api_version: str = "v1beta", **settings: Any
) -> tuple[Question, Answer]:
    """A question and its answer; a body that is bytes stays as it is, and a list is a stream."""
    question = question_of(record, api_version=api_version, **settings)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = Answer(
        turn_index=0,
        request=turn_request(question, (), AGENT if api_version == "v1" else ""),
        response=raw,
        api_version=api_version,
        streamed=raw[:1] == b"[",
        attempts=1,
        latency_ms=1.0,
        asked_at=NOON,
        answered_at=NOON,
        from_ledger=False,
        service=GEMINI,
    )
    return question, answer


def read(body: object, **settings: Any) -> Response:
    _, answer = answer_of(body, **settings)
    return service_of(GEMINI, answer.api_version).read(answer, keep=False)


def candidate_of(body: object, **settings: Any) -> Candidate:
    [candidate] = read(body, **settings).candidates
    return candidate


def rows_of(body: object, **settings: Any) -> Rows:
    """The rows of a response, each of which can be written."""
    question, answer = answer_of(body, **settings)
    rows = flatten(
        Outcome(question, (answer,), None, None, (), 1),
        FlattenSettings("run", keep_response=True, now=lambda: NOON),
    )
    for row in rows:
        encode(row)
    return rows
