"""The body of a reply over HTTP with status 200: JSON, unless it broke off, and no error within it."""

from __future__ import annotations

from typing import Any

from groundrows.schemas.errors import CallError, NotReadableError
from groundrows.transforms.generate.clients.http_errors import error_in
from groundrows.transforms.generate.clients.json_body import read_json
from groundrows.transforms.generate.clients.status import no_message


def read_reply(body: bytes, deadline: float, *, is_array: bool) -> Any:
    """Read a reply's JSON.

    Args:
        body: The reply.
        deadline: Seconds that the attempt had, for the words of an error.
        is_array: Whether it is a stream, which comes as an array.

    Raises:
        CallError: It is no JSON, was cut, or tells of an error.
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
    """Whether an array that can't be read lacks its end: as when a proxy lost the server and says nothing."""
    return body.lstrip()[:1] == b"[" and body.rstrip()[-1:] != b"]"
