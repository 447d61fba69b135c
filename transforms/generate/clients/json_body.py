"""Reads the body of an HTTP response as JSON."""

from __future__ import annotations

import json
from typing import Any

from groundrows.schemas.errors import NotReadableError
from groundrows.schemas.jsontext import mended_json


def read_json(body: bytes) -> Any:
    """Read a body as strict JSON: UTF-8 with one value.

    Half a surrogate pair, which the standard allows, becomes the replacement character.

    Raises:
        NotReadableError: The body is not such JSON.
    """
    try:
        # The body is decoded first, because the parser would guess the encoding of bytes.
        return json.loads(mended_json(body.decode()), parse_int=_whole, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise NotReadableError from None


def _whole(digits: str) -> int | float:
    # C++ writes the float -0.0 as -0. As an integer it would lose its sign.
    return -0.0 if digits == "-0" else int(digits)


def _no_constant(name: str) -> float:
    raise ValueError(name)  # protobuf's JSON writes NaN as a string
