"""What calls take of a service, in the units that services limit and bill: tokens and searches.

Which tokens those are is the service's own affair. Everything above it only adds them up and compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

CHARACTERS_PER_TOKEN = 4
"""A usual rule of thumb for English; other scripts take more tokens a character."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a request may take, as far as the request itself tells.

    Attributes:
        model: The model that it asks.
        prompt: Its tokens, estimated from its characters, which costs nothing.
        most_answer: The most tokens that it lets an answer have; None where it sets no limit.
        may_search: Whether it lets the model search.
    """

    model: str
    prompt: int
    most_answer: int | None
    may_search: bool


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls to one model took, as the service reported it. Zeros stand for what it did not mention.

    Attributes:
        prompt: Tokens of the requests, cached ones included.
        cached: Those of the requests' tokens that were cached.
        answer: Tokens of the answers.
        thought: Tokens of the model's thoughts.
        tool: Tokens of what tools, such as a search, gave the model to read.
        total: All tokens.
        searches: Different queries that were searched for, counted for each call by itself.
        searched_calls: Calls that searched at all.
        unreported_calls: Calls that may have been billed although no usage came back for them, as when one
            was cut at its deadline.
        unreported_tokens: What was expected of those calls. The other figures do not include it.
    """

    prompt: int = 0
    cached: int = 0
    answer: int = 0
    thought: int = 0
    tool: int = 0
    total: int = 0
    searches: int = 0
    searched_calls: int = 0
    unreported_calls: int = 0
    unreported_tokens: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(getattr(self, name) + getattr(other, name) for name in KINDS))


KINDS: tuple[str, ...] = tuple(each.name for each in fields(Spent))
"""What is counted: the names of the attributes of `Spent`."""

NOTHING = Spent()
"""What no call takes."""
