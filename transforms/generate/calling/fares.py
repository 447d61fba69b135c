"""What an attempt is expected to take of the limits in tokens and searches, and what it took in the end.

The expectation is cheap on purpose: it is made before every call. A request's own tokens are estimated from
its characters. What comes on top of them (the answer, thoughts, what a search gave the model to read) can't
be seen in the request, and the largest answer that is allowed is mostly far from what is used: to reckon with
it would leave most of a limit unused. So it is the mean of what the answers of the same model took lately.
Only until the first of them is there, the largest answer allowed is reckoned with, or a guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from groundrows.schemas.codes import INTERNAL_ERROR, RESPONSE_TOO_LARGE, UNDECODABLE_RESPONSE
from groundrows.schemas.errors import CallError
from groundrows.schemas.spending import NOTHING, Need, Spent
from groundrows.transforms.generate.clients.base import Reply

FIRST_GUESS_TOKENS = 1_000
"""What is expected on top of a request before a model's first answer, where the request sets no limit."""
MEAN_OF = 32
"""The mean follows about so many of the latest answers."""

MAYBE_BILLED = frozenset({"DEADLINE_EXCEEDED", RESPONSE_TOO_LARGE, UNDECODABLE_RESPONSE, INTERNAL_ERROR})
"""Codes of attempts that the service may have answered and billed, although nobody could read what they took.

An attempt that the service refused, or never got, is not billed."""


class Cost(NamedTuple):
    """What a call takes of the limits: both are whole numbers."""

    tokens: int
    searches: int


FREE = Cost(0, 0)
"""The cost of a call that did not leave, or that takes nothing."""


@dataclass(slots=True)
class _Means:
    """Of the answers of one model: tokens beyond the request's estimate, searches, and how many answers."""

    tokens: float = 0.0
    answers: int = 0
    searches: float = 1.0
    searching_answers: int = 0


class Expectations:
    """Knows what calls of this process are expected to take, by model."""

    def __init__(self) -> None:
        self._means: dict[str, _Means] = {}

    def of(self, need: Need) -> Cost:
        """What a call is expected to take."""
        means = self._means.get(need.model) or _Means()
        more = means.tokens
        if not means.answers:
            more = FIRST_GUESS_TOKENS if need.most_answer is None else need.most_answer
        searches = math.ceil(means.searches) if need.may_search else 0
        return Cost(max(1, need.prompt + math.ceil(more)), searches)

    def learn(self, need: Need, spent: Spent) -> None:
        """Take note of what a call took."""
        means = self._means.setdefault(need.model, _Means())
        means.answers = min(means.answers + 1, MEAN_OF)
        means.tokens += (spent.total - need.prompt - means.tokens) / means.answers
        if need.may_search:
            means.searching_answers = min(means.searching_answers + 1, MEAN_OF)
            means.searches += (spent.searches - means.searches) / means.searching_answers


class Fare:
    """What the attempts of one question are expected to take, turn by turn, and what they took.

    Args:
        expectations: Those of the process.

    Attributes:
        need: What the request of the turn may take; None where the service does not report it.
        spent: What the attempts took so far, over all turns.
    """

    def __init__(self, expectations: Expectations, need: Need | None = None) -> None:
        self._expectations = expectations
        self.need = need
        self.spent = NOTHING

    @property
    def model(self) -> str:
        """The model that is asked; empty where that does not matter."""
        return "" if self.need is None else self.need.model

    def expected(self) -> Cost:
        """What an attempt that leaves now is expected to take."""
        return FREE if self.need is None else self._expectations.of(self.need)

    def ended(self, expected: Cost, how: Reply | CallError) -> Cost:
        """Take note of how an attempt ended.

        Args:
            expected: What it was expected to take.
            how: Its response, or the error.

        Returns:
            What it took; what was expected where nobody knows but it may have been billed.
        """
        if self.need is None:
            return FREE
        spent = how.spent
        if spent is not None:
            self._expectations.learn(self.need, spent)
            self.spent += spent
            return Cost(spent.total, spent.searches)
        if isinstance(how, CallError) and how.code not in MAYBE_BILLED:
            return FREE
        self.spent += replace(NOTHING, unreported_calls=1, unreported_tokens=expected.tokens)
        return expected
