"""Values of a response as they came, taken one by one: what is of another kind counts as not sent.

A response is JSON that a service wrote, of which anything may differ from what its reference says. Nothing in
it may end a run, so each value is looked at as it is taken.
"""

from __future__ import annotations

import json
import math
from typing import Any

from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.jsontext import mended_json

_MOST = 2**63 - 1
_MOST_INT = 2**31 - 1
_LONGEST_NUMBER = 18


class Taking:
    """Takes values and notes, by name, those that were of another kind.

    Attributes:
        odd: Names of fields whose value could not be taken.
    """

    def __init__(self) -> None:
        self.odd: dict[str, None] = {}

    def members(self, value: object, name: str) -> dict[str, Any]:
        """An object; an empty one for anything else."""
        if isinstance(value, dict):
            return value
        if value is not None:
            self.odd[name] = None
        return {}

    def items(self, value: object, name: str) -> list[Any]:
        """A list; an empty one for anything else."""
        if isinstance(value, list):
            return value
        if value is not None:
            self.odd[name] = None
        return []

    def objects(self, value: object, name: str) -> list[dict[str, Any]]:
        """A list's objects; others become empty ones, so that each keeps its place."""
        return [self.members(item if item is not None else {}, name) for item in self.items(value, name)]

    def text(self, holder: dict[str, Any], name: str) -> str | None:
        """A member that is a string; None for an empty one and for anything else."""
        value = holder.get(name)
        if isinstance(value, str):
            return value or None
        if value is not None:
            self.odd[name] = None
        return None

    def texts(self, holder: dict[str, Any], name: str) -> tuple[str, ...]:
        """A member that is a list of strings; other items are left out."""
        items = self.items(holder.get(name), name)
        kept = tuple(item for item in items if isinstance(item, str))
        if len(kept) != len(items):
            self.odd[name] = None
        return kept

    def count(self, holder: dict[str, Any], name: str, most: int = _MOST) -> int | None:
        """A member that is a whole number from 0 on; JSON of protobuf writes those of 64 bits as strings."""
        value = holder.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _LONGEST_NUMBER:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            self.odd[name] = None
            return None
        return value

    def offset(self, holder: dict[str, Any], name: str) -> int | None:
        """As `count`, for a number of 32 bits."""
        return self.count(holder, name, _MOST_INT)

    def number(self, value: object, name: str) -> float | None:
        """A finite number."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.odd[name] = None
            return None
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.odd[name] = None
            return None
        return number

    def flag(self, holder: dict[str, Any], name: str) -> bool:
        """A member that is true; anything else is false."""
        return holder.get(name) is True

    def warnings(self) -> tuple[str, ...]:
        """One sentence about what could not be taken, if anything."""
        if not self.odd:
            return ()
        names = ", ".join(list(self.odd)[:_MOST_NAMES])
        return (f"The response has values of an unexpected kind, which count as not sent: {names}.",)


_MOST_NAMES = 10


def read_response(body: bytes) -> Any:
    """A response's JSON. Half of a surrogate pair is read as the replacement character.

    Raises:
        UndecodableError: It is no JSON in UTF-8.
    """
    try:
        return json.loads(mended_json(body.decode()))
    except (ValueError, RecursionError):
        raise UndecodableError from None
