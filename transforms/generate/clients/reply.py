"""Reads the body of an HTTP response with status 200. It may be cut off or contain an error."""

from __future__ import annotations

from typing import Any

from groundrows.schemas.errors import CallError, NotReadableError
from groundrows.transforms.generate.clients.http_errors import error_in
from groundrows.transforms.generate.clients.json_body import read_json
from groundrows.transforms.generate.clients.status import no_message


def read_reply(body: bytes, deadline: float, *, is_array: bool) -> Any:
    """Read a reply's JSON.

    Args:
        body: The body.
        deadline: The attempt's deadline in seconds, for the error's message.
        is_array: Whether it is a stream, which is an array.

    Raises:
        CallError: The body is not JSON, is cut off, or contains an error.
    """
    try:
        read = read_json(body)
    except NotReadableError:
        if is_array and _is_cut(body):
            raise CallError("UNAVAILABLE", "the stream ended before its last part") from None
        raise no_message(len(body)) from None
    error = error_in(read, deadline)
    if error is not None:
        raise error
    return read


def _is_cut(body: bytes) -> bool:
    """Whether an unreadable array lacks its end, as when a proxy lost its connection to the server."""
    return body.lstrip()[:1] == b"[" and body.rstrip()[-1:] != b"]"
