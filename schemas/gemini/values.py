"""JSON values of a record, read strictly, with the path of what is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from groundrows.schemas.errors import RuleError
from groundrows.schemas.names import camel, nearest
from groundrows.schemas.wording import quoted, wrong_type

Reader = Callable[[object, str], Any]
"""Gives what a request holds for a JSON value at a path of the record, or raises `RuleError`."""

_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_WHOLE = range(-(2**31), 2**31)


def read_members(value: object, path: str, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Read a JSON object whose members may be spelled in camelCase or snake_case; nulls are left out.

    Args:
        value: The JSON value.
        path: Where it stands in the record.
        readers: What reads each member, by its name in snake_case.

    Returns:
        What the readers gave, by name in snake_case.

    Raises:
        RuleError: `WRONG_TYPE`, `UNKNOWN_FIELD`, `DUPLICATE_FIELD`, or what a reader raises.
    """
    if not isinstance(value, dict):
        raise wrong_type(path, "an object", value)
    by_spelling = {spelling: name for name in readers for spelling in (name, camel(name))}
    read: dict[str, Any] = {}
    for spelling, item in value.items():
        name = by_spelling.get(spelling)
        if name is None:
            raise _unknown(spelling, path, by_spelling)
        if item is None:
            continue
        if name in read:
            raise RuleError(
                "DUPLICATE_FIELD", f"{path}.{name} is given in camelCase and snake_case: keep one of them"
            )
        read[name] = readers[name](item, f"{path}.{name}")
    return read


def _unknown(name: str, path: str, by_spelling: Mapping[str, str]) -> RuleError:
    meant = nearest(name, by_spelling)
    if meant is not None:
        hint = f"did you mean {by_spelling[meant]}?"
    else:
        known = ", ".join(sorted(set(by_spelling.values())))
        hint = f"it takes {known}" if known else "it takes no fields"
    return RuleError("UNKNOWN_FIELD", f"{path} has a field {quoted(name)} that no request has: {hint}")


def any_text(value: object, path: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise wrong_type(path, "a string", value)
    return value


def text(value: object, path: str) -> str:
    """A string that is not blank."""
    given = any_text(value, path)
    if not given.strip():
        raise RuleError("BLANK_FIELD", f"{path} is blank: fill it or leave it out")
    return given


def texts(value: object, path: str) -> list[str]:
    """A list of strings."""
    if not isinstance(value, list):
        raise wrong_type(path, "a list", value)
    return [text(item, f"{path}[{index}]") for index, item in enumerate(value)]


def switch(value: object, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise wrong_type(path, "true or false", value)
    return value


def number(value: object, path: str) -> float | int:
    """A finite number, or one that a table wrote as text."""
    value = _from_table(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_type(path, "a number", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise RuleError("OUT_OF_RANGE", f"{path} is no finite number: correct it")
    return value


def whole(value: object, path: str) -> int:
    """A whole number of 32 bits, or one that a table wrote as text or with a point."""
    value = _from_table(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(path, "a whole number", value)
    if value not in _WHOLE:
        raise RuleError("OUT_OF_RANGE", f"{path} does not fit into 32 bits: give a smaller number")
    return value


def between(low: float, high: float) -> Reader:
    """Reads a number from `low` to `high`, both allowed."""

    def read(value: object, path: str) -> float | int:
        given = number(value, path)
        if not low <= given <= high:
            raise RuleError("OUT_OF_RANGE", f"{path} is {given:g}: it must be from {low:g} to {high:g}")
        return given

    return read


def whole_between(low: int, high: int) -> Reader:
    """Reads a whole number from `low` to `high`, both allowed."""

    def read(value: object, path: str) -> int:
        given = whole(value, path)
        if not low <= given <= high:
            raise RuleError("OUT_OF_RANGE", f"{path} is {given}: it must be from {low} to {high}")
        return given

    return read


def one_of(*choices: str) -> Reader:
    """Reads one of some words, in upper or lower case."""

    def read(value: object, path: str) -> str:
        for choice in choices:
            if isinstance(value, str) and value.lower() == choice.lower():
                return choice
        raise RuleError("INVALID_ENUM", f"{path} must be one of {', '.join(choices)}")

    return read


def as_sent(value: object, path: str) -> dict[str, Any]:
    """An object that is handed to the service as it is, but for keys: those never stand in a record."""
    if not isinstance(value, dict):
        raise wrong_type(path, "an object", value)
    refuse_keys(value, path)
    return value


def refuse_keys(value: object, path: str) -> None:
    """Refuse API keys, which would end in rows.

    Raises:
        RuleError: `KEY_IN_RECORD`.
    """
    stack: list[tuple[object, str]] = [(value, path)]
    while stack:
        item, where = stack.pop()
        if isinstance(item, dict):
            for name, child in item.items():
                plain = name.lower().replace("_", "").replace("-", "")
                if plain in _KEYS:
                    raise RuleError(
                        "KEY_IN_RECORD",
                        f"{where} has {quoted(name)}: a key inside a record would end in rows, take it out",
                    )
                stack.append((child, f"{where}.{name}"))
        elif isinstance(item, list):
            stack.extend((child, f"{where}[{index}]") for index, child in enumerate(item))


_KEYS = frozenset({"apikey", "apikeyconfig", "apikeystring", "authconfig", "authorization", "accesstoken"})


def agent_only(path: str) -> RuleError:
    """What to raise for a field that the Developer API does not know."""
    return RuleError(
        "NEEDS_AGENT_PLATFORM",
        f"{path} is known to the Agent Platform only: give --location=projects/P/locations/L or take it out",
    )


def _from_table(value: object) -> object:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value) if set(value) & set(".eE") else int(value)
    return value
