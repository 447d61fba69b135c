"""Outcome of a check → rows: what it found claim by claim, or why there is nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import apache_beam as beam

from groundrows.schemas import ids
from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.jsontext import writable
from groundrows.schemas.outcome import Answer, Failure, Outcome
from groundrows.schemas.question import Question
from groundrows.schemas.response import CheckResponse
from groundrows.schemas.rows import FailureRow, GroundingCheckRow, Row
from groundrows.schemas.service import check_service_of
from groundrows.transforms.check import AnswerCheck
from groundrows.transforms.counters import CHECKED, CHECKS, RECORDS
from groundrows.transforms.rows.check_rows import Check, check_rows
from groundrows.transforms.rows.flatten import FlattenSettings, OutcomeCounters, failure_row, undecodable


@dataclass(frozen=True, slots=True)
class CheckRows:
    """The rows of one check, by table.

    Attributes:
        checked: Whether the check has a response. It failed when there is a failure row (one at most), and
            was skipped when it is neither.
    """

    grounding_checks: tuple[GroundingCheckRow, ...]
    failures: tuple[FailureRow, ...]
    checked: bool

    def __iter__(self) -> Iterator[Row]:
        """Every row, table by table."""
        yield from self.grounding_checks
        yield from self.failures


def flatten_check(outcome: Outcome, settings: FlattenSettings) -> CheckRows:
    """Return the rows of one check: none when it was skipped, whatever the service sent.

    The question is an `AnswerCheck`, whose rows bear the ids of the answer and of the question it answers; or
    a check that is a record of its own.
    """
    failure = outcome.failure
    rows: list[GroundingCheckRow] = []
    for answer in outcome.answers:  # one at most: a check has one turn
        try:
            response, check = _read(outcome.question, answer, settings)
        except UndecodableError:
            failure = failure or undecodable(outcome.question, answer)
        else:
            rows += check_rows(check, response)
    return CheckRows(
        grounding_checks=tuple(rows),
        failures=() if failure is None else (_failure_row(outcome.question, failure, settings),),
        checked=failure is None and outcome.skip is None,
    )


def _read(question: Question, answer: Answer, settings: FlattenSettings) -> tuple[CheckResponse, Check]:
    service = check_service_of(answer.service, answer.api_version)
    response = service.read_check(answer, question.turns[0], keep=settings.keep_response)
    asked = service.asked_check(answer.request)
    if isinstance(question, AnswerCheck):
        question_id, turn_index = question.answered_id, question.answered_turn
        answer_id, candidate_index = question.question_id, question.candidate_index
        chunk_indices: Sequence[int] = question.chunk_indices
    else:
        question_id, turn_index, candidate_index = question.question_id, 0, 0
        answer_id = ids.answer_id(question_id, answer.request, question.api_version, 0, 0)
        chunk_indices = range(asked.fact_count)
    return response, Check(
        run_id=settings.run_id,
        question=question,
        answer=answer,
        question_id=question_id,
        turn_index=turn_index,
        answer_id=answer_id,
        candidate_index=candidate_index,
        check_id=ids.check_id(answer_id, answer.request, question.api_version),
        chunk_indices=chunk_indices,
        citation_threshold=asked.citation_threshold,
        request_json=asked.request_json,
        response_json=response.json,
        warnings=response.warnings,
    )


def _failure_row(question: Question, failure: Failure, settings: FlattenSettings) -> FailureRow:
    if not isinstance(question, AnswerCheck):
        return failure_row(replace(failure, stage="check"), settings)
    # Its id comes from the answer's, as several candidates of a turn may fail in the same way.
    of_answer = replace(
        failure, stage="check", question_id=question.question_id, turn_index=question.answered_turn
    )
    return replace(failure_row(of_answer, settings), question_id=writable(question.answered_id))


class FlattenChecks(beam.PTransform):
    """PCollection of `Outcome` of checks → PCollection of `CheckRows`: all rows of a check as one element.

    Args:
        settings: What rows hold beside what the outcome says.
        alone: Whether the checks are the run's records. Then each outcome counts once in the namespace
            `RECORDS`, as that of any record. Checks that follow an answer are no records: they count in the
            namespace `CHECKS`, as checked, failed, duplicates and already_answered.
    """

    def __init__(self, settings: FlattenSettings, *, alone: bool) -> None:
        super().__init__()
        self._settings = settings
        self._alone = alone

    def expand(self, outcomes: beam.PCollection[Outcome]) -> beam.PCollection[CheckRows]:
        """Return the rows, an element a check."""
        return outcomes | beam.ParDo(_FlattenFn(self._settings, self._alone))


class _FlattenFn(beam.DoFn):
    def __init__(self, settings: FlattenSettings, alone: bool) -> None:
        self._settings = settings
        self._counters = OutcomeCounters(RECORDS) if alone else OutcomeCounters(CHECKS, CHECKED)

    def process(self, outcome: Outcome) -> tuple[CheckRows]:
        rows = flatten_check(outcome, self._settings)
        self._counters.count(rows.checked, rows.failures, outcome.skip)
        return (rows,)
