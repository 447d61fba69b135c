"""JSON into protobuf messages, strictly, with the path of what is wrong.

The protobuf library's own reader is ten times slower, lets the last of two members of a oneof win in
silence, and says less about what is wrong.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from groundrows.schemas.discoveryengine.messages import Pb
from groundrows.schemas.discoveryengine.rules import RANGES, V1BETA_ONLY
from groundrows.schemas.errors import RuleError
from groundrows.schemas.names import camel, nearest
from groundrows.schemas.wording import quoted, wrong_type

_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_INT32 = (-(2**31), 2**31 - 1)
# The JSON of the largest float of 32 bits is a little larger; up to halfway to the next it means that one.
_LARGEST_FLOAT = math.nextafter((2 - 2**-24) * 2.0**127, 0)


@dataclass(frozen=True, slots=True)
class _Field:
    """What JSON may say for one field. `enum` maps names to numbers; `rivals` are the others of its oneof."""

    name: str
    type: int
    repeated: bool
    map: bool
    enum: dict[str, int]
    rivals: frozenset[str]


def fill(message: Pb, value: object, path: str = "") -> None:
    """Set the fields of `message` from a JSON object, camelCase or snake_case; what is set already may stay.

    Fields given as null stay as they are, lists are appended. `parts` may be one object instead of a list.
    Recursion ends with the message types, whatever the data's own depth.

    Args:
        message: The message to fill.
        value: The JSON value that should be an object.
        path: Where it stands in the record, for messages; empty for fields of the record itself.

    Raises:
        RuleError: `WRONG_TYPE`, `UNKNOWN_FIELD`, `DUPLICATE_FIELD`, `NEEDS_V1BETA`, `ONEOF_CONFLICT`,
            `OUT_OF_RANGE` or `INVALID_ENUM`.
    """
    if not isinstance(value, dict):
        raise wrong_type(path, "an object", value)
    fields = _fields(message.DESCRIPTOR)
    given: set[str] = set()
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            raise _unknown_field(message.DESCRIPTOR, name, path)
        if item is None:
            continue
        if field.name in given:
            raise RuleError(
                "DUPLICATE_FIELD",
                f"{path}.{field.name} is given in camelCase and snake_case: keep one of them",
            )
        rival = field.rivals & given
        if rival:
            raise RuleError(
                "ONEOF_CONFLICT",
                f"{path} has {min(rival)} and {field.name}: split it, one of them in each",
            )
        given.add(field.name)
        _set(message, field, item, f"{path}.{field.name}" if path else field.name)


def fill_list(messages: Any, value: object, path: str) -> None:
    """Append one message to a repeated field for every object of a JSON list; see `fill`."""
    if not isinstance(value, list):
        raise wrong_type(path, "a list", value)
    for index, item in enumerate(value):
        fill(messages.add(), item, f"{path}[{index}]")


def field_names(message: Pb) -> frozenset[str]:
    """Every name that `fill` takes for a field of `message`."""
    return frozenset(_fields(message.DESCRIPTOR))


def _set(message: Pb, field: _Field, item: object, path: str) -> None:
    if field.map:
        _set_map(getattr(message, field.name), item, path)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        if field.repeated:
            as_list = [item] if field.name == "parts" and isinstance(item, dict) else item
            fill_list(getattr(message, field.name), as_list, path)
        else:
            child = getattr(message, field.name)
            child.SetInParent()  # an empty object is not the same as none
            fill(child, item, path)
    elif field.repeated:
        if not isinstance(item, list):
            raise wrong_type(path, "a list", item)
        getattr(message, field.name).extend(_scalar(field, one, f"{path}[{i}]") for i, one in enumerate(item))
    else:
        setattr(message, field.name, _scalar(field, item, path))


def _set_map(target: Any, item: object, path: str) -> None:
    if not isinstance(item, dict):
        raise wrong_type(path, "an object of strings", item)
    for key, value in item.items():
        if value is None:  # how a table says that there is none
            continue
        if not isinstance(value, str):
            raise wrong_type(f"{path}[{quoted(key)}]", "a string", value)
        target[key] = value


def _number(item: object) -> object:
    """The number that a table wrote as text; anything else as it is."""
    if isinstance(item, str) and _NUMBER.fullmatch(item):
        return float(item) if set(item) & set(".eE") else int(item)
    return item


def _scalar(field: _Field, item: object, path: str) -> str | int | float | bool:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            if not isinstance(item, str):
                raise wrong_type(path, "a string", item)
            return item
        case FieldDescriptor.TYPE_BOOL:
            if not isinstance(item, bool):
                raise wrong_type(path, "true or false", item)
            return item
        case FieldDescriptor.TYPE_ENUM:
            return _enum_number(field, item, path)
        case FieldDescriptor.TYPE_INT32:
            item = _number(item)
            if isinstance(item, float) and item.is_integer():  # as tables write whole numbers beside gaps
                item = int(item)
            if not isinstance(item, int) or isinstance(item, bool):
                raise wrong_type(path, "a whole number", item)
            return _in_range(item, RANGES.get(field.name, _INT32), path)
        case _:
            item = _number(item)
            if not isinstance(item, (int, float)) or isinstance(item, bool):
                raise wrong_type(path, "a number", item)
            return _in_range(item, RANGES.get(field.name, (-_LARGEST_FLOAT, _LARGEST_FLOAT)), path)


def _in_range(item: float, limits: tuple[float, float], path: str) -> float:
    low, high = limits
    if not low <= item <= high:
        shown = "too far from 0" if abs(item) >= 10**15 else f"{item:,}"
        raise RuleError("OUT_OF_RANGE", f"{path} is {shown}: it must be from {_limit(low)} to {_limit(high)}")
    return item


def _limit(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _enum_number(field: _Field, item: object, path: str) -> int:
    if isinstance(item, str) and item in field.enum:
        return field.enum[item]
    if isinstance(item, int) and not isinstance(item, bool) and item in field.enum.values():
        return item
    raise RuleError("INVALID_ENUM", f"{path} must be one of {', '.join(field.enum)} or its number")


def _unknown_field(descriptor: Pb, name: str, path: str) -> RuleError:
    fields = _fields(descriptor)
    snake = next((f for m, f in V1BETA_ONLY if m == descriptor.name and name in (f, camel(f))), None)
    if snake is not None:
        return RuleError("NEEDS_V1BETA", f"{path}.{snake} exists in v1beta only: give --api_version=v1beta")
    meant = nearest(name, fields)
    if meant is not None:
        hint = f"did you mean {fields[meant].name}?"
    else:
        known = ", ".join(sorted({field.name for field in fields.values()}))
        hint = f"it takes {known}" if known else "it takes no fields"
    return RuleError("UNKNOWN_FIELD", f"{path} has a field {quoted(name)} that the API does not know: {hint}")


@cache
def _fields(descriptor: Pb) -> dict[str, _Field]:
    """The fields of a message type under both their names."""
    fields: dict[str, _Field] = {}
    for one in descriptor.fields:
        oneof = one.containing_oneof
        described = _Field(
            name=one.name,
            type=one.type,
            repeated=one.is_repeated,
            map=one.message_type is not None and one.message_type.GetOptions().map_entry,
            enum={v.name: v.number for v in one.enum_type.values} if one.enum_type is not None else {},
            rivals=frozenset(f.name for f in oneof.fields if f is not one)
            if oneof is not None
            else frozenset(),
        )
        fields[one.name] = fields[one.json_name] = described
    return fields
