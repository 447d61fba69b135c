"""One question from its first turn to its last: which request comes next, and whether one does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.schemas.discoveryengine.request import next_turn_request, with_instruction, with_location
from groundrows.schemas.outcome import Answer
from groundrows.schemas.question import Question
from groundrows.transforms.rows.candidate import numbered, text_of


def turn_request(question: Question, answers: Sequence[Answer], location: str) -> bytes:
    """The request for the turn after the given answers, whole history included.

    Args:
        question: The question.
        answers: The answers to its turns so far, in order.
        location: The API's location resource.
    """
    return request_after(question, [answer_text(answer) for answer in answers], location)


def request_after(question: Question, said: Sequence[str], location: str) -> bytes:
    """The request for the turn after those that the model answered with `said`; see `turn_request`."""
    request = question.request
    if said:
        history = list(zip(question.turns, said, strict=False))
        request = next_turn_request(request, question.api_version, history, question.turns[len(said)])
    instruction = question.instructions[len(said)] if question.instructions else None
    if instruction is not None:
        request = with_instruction(request, question.api_version, instruction)
    return with_location(request, question.api_version, location, question.method)


def is_over(question: Question, answers: Sequence[Answer]) -> bool:
    """Whether nothing is left to ask: every turn is answered, or the last response answers nothing."""
    if len(answers) == len(question.turns):
        return True
    return bool(answers) and not _candidates(answers[-1])


def _candidates(answer: Answer) -> Sequence[Any]:
    candidates: Sequence[Any] = response_class(answer.api_version).FromString(answer.response).candidates
    return candidates


def answer_text(answer: Answer) -> str:
    """The text of the candidate that rows number 0: what the history says the model answered.

    It need not come first. A stream's candidates are put in order, so that by place the history would depend
    on how the answer came.
    """
    texts = {index: text_of(candidate) for index, candidate, _ in numbered(_candidates(answer))}
    return texts.get(0, "")
