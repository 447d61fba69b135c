"""One question from its first turn to its last: which request comes next, and whether one does."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.messages import response_class
from schemas.outcome import Answer
from schemas.question import Question
from schemas.request import next_turn_request, with_location


def turn_request(question: Question, answers: Sequence[Answer], location: str) -> bytes:
    """The request for the turn after the given answers, whole history included.

    Args:
        question: The question.
        answers: The answers to its turns so far, in order.
        location: The API's location resource.
    """
    request = question.request
    if answers:
        history = [(question.turns[answer.turn_index], _answer_text(answer)) for answer in answers]
        request = next_turn_request(request, question.api_version, history, question.turns[len(answers)])
    return with_location(request, question.api_version, location)


def is_over(question: Question, answers: Sequence[Answer]) -> bool:
    """Whether nothing is left to ask: every turn is answered, or the last response answers nothing."""
    if len(answers) == len(question.turns):
        return True
    return bool(answers) and not _candidates(answers[-1])


def _candidates(answer: Answer) -> Sequence[object]:
    candidates: Sequence[object] = response_class(answer.api_version).FromString(answer.response).candidates
    return candidates


def _answer_text(answer: Answer) -> str:
    """The first candidate's text: what the history says the model answered."""
    candidates = response_class(answer.api_version).FromString(answer.response).candidates
    return "".join(part.text for part in candidates[0].content.parts) if candidates else ""
