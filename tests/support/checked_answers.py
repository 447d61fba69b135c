"""Answers that are to be checked, made without a service."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from groundrows.schemas.discoveryengine.messages import request_class, response_class
from groundrows.schemas.outcome import Answer, Failure, Outcome
from groundrows.schemas.question import Question

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
TIN, IRON = "Tin melts at 232 degrees.", "Iron boils at 2862 degrees."


def asked(question_id: str = "q1", **changes: Any) -> Question:
    message = request_class("v1")()
    message.contents.add(role="user").parts.add(text="When do metals melt?")
    question = Question(
        question_id=question_id,
        turns=("When do metals melt?", "And lead?"),
        request=message.SerializeToString(deterministic=True),
        api_version="v1",
        user_context=None,
        metadata='{"team": "metals"}',
        record=b'{"question": "When do metals melt?"}',
        origin=f"metals.jsonl:{question_id}",
        history=("yesterday: UNAVAILABLE",),
    )
    return dataclasses.replace(question, **changes)


def candidate_of(message: Any, text: str = f"{TIN} {IRON}", chunks: tuple[str, ...] = (TIN, IRON)) -> Any:
    candidate = message.candidates.add()
    candidate.content.parts.add(text=text)
    for chunk in chunks:
        candidate.grounding_metadata.support_chunks.add(chunk_text=chunk)
    return candidate


def response_with(**fields: Any) -> Any:
    message = response_class("v1")()
    candidate_of(message, **fields)
    return message


def answered(*responses: Any, question: Question | None = None, failure: Failure | None = None) -> Outcome:
    question = question or asked()
    answers = tuple(
        Answer(
            turn_index=turn,
            request=question.request,
            response=message if isinstance(message, bytes) else message.SerializeToString(),
            api_version="v1",
            streamed=False,
            attempts=1,
            latency_ms=1.0,
            asked_at=NOON,
            answered_at=NOON,
            from_ledger=False,
        )
        for turn, message in enumerate(responses)
    )
    return Outcome(question, answers, failure, None, (), len(answers))
