"""The API's messages as a tree of leaf fields, walked from protobuf's own descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

Path = tuple[str, ...]
"""The names of the fields from the message down to a leaf."""


def leaves(descriptor: Any, above: Path = ()) -> Iterator[Path]:
    """Every leaf of a message type: its scalars, maps, and messages that have no fields."""
    for field in descriptor.fields:
        path = (*above, field.name)
        if is_message(field) and field.message_type.fields:
            yield from leaves(field.message_type, path)
        else:
            yield path


def is_message(field: Any) -> bool:
    """Whether a field holds a message of its own, and not a scalar or a map."""
    return field.type == FieldDescriptor.TYPE_MESSAGE and not is_map(field)


def is_map(field: Any) -> bool:
    """Whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def field_at(descriptor: Any, path: Path) -> Any:
    """The descriptor of the field at a path."""
    for name in path[:-1]:
        descriptor = descriptor.fields_by_name[name].message_type
    return descriptor.fields_by_name[path[-1]]


def values_at(message: Any, path: Path) -> list[Any]:
    """What a message says at a path, in every element of the lists on the way; empty where it is not set."""
    held = [message]
    for name in path:
        held = [value for each in held for value in _values(each, name)]
    return held


def _values(message: Any, name: str) -> list[Any]:
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        return []
    value = getattr(message, name)
    if is_map(field):
        return [dict(value)] if value else []
    if field.is_repeated:
        return list(value)
    if field.has_presence:
        return [value] if message.HasField(name) else []
    return [value] if value != field.default_value else []
