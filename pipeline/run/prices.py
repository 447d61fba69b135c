"""What calls cost, by the prices that a user gives. None is built in: prices change, and contracts differ.

The file of `--prices` is JSON:

    {"currency": "USD", "models": {"gemini-2.5-flash": {"prompt": 0.3, "answer": 2.5, "search": 0.035}}}

The prices `prompt`, `cached`, `answer`, `thought` and `tool` are for a million tokens of the kind. `search`
is for one search, and `searched_call` for one call that searched, for models that are billed by the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from groundrows.schemas.errors import RuleError, UsageError
from groundrows.schemas.jsontext import check_surrogates, read_object
from groundrows.schemas.names import nearest
from groundrows.schemas.spending import Spent
from groundrows.schemas.wording import kind_of, quoted

MILLION = 1_000_000
MOST_PRICE = 1e12


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of one model.

    Attributes:
        prompt: Of a million tokens of requests.
        answer: Of a million tokens of answers.
        cached: Of a million tokens of requests that were cached; as `prompt` unless given.
        thought: Of a million tokens of thoughts; as `answer` unless given.
        tool: Of a million tokens that tools gave the model to read; as `prompt` unless given.
        search: Of one search.
        searched_call: Of one call that searched.
    """

    prompt: float
    answer: float
    cached: float | None = None
    thought: float | None = None
    tool: float | None = None
    search: float = 0.0
    searched_call: float = 0.0

    def of(self, spent: Spent) -> float:
        """What calls cost."""
        cached = min(spent.cached, spent.prompt)
        tokens = (
            (spent.prompt - cached) * self.prompt
            + cached * _either(self.cached, self.prompt)
            + spent.answer * self.answer
            + spent.thought * _either(self.thought, self.answer)
            + spent.tool * _either(self.tool, self.prompt)
        )
        return tokens / MILLION + spent.searches * self.search + spent.searched_calls * self.searched_call


def _either(price: float | None, other: float) -> float:
    return other if price is None else price


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a file.

    Attributes:
        currency: Their currency, or None where the file does not say.
        models: Prices by the model's name, as requests name it.
    """

    currency: str | None
    models: Mapping[str, Price]


_NAMES = tuple(each.name for each in fields(Price))
_NEEDED = ("prompt", "answer")


def load_prices(text: str) -> Prices:
    """Read the JSON of a file of prices.

    Raises:
        UsageError: One sentence that says what is wrong with it, where, and what to do.
    """
    try:
        body = text.encode("utf-8", "surrogatepass")
        read = read_object(body)
        check_surrogates(read, body)
    except RuleError as broken:
        raise _wrong(broken.message.replace("the record", "the file")) from None
    for name in read:
        if name not in ("currency", "models"):
            raise _wrong(f"{quoted(name)} is unknown: it holds `models` and `currency`")
    currency, models = read.get("currency"), read.get("models")
    if currency is not None and not (isinstance(currency, str) and 0 < len(currency) <= 20):
        raise _wrong('currency must be a short text, such as "USD"')
    if not isinstance(models, dict) or not models:
        raise _wrong('it names no model: write {"models": {"MODEL": {"prompt": 0.3, "answer": 2.5}}}')
    return Prices(currency, {model: _price(model, given) for model, given in models.items()})


def _price(model: str, given: object) -> Price:
    path = f"models.{quoted(model)}"
    if not isinstance(given, dict):
        raise _wrong(f"{path} is {kind_of(given)}: give an object of prices by kind")
    for name, value in given.items():
        if name not in _NAMES:
            meant = nearest(name, _NAMES)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(_NAMES)}"
            raise _wrong(f"{path} has a price of {quoted(name)}, which is no kind: {hint}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST_PRICE:
            raise _wrong(f"{path}.{name} is no price: give a number from 0 up")
    for name in _NEEDED:
        if name not in given:
            raise _wrong(f"{path} has no price of {name}: give one, 0 if it costs nothing")
    return Price(**{name: float(value) for name, value in given.items()})


def _wrong(what: str) -> UsageError:
    said = what if what[-1] in ".?" else f"{what}."
    return UsageError(f"--prices can't be used: {said}")
