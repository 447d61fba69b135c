"""What the calls of a plan are expected to take in tokens and searches, from what their requests say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from groundrows.schemas.spending import Need, Spent


@dataclass(slots=True)
class Needs:
    """What requests to one model need together.

    Attributes:
        calls: Number of requests.
        prompt: Their tokens, estimated from their characters.
        searching_calls: Number of requests that let the model search.
        limits: Number of requests by the largest answer that they allow; None for those that set no limit.
    """

    calls: int = 0
    prompt: int = 0
    searching_calls: int = 0
    limits: Counter[int | None] = field(default_factory=Counter)

    def add(self, need: Need) -> None:
        """Add a request."""
        self.calls += 1
        self.prompt += need.prompt
        self.searching_calls += need.may_search
        self.limits[need.most_answer] += 1

    def expected(self, answer_tokens: int, searches: float, share: float) -> Spent:
        """What a share of the requests is expected to take.

        Args:
            answer_tokens: Tokens of an answer and of the thoughts before it, unless its request allows fewer.
            searches: Searches of a call that may search.
            share: Which share of the requests is sent, from 0 to 1.
        """
        answer = sum(
            count * (answer_tokens if limit is None else min(answer_tokens, limit))
            for limit, count in self.limits.items()
        )
        prompt, answer = round(self.prompt * share), round(answer * share)
        return Spent(
            prompt=prompt,
            answer=answer,
            total=prompt + answer,
            searches=round(self.searching_calls * searches * share),
            searched_calls=round(self.searching_calls * share) if searches else 0,
        )


def expected_of(
    needs: Mapping[str, Needs], answer_tokens: int, searches: float, share: float = 1.0
) -> dict[str, Spent]:
    """What a share of all requests is expected to take, by model."""
    return {model: each.expected(answer_tokens, searches, share) for model, each in sorted(needs.items())}
