"""Requests as JSON, read as strictly as the service's own parser does.

Over REST a question may also carry the user's language and place (`user_context`), for which no message has a
field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NoReturn

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from groundrows.pipeline.emulator.calls import Received, Refusal, Violation, bad_request, refuse
from groundrows.pipeline.emulator.discoveryengine.messages import Origin
from groundrows.schemas.jsontext import is_writable

_LONGEST_NAME = 80  # characters of an unknown name that are repeated to the caller
_SPELLINGS = ("userContext", "user_context")
_LANGUAGE = ("languageCode", "language_code")
_PLACE = ("latLng", "lat_lng")
_FARTHEST = {"latitude": 90, "longitude": 180}  # degrees
_WANTED = {
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_INT32: "a whole number of 32 bits",
}


def read_json(origin: Origin, body: bytes, bound: Mapping[str, str]) -> Received | Refusal:
    """Read a request's body.

    Names are accepted in camelCase and as the messages spell them. The user context of a question, which
    no message has a field for, is checked and kept beside the message.

    Args:
        origin: What is called.
        body: The body as it came: an object, or for the streaming method also a list that holds one.
        bound: The fields that the path gives. The body may only repeat them.

    Returns:
        The request, or a refusal that says all that is wrong with the body.
    """
    try:
        value = json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return refuse("INVALID_ARGUMENT", "The body is no JSON in UTF-8.")
    if origin.method == "StreamGenerateGroundedContent" and isinstance(value, list):
        if len(value) != 1:
            return refuse("INVALID_ARGUMENT", f"A stream takes one request, not {len(value)}.")
        [value] = value
    if not isinstance(value, dict):
        return refuse("INVALID_ARGUMENT", "The body must be a JSON object.")
    context = take_user_context(value) if origin.method != "CheckGrounding" else None
    request = origin.request_class()
    wrong = [*_message(request.DESCRIPTOR, value, ""), *check_user_context(context)]
    if wrong:
        return bad_request(wrong)
    json_format.ParseDict(value, request)
    for field, name in bound.items():
        if getattr(request, field) not in ("", name):
            return bad_request([(field, "Names another resource than the path.")])
        setattr(request, field, name)
    return Received(request, context)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")  # Python's parser would take NaN and Infinity


def _message(descriptor: Any, value: object, path: str) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield path, f"Must be an object, not {_kind(value)}."
        return
    fields = _fields(descriptor)
    given: dict[str, str] = {}
    for name, entry in value.items():
        field = fields.get(name)
        if field is None:
            where = f" at '{path}'" if path else ""
            yield path, f"Unknown name {json.dumps(name[:_LONGEST_NAME])}{where}: there is no such field."
            continue
        if entry is None:
            continue
        here = f"{path}.{name}" if path else name
        # Another spelling of a field, or another member of a oneof, would silently take its place.
        group = field.containing_oneof.name if field.containing_oneof else field.name
        if group in given:
            yield here, f"Only one of {given[group]} and {name} can be given."
        else:
            given[group] = name
            yield from _field(field, entry, here)


def _field(field: Any, value: object, path: str) -> Iterator[Violation]:
    if not field.is_repeated:
        yield from _single(field, value, path)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not isinstance(value, dict):
            yield path, f"Must be an object, not {_kind(value)}."
            return
        for key, entry in value.items():
            here = f"{path}[{json.dumps(key[:_LONGEST_NAME])}]"
            if not isinstance(entry, str) or not is_writable(key + entry):
                yield here, "Must be a string of whole characters under a key of such."
    elif not isinstance(value, list):
        yield path, f"Must be a list, not {_kind(value)}."
    else:
        for position, entry in enumerate(value):
            yield from _single(field, entry, f"{path}[{position}]")


def _single(field: Any, value: object, path: str) -> Iterator[Violation]:
    if field.message_type is not None:
        yield from _message(field.message_type, value, path)
    elif field.type == field.TYPE_STRING:
        if not isinstance(value, str):
            yield path, f"Must be a string, not {_kind(value)}."
        elif not is_writable(value):
            yield path, "Must not hold half of a surrogate pair."
    elif not _is_scalar(field, value):
        wanted = "a value of its enum" if field.enum_type else _WANTED.get(field.cpp_type, "a number")
        yield path, f"Must be {wanted}."


def _is_scalar(field: Any, value: object) -> bool:
    """Whether the library takes a value for a field that holds a number, a flag or an enum's value."""
    if field.enum_type and not isinstance(value, str):
        # The library would take a truth value, and cut a number to 32 bits.
        return type(value) is int and -(2**31) <= value < 2**31
    try:
        json_format.ParseDict({field.name: value}, GetMessageClass(field.containing_type)())
    except json_format.ParseError:
        return False
    return True


@cache
def _fields(descriptor: Any) -> dict[str, Any]:
    """A message's fields by both spellings of their names."""
    by_name = {field.name: field for field in descriptor.fields}
    return by_name | {field.json_name: field for field in descriptor.fields}


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else "a number"


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
