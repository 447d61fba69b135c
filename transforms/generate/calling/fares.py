"""Estimates the tokens and searches that an attempt will use, and records what it really used.

The estimate must be fast, because it is made before every call. The request's tokens are estimated from its
characters. The other tokens (the answer, thoughts, and search results that the model reads) are not known
before. The largest allowed answer would be a bad estimate: most answers are much shorter, and most of the
limit would stay unused. So the estimate is the mean of recent answers of the same model. Before the first
answer, it is the largest allowed answer, or a guess.
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
"""The tokens that are expected besides the request's before a model's first answer, without a limit."""
MEAN_OF = 32
"""The mean follows about so many of the latest answers."""

MAYBE_BILLED = frozenset({"DEADLINE_EXCEEDED", RESPONSE_TOO_LARGE, UNDECODABLE_RESPONSE, INTERNAL_ERROR})
"""Codes of attempts that the service may have answered and billed, although nobody could read what they took.

An attempt that the service refused, or never got, is not billed."""


class Cost(NamedTuple):
    """The tokens and searches that a call uses, as whole numbers."""

    tokens: int
    searches: int


FREE = Cost(0, 0)
"""The cost of a call that was not made, or that uses nothing."""


@dataclass(slots=True)
class _Means:
    """Of the answers of one model: mean tokens besides the request's, mean searches, and their number."""

    tokens: float = 0.0
    answers: int = 0
    searches: float = 1.0
    searching_answers: int = 0


class Expectations:
    """Estimates what calls of this process will use, by model."""

    def __init__(self) -> None:
        self._means: dict[str, _Means] = {}

    def of(self, need: Need) -> Cost:
        """Return the estimate for a call."""
        means = self._means.get(need.model) or _Means()
        more = means.tokens
        if not means.answers:
            more = FIRST_GUESS_TOKENS if need.most_answer is None else need.most_answer
        searches = math.ceil(means.searches) if need.may_search else 0
        return Cost(max(1, need.prompt + math.ceil(more)), searches)

    def learn(self, need: Need, spent: Spent) -> None:
        """Learn from what a call used."""
        means = self._means.setdefault(need.model, _Means())
        means.answers = min(means.answers + 1, MEAN_OF)
        means.tokens += (spent.total - need.prompt - means.tokens) / means.answers
        if need.may_search:
            means.searching_answers = min(means.searching_answers + 1, MEAN_OF)
            means.searches += (spent.searches - means.searches) / means.searching_answers


class Fare:
    """The estimates for the attempts of one question, and what they used.

    Args:
        expectations: The estimates of the process.

    Attributes:
        need: What the request of the current turn may use; None when the service does not report it.
        spent: What the attempts have used so far, over all turns.
    """

    def __init__(self, expectations: Expectations, need: Need | None = None) -> None:
        self._expectations = expectations
        self.need = need
        self.spent = NOTHING

    @property
    def model(self) -> str:
        """The model that is asked; empty when it does not matter."""
        return "" if self.need is None else self.need.model

    def expected(self) -> Cost:
        """Return the estimate for an attempt that starts now."""
        return FREE if self.need is None else self._expectations.of(self.need)

    def ended(self, expected: Cost, how: Reply | CallError) -> Cost:
        """Record how an attempt ended.

        Args:
            expected: The estimate for it.
            how: Its response, or the error.

        Returns:
            What it used; the estimate when that is unknown and the attempt may have been billed.
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
