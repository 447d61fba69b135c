"""The service's JSON into messages, and what of it no message can hold."""

from __future__ import annotations

from google.protobuf import json_format

from groundrows.schemas.discoveryengine.messages import Pb
from groundrows.schemas.errors import NotReadableError


def read_message(fields: object, message: type[Pb]) -> tuple[Pb, bool]:
    """Turn a message's JSON form into the message.

    Args:
        fields: What the JSON was read into.
        message: The message's class.

    Returns:
        The message, and whether it holds all that came: a field, or the name of an enum's value, that this
        version does not know has no place in it. A number of an unknown value has.

    Raises:
        NotReadableError: It is no such message.
    """
    if not isinstance(fields, dict):
        raise NotReadableError
    try:
        return json_format.ParseDict(fields, message()), True
    except json_format.ParseError:
        pass
    except _ODD_VALUES:
        raise NotReadableError from None
    try:
        return json_format.ParseDict(fields, message(), ignore_unknown_fields=True), False
    except (json_format.ParseError, *_ODD_VALUES):
        raise NotReadableError from None


# What the parser lets through when a value is of the wrong kind, or a text can't be encoded.
_ODD_VALUES = (ValueError, TypeError, AttributeError, RecursionError)
