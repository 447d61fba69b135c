"""Outcome → rows: the answers with their support chunks and claims, or why there is none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from groundrows.schemas import ids
from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.jsontext import compact_json, writable
from groundrows.schemas.outcome import Answer, Failure, Outcome, Skip
from groundrows.schemas.question import Question
from groundrows.schemas.response import Response
from groundrows.schemas.rows import AnswerRow, ClaimSupportRow, FailureRow, Row, SupportChunkRow
from groundrows.schemas.service import service_of
from groundrows.schemas.tables import tables_made_by
from groundrows.transforms.counters import (
    ALREADY_ANSWERED,
    ANSWER_CHARACTERS,
    ANSWERED,
    DUPLICATES,
    FAILED,
    QUESTION_CHARACTERS,
    RECORDS,
    TALLY,
    failures_by_code,
)
from groundrows.transforms.rows.answer_rows import Turn, candidate_rows


def utc_now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class FlattenSettings:
    """What rows hold beside what the outcome says.

    Attributes:
        run_id: The id of this run.
        keep_response: Whether answers carry the whole response as JSON.
        now: Gives a failure row's `failed_at`, an aware datetime.
    """

    run_id: str
    keep_response: bool = False
    now: Callable[[], datetime] = utc_now


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one outcome, by table.

    Attributes:
        answered: Whether the question counts as answered: every turn has a candidate. It is failed when there
            is a failure row (one at most), and was skipped when it is neither.
    """

    answers: tuple[AnswerRow, ...]
    support_chunks: tuple[SupportChunkRow, ...]
    claim_supports: tuple[ClaimSupportRow, ...]
    failures: tuple[FailureRow, ...]
    answered: bool

    def __iter__(self) -> Iterator[Row]:
        """Every row, table by table."""
        yield from self.answers
        yield from self.support_chunks
        yield from self.claim_supports
        yield from self.failures


def flatten(outcome: Outcome, settings: FlattenSettings) -> Rows:
    """Return the rows of one outcome: none when it was skipped, whatever the service sent.

    Answers whose rows an earlier run wrote, and which are here to be checked, have none either.
    A question that failed has the rows of the turns that were answered and one failure row. A response
    without candidates, or one that does not decode, is a failure too, of stage `flatten`. Where several turns
    failed the first one is kept, as it is why the others did.
    """
    answers: list[AnswerRow] = []
    chunks: list[SupportChunkRow] = []
    claims: list[ClaimSupportRow] = []
    failure: Failure | None = None
    for answer in outcome.answers:
        if answer.unchecked is not None:
            continue
        try:
            response, turn = _read(outcome.question, answer, settings)
        except UndecodableError:
            failure = failure or undecodable(outcome.question, answer)
            continue
        if not response.candidates:
            failure = failure or unanswered(outcome.question, answer, response)
            continue
        for candidate in response.candidates:
            answer_row, chunk_rows, claim_rows = candidate_rows(turn, candidate)
            answers.append(answer_row)
            chunks += chunk_rows
            claims += claim_rows
    failure = failure or outcome.failure
    return Rows(
        answers=tuple(answers),
        support_chunks=tuple(chunks),
        claim_supports=tuple(claims),
        failures=() if failure is None else (failure_row(failure, settings),),
        answered=failure is None and outcome.skip is None,
    )


def failure_row(failure: Failure, settings: FlattenSettings) -> FailureRow:
    """Return the row of a failure. Lone surrogates, as in odd file names, are written as escapes."""
    return FailureRow(
        run_id=settings.run_id,
        question_id=writable(failure.question_id),
        turn_index=failure.turn_index,
        failure_id=ids.failure_id(
            failure.question_id, failure.turn_index, failure.stage, failure.code, failure.origin
        ),
        stage=failure.stage,
        code=writable(failure.code),
        message=writable(failure.message),
        retryable=failure.retryable,
        attempts=failure.attempts,
        origin=writable(failure.origin),
        record=failure.record,
        failed_at=settings.now(),
        metadata=None if failure.metadata is None else writable(failure.metadata),
        generation=len(failure.history),
        history=tuple(writable(line) for line in failure.history),
    )


class FlattenOutcomes(beam.PTransform):
    """PCollection of `Outcome` → PCollection of `Rows`: all rows of an outcome as one element.

    Every outcome counts once, in the namespace `RECORDS`. Passing rows on one by one costs Beam as much
    as making them, so a sink for all tables takes them from here; `FlattenAnswers` sorts them by table.
    """

    def __init__(self, settings: FlattenSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, outcomes: beam.PCollection[Outcome]) -> beam.PCollection[Rows]:
        """Return the rows, an element an outcome."""
        return outcomes | beam.ParDo(_FlattenFn(self._settings))


class FlattenAnswers(beam.PTransform):
    """PCollection of `Outcome` → a PCollection of rows per table: `rows["answers"]`, `rows["failures"]` …

    Every outcome counts once, in the namespace `RECORDS`.
    """

    def __init__(self, settings: FlattenSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, outcomes: beam.PCollection[Outcome]) -> Any:
        """Return the tagged outputs, one for each table that outcomes of questions have rows for."""
        return (
            outcomes
            | FlattenOutcomes(self._settings)
            | "ByTable" >> beam.FlatMap(_by_table).with_outputs(*tables_made_by("outcomes"))
        )


