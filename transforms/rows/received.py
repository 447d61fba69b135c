"""A response as it came: read, kept as JSON where rows are to carry it, and what of it no field can hold."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import json_format

from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.schemas.jsontext import ordered_json
from groundrows.schemas.outcome import Answer

RAW_RESPONSE = "rawResponseBase64"
"""The key of `response_json` that holds the response's bytes when its JSON form cannot say everything."""


def read_response(answer: Answer, *, keep: bool) -> tuple[Any, str | None, tuple[str, ...]]:
    """Read a response, without the fields that this version does not know.

    Args:
        answer: The response as it came, and how.
        keep: Whether rows carry the whole response as JSON.

    Returns:
        The plain protobuf message; the whole response as JSON if it is to be kept, what the message cannot
        hold included; and a warning where there is anything the message cannot hold.

    Raises:
        DecodeError: The response is no message of its version.
    """
    message: Any = response_class(answer.api_version, answer.method).FromString(answer.response)
    size = message.ByteSize()
    message.DiscardUnknownFields()
    unknown_size = size - message.ByteSize()
    warnings = []
    if answer.unread_json is not None:
        kept = "response_json has them" if keep else "they are not kept"
        warnings.append(f"The response has parts unknown to this version: {kept}.")
    elif unknown_size:
        kept = f"{RAW_RESPONSE} in response_json has them" if keep else "they are not kept"
        warnings.append(f"The response has {unknown_size} bytes in fields unknown to this version: {kept}.")
    if not keep:
        return message, None, tuple(warnings)
    if answer.unread_json is not None:
        return message, writable(answer.unread_json), tuple(warnings)
    body = json_format.MessageToDict(message)
    if unknown_size:
        body[RAW_RESPONSE] = base64.b64encode(answer.response).decode()
    return message, ordered_json(body), tuple(warnings)


def writable(text: str) -> str:
    """Return the text as UTF-8 can say it: lone surrogates, as in odd file names, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
