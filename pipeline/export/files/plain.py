"""Converts values for file formats that know only text, numbers and booleans."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any


def as_json(value: Any) -> str:
    """Return compact JSON. Bytes become base64, and times become text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=as_text)


def as_text(value: Any) -> str:
    """Return bytes as base64, a time in ISO 8601 and UTC, and lists and objects as JSON.

    Raises:
        TypeError: The value is none of these.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, list | dict):
        return as_json(value)
    raise TypeError(f"a {type(value).__name__} can't be a value of a row")
