"""Turns the service's JSON into messages, and reports whether a message can hold all of it."""

from __future__ import annotations

from google.protobuf import json_format

from groundrows.schemas.discoveryengine.messages import Pb
from groundrows.schemas.errors import NotReadableError


def read_message(fields: object, message: type[Pb]) -> tuple[Pb, bool]:
    """Turn a message's JSON form into the message.

    Args:
        fields: The parsed JSON.
        message: The message's class.

    Returns:
        The message, and whether it holds everything in the JSON. It can't hold unknown fields and unknown
        names of enum values. It can hold unknown numbers of enum values.

    Raises:
        NotReadableError: The JSON is not such a message.
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


# The exceptions that the parser raises for values of a wrong type, or for text that can't be encoded.
_ODD_VALUES = (ValueError, TypeError, AttributeError, RecursionError)
