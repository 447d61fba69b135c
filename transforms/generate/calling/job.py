"""A job: a question with its stored answers and its next request. Also the keys that identify questions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groundrows.schemas.outcome import Answer
from groundrows.schemas.question import Question
from groundrows.schemas.service import service_of
from groundrows.schemas.spending import Need
from groundrows.transforms.generate.calling.answered import Delivered
from groundrows.transforms.generate.calling.attempts import Success
from groundrows.transforms.generate.calling.conversation import is_over, turn_request
from groundrows.transforms.generate.calling.leases import Hold
from groundrows.transforms.generate.ledger.base import Entry, Ledger, entry_key, fingerprint
from groundrows.transforms.generate.settings import CallSettings


@dataclass(frozen=True, slots=True)
class Job:
    """A question that is being asked, with what is known of its turns.

    Attributes:
        ticket: A value of the caller, which comes back with the outcome.
        question: The question.
        answers: The answers so far, from the first turn on without a gap.
        request: The request of the next turn, or of the last turn when nothing is left to ask.
        key: The ledger's key of that turn.
        hold: The lease on that turn, or the wish for one.
        delivered: Turns that have rows from an earlier run, each with its unchecked answers. They are asked
            only when later turns need them as history.
    """

    ticket: Any
    question: Question
    answers: tuple[Answer, ...]
    request: bytes
    key: bytes
    delivered: Delivered
    hold: Hold = field(compare=False)

    @property
    def is_delivered(self) -> bool:
        """Whether all of its turns have rows, so that no call may be made for it."""
        return len(self.delivered) == len(self.question.turns)


def next_job(
    ticket: Any,
    question: Question,
    answers: tuple[Answer, ...],
    delivered: Delivered,
    settings: CallSettings,
) -> Job:
    """Return the job that asks the turn after `answers`. There must be such a turn."""
    request = turn_request(question, answers, settings.location)
    # With --share_identical, equal requests of different questions have the same key.
    name = "" if settings.share_identical else question.question_id
    key = entry_key(
        name,
        len(answers),
        fingerprint(
            request,
            question.api_version,
            method=question.method,
            streamed=_streamed(question, settings),
            user_context=question.user_context,
            service=question.service,
        ),
    )
    return Job(ticket, question, answers, request, key, delivered, Hold(key))


def _streamed(question: Question, settings: CallSettings) -> bool:
    return settings.stream_answers and question.method == "generate"


def model_of(job: Job) -> str:
    """The model that a job's request asks for; empty when it leaves the choice to the service."""
    if job.question.method == "check":
        return ""
    return service_of(job.question.service, job.question.api_version).model_of(job.request)


def need_of(job: Job) -> Need | None:
    """What a job's request may take; None where the service does not report it."""
    if job.question.method == "check":
        return None
    return service_of(job.question.service, job.question.api_version).need(job.request)


def question_key(question: Question) -> bytes:
    """Return the key of a question. Records with the same ID, turns and request have the same key."""
    asked = question.request + "\0".join(question.turns).encode()
    if question.instructions:
        asked += hashlib.sha256(repr(question.instructions).encode()).digest()
    name = fingerprint(
        asked,
        question.api_version,
        method=question.method,
        user_context=question.user_context,
        service=question.service,
    )
    return entry_key(question.question_id, 0, name)


Claim = Callable[[Mapping[bytes, str]], Mapping[bytes, str]]
"""Notes the origin of each question, by key; returns the first origin of each. See `Ledger.claim`."""


def claimed(ledger: Ledger, run_id: str, questions: Sequence[Question]) -> list[bool]:
    """Claim a batch of questions for a run; return for each whether it is the first one with its key.

    A question that comes again from the same origin, as when Beam repeats a bundle, still is the first one.
    """
    return first_of_their_kind(lambda claims: ledger.claim(run_id, claims), questions)


def first_of_their_kind(claim: Claim, questions: Sequence[Question]) -> list[bool]:
    """Do what `claimed` does, with any function that notes claims."""
    keys = [question_key(question) for question in questions]
    # Within a batch, too, the first origin gets the claim.
    claims: dict[bytes, str] = {}
    for key, question in zip(keys, questions, strict=True):
        claims.setdefault(key, question.origin)
    holders = claim(claims)

    def is_first(key: bytes, origin: str) -> bool:
        if claims[key] == origin:
            return holders[key] == origin
        # A ledger may not know which origin has a claim, only whether the given origin has it.
        return claim({key: origin})[key] == origin

    return [is_first(key, question.origin) for key, question in zip(keys, questions, strict=True)]


def release(ledger: Ledger, run_id: str, question: Question) -> None:
    """Remove a question's claim, so that it is not a duplicate when it comes again."""
    ledger.release(run_id, {question_key(question): question.origin})


Find = Callable[[Sequence[Job]], Mapping[bytes, Entry]]
"""Looks up the next turns of jobs; returns the stored entries by key."""


def stored_in(ledger: Ledger) -> Find:
    """Return a function that looks up stored entries without taking leases."""
    return lambda jobs: ledger.get_many([job.key for job in jobs])


def look_up(find: Find, jobs: Sequence[Job], settings: CallSettings) -> tuple[list[Job], list[Job]]:
    """Find the stored answers of jobs, turn by turn for the whole batch.

    Args:
        find: Looks up the jobs' next turns.
        jobs: Jobs without answers.
        settings: The settings of the calls.

    Returns:
        The jobs that need a call, each at its first turn that is not stored; and the jobs that need none.
    """
    calling, over = [], []
    waiting = list(jobs)
    while waiting:
        entries = find(waiting)
        going_on = []
        for job in waiting:
            entry = entries.get(job.key)
            if entry is None:
                calling.append(job)
                continue
            answers = (*job.answers, answer_of(job, entry, settings, from_ledger=True))
            if is_over(job.question, answers):
                over.append(replace(job, answers=answers))
            else:
                going_on.append(next_job(job.ticket, job.question, answers, job.delivered, settings))
        waiting = going_on
    return calling, over


def entry_of(job: Job, success: Success) -> Entry:
    """Return the ledger's entry for a job's next turn."""
    return Entry(
        key=job.key,
        question_id=job.question.question_id,
        turn_index=len(job.answers),
        model_id=model_of(job),
        response=success.reply.response,
        attempts=success.attempts,
        latency_ms=success.latency_ms,
        asked_at=success.asked_at,
        answered_at=success.answered_at,
        first_part_ms=success.reply.first_part_ms,
        unread_json=success.reply.unread_json,
    )


def answer_of(job: Job, got: Entry | Success, settings: CallSettings, *, from_ledger: bool) -> Answer:
    """Return the answer to a job's next turn, from the ledger or from a call."""
    reply = got.reply if isinstance(got, Success) else got
    return Answer(
        turn_index=len(job.answers),
        request=job.request,
        response=reply.response,
        api_version=job.question.api_version,
        streamed=_streamed(job.question, settings),
        attempts=got.attempts,
        latency_ms=got.latency_ms,
        asked_at=got.asked_at,
        answered_at=got.answered_at,
        from_ledger=from_ledger,
        method=job.question.method,
        first_part_ms=reply.first_part_ms,
        unread_json=reply.unread_json,
        service=job.question.service,
    )
