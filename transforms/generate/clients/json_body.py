"""The body of an HTTP response as JSON."""

from __future__ import annotations

import json
from typing import Any

from groundrows.schemas.errors import NotReadableError
from groundrows.schemas.jsontext import mended_json


def read_json(body: bytes) -> Any:
    """Read a body as strictly as the standard has it: UTF-8, one value.

    Half of a surrogate pair, which the standard allows, is read as the replacement character.

    Raises:
        NotReadableError: It is something else.
    """
    try:
        # Given bytes, the parser would guess an encoding.
        return json.loads(mended_json(body.decode()), parse_int=_whole, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise NotReadableError from None


def _whole(digits: str) -> int | float:
    # C++ writes the float -0.0 so, and as an integer it would lose its sign.
    return -0.0 if digits == "-0" else int(digits)


def _no_constant(name: str) -> float:
    raise ValueError(name)  # NaN is a string in protobuf's JSON
