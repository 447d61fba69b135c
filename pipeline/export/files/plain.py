"""Values as the kinds of files have them that know text, numbers and truth values only."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any


def as_json(value: Any) -> str:
    """Compact JSON; bytes are base64, and moments are text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=as_text)


def as_text(value: Any) -> str:
    """Bytes as base64, a moment by ISO 8601 in UTC, and lists and objects as JSON.

    Raises:
        TypeError: The value is none of these.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, list | dict):
        return as_json(value)
    raise TypeError(f"a {type(value).__name__} is no value of a row")
