"""What became of a question: the types that travel between the calling and the rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from groundrows.schemas.question import Question
from groundrows.schemas.service import DISCOVERY_ENGINE, Method
from groundrows.schemas.spending import NOTHING, Spent

Stage = Literal["read", "parse", "validate", "generate", "flatten", "check"]
Skip = Literal["duplicate", "already_answered"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to one turn, as the service sent it.

    Attributes:
        turn_index: Which turn of the question this answers, counted from 0.
        request: The request as sent, in the form of `service` in `api_version` for `method`.
        response: The response to it, in the same service's form; it was seen to decode. A streamed response
            looks as if it had come in one.
        api_version: Which version of the service's API it is.
        streamed: Whether the streaming method gave it.
        attempts: Calls that were made for it, the successful one included; 0 when it came from the ledger
            without the count being known.
        latency_ms: Milliseconds of the successful attempt alone.
        asked_at: When the successful attempt left, UTC.
        answered_at: When its response was complete, UTC.
        from_ledger: Whether it was stored by an earlier run and nothing was called for it in this one.
        method: Which method gave it.
        first_part_ms: Milliseconds until the first part of a streamed response was there, else None.
        unread_json: The response's own JSON, where the message could not hold all of it; else None.
        unchecked: For an answer whose rows an earlier run wrote, the ids of its candidates that are yet to be
            checked, which is all that it is here for; None for an answer that is new.
        service: Which service gave it: a name of `SERVICES`.
    """

    turn_index: int
    request: bytes
    response: bytes
    api_version: str
    streamed: bool
    attempts: int
    latency_ms: float
    asked_at: datetime
    answered_at: datetime
    from_ledger: bool
    method: Method = "generate"
    first_part_ms: float | None = None
    unread_json: str | None = None
    unchecked: frozenset[str] | None = None
    service: str = DISCOVERY_ENGINE


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record has no answer. It becomes one row of the `failures` table.

    Attributes:
        question_id: The question's id; for a record too broken to have one, an id derived from its bytes.
        turn_index: The turn that failed, counted from 0.
        stage: Where it failed: `read`, `parse`, `validate`, `generate`, `flatten` or `check`.
        code: A stable name in capitals, such as `INVALID_JSON` or `UNAVAILABLE`.
        message: One sentence for a person: what, where, what to do.
        retryable: Whether asking the same record again may succeed.
        attempts: Calls that were made for the failing turn.
        origin: The record's origin.
        record: The record's bytes, exactly as read.
        metadata: The record's metadata as a JSON object, or None.
        history: The record's history: how it failed before this failure.
    """

    question_id: str
    turn_index: int
    stage: Stage
    code: str
    message: str
    retryable: bool
    attempts: int
    origin: str
    record: bytes
    metadata: str | None
    history: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The one outcome of one question: answered, failed or skipped; never two of them, never none.

    Attributes:
        question: The question asked.
        answers: An `Answer` per turn that got one, in turn order. All turns when the question is answered;
            those before the failing turn when it failed; none when skipped. Of turns that an earlier run
            answered there are only answers that are yet to be checked, in a question that is skipped, too.
        failure: Why the conversation ended early, else None.
        skip: Why nothing was asked at all, else None.
        retry_codes: The status code of every attempt that was followed by another, in order.
        calls: Requests that left for this question in this run, retries included.
        model: The model that they asked; empty where nothing was asked or the service chose it.
        spent: What they took, failed ones included.
    """

    question: Question
    answers: tuple[Answer, ...]
    failure: Failure | None
    skip: Skip | None
    retry_codes: tuple[str, ...]
    calls: int
    model: str = ""
    spent: Spent = NOTHING