class FailureRows(beam.PTransform):
    """PCollection of `Failure`, of records that never became a question → PCollection of `FailureRow`.

    Every failure counts once, in the namespace `RECORDS`.
    """

    def __init__(self, run_id: str, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__()
        self._settings = FlattenSettings(run_id, now=now)

    def expand(self, failures: beam.PCollection[Failure]) -> beam.PCollection[FailureRow]:
        """Return the failures as rows."""
        return failures | beam.ParDo(_FailureFn(self._settings))


class OutcomeCounters:
    """Counts outcomes, each once: by what became of it, and a failure by its code, too.

    Args:
        namespace: `RECORDS` or `CHECKS`.
        done: Name of the counter of those that went well.
    """

    def __init__(self, namespace: str, done: str = ANSWERED) -> None:
        self._namespace = namespace
        self._done = Metrics.counter(namespace, done)
        self._failed = Metrics.counter(namespace, FAILED)
        self._skipped: dict[Skip, Any] = {
            "duplicate": Metrics.counter(namespace, DUPLICATES),
            "already_answered": Metrics.counter(namespace, ALREADY_ANSWERED),
        }

    def count(self, is_done: bool, failures: Sequence[FailureRow], skip: Skip | None) -> None:
        """Count one outcome."""
        if is_done:
            self._done.inc()
        elif failures:
            self._failed.inc()
            Metrics.counter(failures_by_code(self._namespace), failures[0].code).inc()
        elif skip is not None:
            self._skipped[skip].inc()


class _FlattenFn(beam.DoFn):
    def __init__(self, settings: FlattenSettings) -> None:
        self._settings = settings
        self._counters = OutcomeCounters(RECORDS)
        self._asked = Metrics.counter(RECORDS, QUESTION_CHARACTERS)
        self._answered = Metrics.counter(RECORDS, ANSWER_CHARACTERS)

    def process(self, outcome: Outcome) -> tuple[Rows]:
        rows = flatten(outcome, self._settings)
        self._counters.count(rows.answered, rows.failures, outcome.skip)
        for row in rows.answers:
            # The service does not say how many tokens it counted; this is what there is to reckon from.
            self._asked.inc(len(row.question))
            self._answered.inc(len(row.answer_text))
        return (rows,)


def _by_table(rows: Rows) -> Iterator[Any]:
    for row in rows:
        yield beam.pvalue.TaggedOutput(row.TABLE, row)


class _FailureFn(beam.DoFn):
    def __init__(self, settings: FlattenSettings) -> None:
        self._settings = settings
        self._counters = OutcomeCounters(RECORDS)

    def process(self, failure: Failure) -> Iterable[FailureRow]:
        row = failure_row(failure, self._settings)
        self._counters.count(False, (row,), None)
        TALLY.broken += 1
        yield row


def undecodable(question: Question, answer: Answer) -> Failure:
    """Return the failure of a question whose request or response is no message of its version."""
    return _no_answer(question, answer, "UNDECODABLE_RESPONSE")


_PROBLEMS = {
    "NO_CANDIDATES": (
        "The response to turn {turn} holds no candidate, so there is no answer; word the question "
        "differently: asked again as it is, it gets the stored response."
    ),
    "UNDECODABLE_RESPONSE": (
        "The request or response stored for turn {turn} is no valid {version} message; ask again without the "
        "ledger that holds it."
    ),
}


def unanswered(question: Question, answer: Answer, response: Response) -> Failure:
    """Return the failure of a question whose response answers nothing, with the reason that was given."""
    why = response.unanswered
    if why is None:
        return _no_answer(question, answer, "NO_CANDIDATES")
    return _failure(question, answer, why.code, why.message, retryable=why.retryable)


def _no_answer(question: Question, answer: Answer, code: str) -> Failure:
    message = _PROBLEMS[code].format(turn=answer.turn_index, version=answer.api_version)
    return _failure(question, answer, code, message, retryable=False)


def _failure(question: Question, answer: Answer, code: str, message: str, *, retryable: bool) -> Failure:
    return Failure(
        question_id=question.question_id,
        turn_index=answer.turn_index,
        stage="flatten",
        code=code,
        message=message,
        retryable=retryable,
        attempts=answer.attempts,
        origin=question.origin,
        record=question.record,
        metadata=question.metadata,
        history=question.history,
    )


def _read(question: Question, answer: Answer, settings: FlattenSettings) -> tuple[Response, Turn]:
    service = service_of(answer.service, answer.api_version)
    response = service.read(answer, keep=settings.keep_response)
    asked = service.asked(answer.request)
    request_json = asked.request_json
    if question.user_context is not None:  # sent beside the message, which has no field for it
        request_json = compact_json(
            {**json.loads(request_json), "userContext": json.loads(question.user_context)}
        )
    return response, Turn(
        question=question,
        answer=answer,
        run_id=settings.run_id,
        model_id=asked.model_id,
        asked_google=asked.asks_google,
        request_json=request_json,
        response_json=response.json,
        warnings=response.warnings,
        usage=response.usage,
        model_version=response.model_version,
        response_id=response.response_id,
    )
