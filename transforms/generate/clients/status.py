"""Makes the error of a call from its status. All transports use this."""

from __future__ import annotations

import grpc

from groundrows.schemas.codes import MESSAGE_TOO_LARGE, RESPONSE_TOO_LARGE, UNDECODABLE_RESPONSE
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.clients.pieces import most_pieces
from groundrows.transforms.generate.settings import MEGABYTE

CODES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}
"""The canonical names of google.rpc's codes, by number."""

NAMES = frozenset(CODES.values()) - {"OK"}
"""The names that an error may have."""


def status_error(code: str, message: str, retry_after: float | None, deadline: float) -> CallError:
    """Return the error of a call that ended with an error status.

    Args:
        code: The status code's canonical name.
        message: The status message.
        retry_after: Seconds the server asked to wait, or None.
        deadline: The attempt's deadline in seconds, for the message.
    """
    if code == "RESOURCE_EXHAUSTED" and "larger than max" in message:
        return CallError(MESSAGE_TOO_LARGE, message)
    if code == "INTERNAL" and "deserializing response" in message:
        return CallError(UNDECODABLE_RESPONSE, message)
    if code == "DEADLINE_EXCEEDED":
        message = f"no answer within {deadline:g} s: {message}"
    return CallError(code, message, retry_after)


def undecodable(what: str) -> CallError:
    """Return the error of a call whose response can't be read. `what` says why."""
    return CallError(UNDECODABLE_RESPONSE, what)


def no_message(size: int) -> CallError:
    """Return the error of a call whose response, of `size` bytes, is not a valid message."""
    return undecodable(f"the response of {size} bytes is not a valid message")


def too_large(most: int) -> CallError:
    """Return the error of a call whose response has more than `most` bytes."""
    return CallError(
        RESPONSE_TOO_LARGE, f"the response is larger than {most / MEGABYTE:g} MB: raise --max_response_mb"
    )


def too_many_pieces(most: int) -> CallError:
    """The error of a call whose response has more pieces than one of `most` bytes may have."""
    return CallError(
        RESPONSE_TOO_LARGE,
        f"the response consists of more than {most_pieces(most):,} parts, which take memory beside their "
        "bytes: raise --max_response_mb",
    )
