"""Makes the request for the next turn of a question, and tells whether there is a next turn."""

from __future__ import annotations

from collections.abc import Sequence

from groundrows.schemas.outcome import Answer
from groundrows.schemas.question import Question
from groundrows.schemas.service import service_of


def turn_request(question: Question, answers: Sequence[Answer], location: str) -> bytes:
    """Return the request for the turn after the given answers, with the whole history.

    Args:
        question: The question.
        answers: The answers to its turns so far, in order.
        location: The API's location resource.
    """
    return request_after(question, [answer_text(answer) for answer in answers], location)


def request_after(question: Question, said: Sequence[str], location: str) -> bytes:
    """Return the request for the turn after those that the model answered with the texts `said`."""
    turn = len(said)
    return service_of(question.service, question.api_version).turn_request(
        question.request,
        question.method,
        location,
        history=list(zip(question.turns, said, strict=False)),
        text=question.turns[turn],
        instruction=question.instructions[turn] if question.instructions else None,
    )


def is_over(question: Question, answers: Sequence[Answer]) -> bool:
    """Whether nothing is left to ask: every turn has a response, or the last response has no answer."""
    if len(answers) == len(question.turns):
        return True
    return bool(answers) and _said(answers[-1]) is None


def answer_text(answer: Answer) -> str:
    """Return the text of the first candidate, which the history uses as the model's answer."""
    return _said(answer) or ""


def _said(answer: Answer) -> str | None:
    return service_of(answer.service, answer.api_version).said(answer)
