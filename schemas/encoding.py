"""Encode values in Avro's binary form, and check them against their schema in the same pass.

fastavro writes the files, the blocks and the codecs; only the rows are encoded here. Its own encoder accepts
values that no row may hold: a datetime without a time zone, a number as text, true as a whole number, a
whole number of more than 32 bits. To find them would take a pass of its own, and even without that pass a run
takes more CPU time per answer; CONTRIBUTING.md has the figures. The binary form is that of the Avro
specification 1.11.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

INT_RANGE = range(-(2**31), 2**31)
LONG_RANGE = range(-(2**63), 2**63)

Put = Callable[[Any, bytearray], None]
"""Appends a value to the bytes, or raises `MisfitError`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MICROS = 86_400_000_000
_pack_double = struct.Struct("<d").pack


class MisfitError(Exception):
    """A value does not fit its schema. Only the rows' `encode` sees this; it raises a `RowError` instead.

    Attributes:
        problem: The rest of a sentence that starts with the field; never holds the value.
        path: Where inside the field: `[0].width`, or nothing.
    """

    def __init__(self, problem: str, path: str = "") -> None:
        self.problem = problem
        self.path = path


def put_of(schema: Any, records: Mapping[str, type]) -> Put:
    """Make the function that encodes values of an Avro type.

    It is made once for each type, because looking into the schema for each value would be slow.

    Args:
        schema: A type as fastavro parsed it.
        records: The class whose instances stand for each named record.
    """
    if isinstance(schema, list):
        _, kind = schema  # every union is null and one type
        return _nullable(put_of(kind, records))
    if isinstance(schema, str):
        return _PLAIN[schema]
    match schema["type"]:
        case "array":
            return _array(put_of(schema["items"], records))
        case "map":
            return _map(put_of(schema["values"], records))
        case "record":
            return record_put(records[schema["name"]], schema, records)
        case "long" if schema.get("logicalType") == "timestamp-micros":
            return _timestamp
        case plain:
            return _PLAIN[plain]


def record_put(kind: type, schema: Mapping[str, Any], records: Mapping[str, type]) -> Put:
    """Make the function that encodes instances of `kind`, whose attributes are the fields of `schema`.

    The functions of this module are closures in place of one function that walks the schema: the walk would
    cost more than the encoding.
    """
    names = [field["name"] for field in schema["fields"]]
    puts = [put_of(field["type"], records) for field in schema["fields"]]
    # One look-up for all fields; of a single one it would give no tuple.
    values_of = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)

    def put(value: Any, out: bytearray) -> None:
        if type(value) is not kind:
            raise wanted(f"a record of {kind.__name__}", value)
        try:
            values = values_of(value)
        except AttributeError:
            missing = next(name for name in names if not hasattr(value, name))
            raise MisfitError("is missing", f".{missing}") from None
        at = 0
        try:
            for put_field in puts:
                put_field(values[at], out)
                at += 1
        except MisfitError as misfit:
            raise MisfitError(misfit.problem, f".{names[at]}{misfit.path}") from None

    return put


def wanted(what: str, value: object) -> MisfitError:
    """The error of a value of another type."""
    return MisfitError(f"must be {what}, not {'null' if value is None else type(value).__name__}")


def _put_long(number: int, out: bytearray) -> None:
    """Zigzag, seven bits a byte, the lowest first."""
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _string(value: Any, out: bytearray) -> None:
    if type(value) is not str:
        raise wanted("a string", value)
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise MisfitError(f"has a lone surrogate at character {error.start}") from None
    size = len(data)
    if size < 64:
        out.append(size << 1)
    else:
        _put_long(size, out)
    out += data


def _bytes(value: Any, out: bytearray) -> None:
    if type(value) is not bytes:
        raise wanted("bytes", value)
    _put_long(len(value), out)
    out += value


def _boolean(value: Any, out: bytearray) -> None:
    if type(value) is not bool:
        raise wanted("true or false", value)
    out.append(value)


def _integer(bounds: range) -> Put:
    def put(value: Any, out: bytearray) -> None:
        if type(value) is not int:
            raise wanted("an integer", value)
        if 0 <= value < 64:
            out.append(value << 1)
        elif value in bounds:
            _put_long(value, out)
        else:
            raise MisfitError(f"must lie from {bounds.start} to {bounds.stop - 1}")

    return put


def _double(value: Any, out: bytearray) -> None:
    if type(value) is not float:
        if type(value) is not int:
            raise wanted("a number", value)
        try:
            value = float(value)
        except OverflowError:
            raise MisfitError("is too large for a double") from None
    out += _pack_double(value)


def _timestamp(value: Any, out: bytearray) -> None:
    if not isinstance(value, datetime):
        raise wanted("a datetime", value)
    # All rows of an answer hold the same two or three datetimes, so their bytes are kept for a while. This
    # works in UTC only. In other zones, equal datetimes can be different moments: in autumn the clocks pass
    # through one hour twice.
    out += _moment(value) if value.tzinfo is UTC else _moment.__wrapped__(value)


@lru_cache(maxsize=256)
def _moment(value: datetime) -> bytes:
    if value.utcoffset() is None:
        raise MisfitError("has no time zone: make it an aware datetime")
    since = value - _EPOCH
    data = bytearray()
    _put_long(since.days * _DAY_MICROS + since.seconds * 1_000_000 + since.microseconds, data)
    return bytes(data)


def _nullable(put_value: Put) -> Put:
    def put(value: Any, out: bytearray) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)  # the second branch
            put_value(value, out)

    return put


def _array(put_item: Put) -> Put:
    def put(value: Any, out: bytearray) -> None:
        if type(value) is not tuple and type(value) is not list:
            raise wanted("an array", value)
        if value:
            _put_long(len(value), out)
            for index, item in enumerate(value):
                try:
                    put_item(item, out)
                except MisfitError as misfit:
                    raise MisfitError(misfit.problem, f"[{index}]{misfit.path}") from None
        out.append(0)

    return put


def _map(put_value: Put) -> Put:
    def put(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise wanted("a map", value)
        if value:
            _put_long(len(value), out)
            try:
                for key, item in value.items():
                    _string(key, out)
                    put_value(item, out)
            except MisfitError as misfit:
                raise MisfitError(misfit.problem, f"{{}}{misfit.path}") from None
        out.append(0)

    return put


_PLAIN: dict[str, Put] = {
    "string": _string,
    "bytes": _bytes,
    "boolean": _boolean,
    "int": _integer(INT_RANGE),
    "long": _integer(LONG_RANGE),
    "double": _double,
}
