"""A response of either method, as the client hands it on, and the rows it becomes."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

from groundrows.schemas.discoveryengine.check import check_request
from groundrows.schemas.discoveryengine.messages import ApiVersion, request_class, response_class
from groundrows.schemas.discoveryengine.request import with_location
from groundrows.schemas.outcome import Answer, Outcome
from groundrows.schemas.question import Question
from groundrows.schemas.rows import Row
from groundrows.schemas.service import Method
from groundrows.transforms.check import AnswerCheck
from groundrows.transforms.rows.flatten import FlattenSettings, flatten
from groundrows.transforms.rows.flatten_checks import flatten_check
from tests.support.read_back import as_read, read_back

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
LOCATION = "projects/p/locations/global"
FACTS = [("Tin melts at 232 °C.", {"title": "Tin"}), ("Iron melts at 1538 °C.", {})]
ANSWER_TEXT = "Tin melts at 232 °C. Iron melts at 1538 °C."


def response_of(version: ApiVersion, method: Method = "generate") -> Any:
    return response_class(version, method)()


def question_of(version: ApiVersion, method: Method, answer_text: str = ANSWER_TEXT) -> Question:
    if method == "check":
        request = check_request(version, answer_text, FACTS, 0.6)
    else:
        message = request_class(version)()
        message.contents.add(role="user").parts.add(text="When do metals melt?")
        request = message.SerializeToString(deterministic=True)
    return Question(
        question_id="q1",
        turns=(answer_text if method == "check" else "When do metals melt?",),
        request=request,
        api_version=version,
        user_context=None,
        metadata=None,
        record=b"{}",
        origin="metals.jsonl:7",
        method=method,
    )


def of_an_answer(question: Question, chunk_indices: tuple[int, ...] = (0, 1)) -> AnswerCheck:
    """The same check, as one that follows an answer."""
    fields = {field.name: getattr(question, field.name) for field in dataclasses.fields(question)}
    return AnswerCheck(**fields | {"question_id": "a1"}, answered_id="q1", chunk_indices=chunk_indices)


def answer_to(question: Question, response: Any, **changes: Any) -> Answer:
    received = response if isinstance(response, bytes) else response.SerializeToString()
    answer = Answer(
        turn_index=0,
        request=with_location(question.request, question.api_version, LOCATION, question.method),
        response=received,
        api_version=question.api_version,
        streamed=False,
        attempts=1,
        latency_ms=812.5,
        asked_at=NOON,
        answered_at=NOON + timedelta(seconds=1),
        from_ledger=False,
        method=question.method,
    )
    return dataclasses.replace(answer, **changes)


def rows_of(question: Question, response: Any, *, keep_response: bool = False, **changes: Any) -> list[Row]:
    """The rows of one response, each of which was written and read back."""
    outcome = Outcome(question, (answer_to(question, response, **changes),), None, None, (), 1)
    settings = FlattenSettings("run-1", keep_response=keep_response)
    rows = list(
        flatten_check(outcome, settings) if question.method == "check" else flatten(outcome, settings)
    )
    for row in rows:
        assert read_back(row) == as_read(row)
    return rows
