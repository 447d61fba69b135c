"""The user's language and place, which REST takes beside a question though no message has a field for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from groundrows.pipeline.emulator.validation import Violation

_SPELLINGS = ("userContext", "user_context")
_LANGUAGE = ("languageCode", "language_code")
_PLACE = ("latLng", "lat_lng")
_FARTHEST = {"latitude": 90, "longitude": 180}  # degrees


def take_user_context(body: dict[str, Any]) -> object:
    """Take the user context out of a request's body and return it, or None when there is none.

    A second one, spelled the other way, stays in the body, which is then refused for it.
    """
    return next((body.pop(name) for name in _SPELLINGS if name in body), None)


def check_user_context(context: object) -> Iterator[Violation]:
    """Say what is wrong with a user context's shape."""
    if context is None:
        return
    if not isinstance(context, dict):
        yield "user_context", "Must be an object."
        return
    for name, value in context.items():
        if name in _LANGUAGE:
            if not isinstance(value, str):
                yield "user_context.language_code", "Must be a string."
        elif name in _PLACE:
            yield from _check_place(value)
        else:
            yield "user_context", "Takes a language code and a place, nothing else."


def _check_place(place: object) -> Iterator[Violation]:
    if not isinstance(place, dict):
        yield "user_context.lat_lng", "Must be an object."
        return
    for name, degrees in place.items():
        farthest = _FARTHEST.get(name)
        if farthest is None:
            yield "user_context.lat_lng", "Takes a latitude and a longitude, nothing else."
        elif isinstance(degrees, bool) or not isinstance(degrees, (int, float)) or math.isinf(degrees):
            yield f"user_context.lat_lng.{name}", "Must be a number."
        elif abs(degrees) > farthest:
            yield f"user_context.lat_lng.{name}", f"Must lie between -{farthest} and {farthest} degrees."
