"""A table's row as the JSON record it stands for."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal

from groundrows.pipeline.sources.formats.items import (
    MAX_RECORD_BYTES,
    Item,
    read_failure,
    too_large,
)
from groundrows.schemas.record import Record
from groundrows.schemas.wording import reason_of


def plain_row(row: Mapping[str, object], text_fields: frozenset[str]) -> object:
    """A table's row in JSON's types, as `plain`, but for bytes in a field of text that are no UTF-8.

    Those are kept as they are by surrogate escapes, so that parsing sees them and refuses the record: in
    base64 they would be asked, and paid for.
    """
    kept = {
        name: value.decode("utf-8", "surrogateescape")
        for name, value in row.items()
        if isinstance(value, bytes) and name in text_fields
    }
    return plain({**row, **kept} if kept else row)


def plain(value: object) -> object:
    """`value` in JSON's types: null fields left out, NaN null, dates ISO 8601, decimals exact strings.

    Bytes become text where they are UTF-8, else base64; keys become strings; a duration is ISO 8601 seconds.
    """
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, timedelta):
        return f"PT{Decimal(value // timedelta(microseconds=1)).scaleb(-6).normalize():f}S"
    return str(value)


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(plain(key))


def record_of(row: object, origin: str, raw: Callable[[], bytes] = bytes) -> Item:
    """The record of a row in JSON's types; a failure holding `raw()` when it is too long or too deep.

    Text read with `surrogateescape` gets its own bytes back, so that parsing sees them as they were.
    """
    try:
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        try:
            body = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # a lone surrogate that was written as \ud83d in a cell of JSON
            body = json.dumps(row, separators=(",", ":")).encode()
    except (RecursionError, TypeError, ValueError) as error:
        return unusable_row(origin, error, raw())
    return Record(body, origin) if len(body) <= MAX_RECORD_BYTES else too_large(origin, body)


def unusable_row(origin: str, error: BaseException, raw: bytes = b"") -> Item:
    """The failure of a row that cannot be written as JSON."""
    message = f"The row at {origin} cannot be written as JSON: {reason_of(error)}."
    return read_failure(origin, "INVALID_ROW", message, raw)
