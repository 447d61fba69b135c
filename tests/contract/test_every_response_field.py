"""Every field of both responses, in every version, is seen in some row.

Nothing here lists the fields: they are walked in the library's own descriptors. A field that a new release of
the library brings fails here until a column shows it, or until a reason stands here why none does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from groundrows.schemas.discoveryengine.messages import ApiVersion, response_class
from groundrows.schemas.service import Method
from tests.contract.descriptors import Path, field_at, is_map, leaves, values_at
from tests.contract.flattened import ANSWER_TEXT, question_of, response_of, rows_of

VERSIONS: tuple[ApiVersion, ...] = ("v1", "v1beta", "v1alpha")
METHODS: tuple[Method, ...] = ("generate", "check")

# What no row shows, and why. Whatever stands here must be a field, and must not be seen.
NOT_SHOWN: dict[tuple[Method, str], str] = {
    ("check", "cited_chunks.index"): "only a stream numbers its chunks so, and a check has none",
}


def fields_of_every_response() -> Iterator[Any]:
    for version in VERSIONS:
        for method in METHODS:
            for path in leaves(response_class(version, method).DESCRIPTOR):
                yield pytest.param(version, method, path, id=f"{version}-{method}-{'.'.join(path)}")


def ordinary(version: ApiVersion, method: Method) -> Any:
    """A response with one of everything that rows are made of, and nothing distinctive."""
    message = response_of(version, method)
    if method == "check":
        message.claims.add(claim_text="Tin melts at 232 °C.")
        message.cited_chunks.add()
        message.cited_facts.add()
        return message
    candidate = message.candidates.add()
    candidate.content.parts.add(text=ANSWER_TEXT)
    candidate.grounding_metadata.support_chunks.add()
    candidate.grounding_metadata.grounding_support.add(claim_text="Tin melts at 232 °C.")
    return message


def set_at(message: Any, path: Path, value: Any) -> None:
    """Set a field in the first element of each list on the way, which is added where there is none."""
    for name in path[:-1]:
        inner = getattr(message, name)
        if message.DESCRIPTOR.fields_by_name[name].is_repeated:
            inner = inner[0] if inner else inner.add()
        message = inner
    field = message.DESCRIPTOR.fields_by_name[path[-1]]
    if is_map(field):
        getattr(message, field.name).update(value)
    elif field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def distinctive(field: Any) -> tuple[Any, str]:
    """A value for a field, and how it shows in a row."""
    if is_map(field):
        return {"key-seen": "value-seen"}, "'key-seen': 'value-seen'"
    match field.type:
        case FieldDescriptor.TYPE_BYTES:
            return b"seen-here", "b'seen-here'"
        case FieldDescriptor.TYPE_STRING:
            return "seen-here", "'seen-here'"
        case FieldDescriptor.TYPE_INT32:
            return 417_702_911, "417702911"
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return 0.3125, "0.3125"
        case FieldDescriptor.TYPE_BOOL:
            return True, f"'{field.name}': True"
        case FieldDescriptor.TYPE_ENUM:
            value = field.enum_type.values[-1]
            return value.number, f"'{value.name}'"
    raise AssertionError(f"no distinctive value for {field.full_name}")


def shown(version: ApiVersion, method: Method, message: Any) -> str:
    return repr([row_dict(row) for row in rows_of(question_of(version, method), message)])


def row_dict(row: Any) -> dict[str, Any]:
    """A row by columns, nested records too, so that a value shows beside its name."""
    return dataclasses.asdict(row)


@pytest.mark.parametrize(("version", "method", "path"), list(fields_of_every_response()))
def test_every_field_of_a_response_is_seen_in_a_row(version: ApiVersion, method: Method, path: Path) -> None:
    message = ordinary(version, method)
    value, sight = distinctive(field_at(message.DESCRIPTOR, path))
    assert sight not in shown(version, method, message)
    set_at(message, path, value)
    assert values_at(message, path), "the test itself must set it"
    is_seen = sight in shown(version, method, message)
    assert is_seen == ((method, ".".join(path)) not in NOT_SHOWN)


def test_what_no_row_shows_is_a_field_of_every_version() -> None:
    for method, path in NOT_SHOWN:
        for version in VERSIONS:
            assert tuple(path.split(".")) in leaves(response_class(version, method).DESCRIPTOR)
