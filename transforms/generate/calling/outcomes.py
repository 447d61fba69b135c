"""Makes the outcome of a question: answered, failed or skipped."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from groundrows.schemas.codes import INTERNAL_ERROR, NOT_ATTEMPTED
from groundrows.schemas.errors import CallError
from groundrows.schemas.outcome import Answer, Failure, Outcome, Skip
from groundrows.schemas.question import Question
from groundrows.schemas.spending import NOTHING
from groundrows.transforms.generate.calling.attempts import GaveUp
from groundrows.transforms.generate.calling.fares import Fare
from groundrows.transforms.generate.calling.job import Job

_LOGGER = logging.getLogger(__name__)


def skipped(question: Question, skip: Skip) -> Outcome:
    """Return the outcome of a question that is not asked."""
    return Outcome(question, (), None, skip, (), 0)


def outcome_of(
    job: Job,
    answers: tuple[Answer, ...],
    failure: Failure | None,
    retry_codes: tuple[str, ...],
    calls: int,
    fare: Fare | None = None,
) -> Outcome:
    """Return a job's outcome. Of turns that have rows already, it has only the unchecked answers."""
    skip: Skip | None = "already_answered" if job.is_delivered else None
    model, spent = ("", NOTHING) if fare is None else (fare.model, fare.spent)
    return Outcome(
        job.question, tuple(_of_use(job, answers)), failure, skip, retry_codes, calls, model, spent
    )


def _of_use(job: Job, answers: tuple[Answer, ...]) -> Iterator[Answer]:
    for answer in answers:
        unchecked = job.delivered.get(answer.turn_index)
        if unchecked is None:
            yield answer
        elif unchecked and answer.from_ledger:
            # A fresh answer is not used: it was only asked for the history and may differ from the rows'.
            yield replace(answer, unchecked=unchecked)


def out_of_reach(job: Job, outcome: Outcome) -> int:
    """Return the number of unchecked answers that can't be checked, because the ledger lacks them."""
    wanted = sum(len(unchecked) for unchecked in job.delivered.values())
    return wanted - sum(len(answer.unchecked or ()) for answer in outcome.answers)


def failed(question: Question, turn_index: int, result: GaveUp) -> Failure:
    """Return the failure of a question whose turn got no response."""
    return Failure(
        question_id=question.question_id,
        turn_index=turn_index,
        stage="generate",
        code=result.error.code,
        message=result.error.message,
        retryable=result.retryable,
        attempts=result.attempts,
        origin=question.origin,
        record=question.record,
        metadata=question.metadata,
        history=question.history,
    )


def not_attempted(why: str) -> GaveUp:
    """Return the result of a turn for which no call was made."""
    return GaveUp(CallError(NOT_ATTEMPTED, why), True, 0, ())


def internal_error(error: Exception) -> GaveUp:
    """Return the result of a turn that an internal error ended.

    The error's message may contain the prompt, so only its class is shown.
    """
    what = type(error).__name__
    _LOGGER.error("A question failed by an internal error: %s", what)
    message = f"an internal error while calling ({what}); please report it"
    return GaveUp(CallError(INTERNAL_ERROR, message), True, 0, ())
