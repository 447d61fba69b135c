"""Every field of both requests, in every version, can be said by a record and is seen in what goes out.

Nothing here lists the fields: they are walked in the library's own descriptors, and the record that sets one is
made from them. A field that a new release of the library brings fails here until records can say it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor

from groundrows.schemas.check import CheckSettings, parse_check
from groundrows.schemas.discoveryengine.messages import ApiVersion, request_class
from groundrows.schemas.names import camel
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.schemas.service import Method
from groundrows.transforms.generate.calling.conversation import turn_request
from tests.contract.descriptors import Path, field_at, is_map, is_message, leaves, values_at

LOCATION = "projects/p/locations/global"
VERSIONS: tuple[ApiVersion, ...] = ("v1", "v1beta")
METHODS: tuple[Method, ...] = ("generate", "check")

# What a record may not say, and why. Whatever stands here must be a field, and must not be heeded.
NOT_SAID: dict[tuple[Method, str], str] = {
    ("generate", "location"): "a run has one location, given as --location",
    ("check", "grounding_config"): "it is made of the run's location",
}
# The one string field whose values the API itself restricts, beside enums.
_ROLES = "role"


def fields_of_every_request() -> Iterator[Any]:
    for version in VERSIONS:
        for method in METHODS:
            for path in leaves(request_class(version, method).DESCRIPTOR):
                if (method, path[0]) not in NOT_SAID:
                    yield pytest.param(version, method, path, id=f"{version}-{method}-{'.'.join(path)}")


def record_saying(descriptor: Any, path: Path, spelled: Any) -> dict[str, Any]:
    """A record with every field of a request, oneofs decided for `path`, its names as `spelled` writes them."""
    record: dict[str, Any] = _filled(descriptor, path, spelled)
    for _, name in NOT_SAID:
        record.pop(spelled(name), None)
    return record


def _filled(descriptor: Any, path: Path, spelled: Any) -> dict[str, Any]:
    return {
        spelled(field.name): _value(field, path, spelled)
        for field in descriptor.fields
        if _chosen(field, path)
    }


def _chosen(field: Any, path: Path) -> bool:
    """Of a oneof the member that leads to `path` is set, or else the first."""
    oneof = field.containing_oneof
    if oneof is None or len(oneof.fields) == 1:
        return True
    wanted = [each.name for each in oneof.fields if path and each.name == path[0]]
    return field.name == (wanted[0] if wanted else oneof.fields[0].name)


def _value(field: Any, path: Path, spelled: Any) -> Any:
    below = path[1:] if path and path[0] == field.name else ()
    if is_map(field):
        return {"key-1": "value-1"}
    value = _filled(field.message_type, below, spelled) if is_message(field) else _scalar(field)
    return [value] if field.is_repeated else value


def _scalar(field: Any) -> Any:
    """A value of the field's type that differs from its default, and lies in all the documented ranges."""
    if field.name == _ROLES:
        return "user"
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return f"{field.name} said"
        case FieldDescriptor.TYPE_BOOL:
            return True
        case FieldDescriptor.TYPE_ENUM:
            return field.enum_type.values[-1].name
        case FieldDescriptor.TYPE_INT32:
            return 3
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return 0.25
    raise AssertionError(f"no value for {field.full_name}: say how a record gives one of its type")


def _sent(field: Any) -> Any:
    """What the message must hold for what `_value` said."""
    if is_map(field):
        return {"key-1": "value-1"}
    if is_message(field):
        return field.message_type._concrete_class()
    value = _scalar(field)
    return field.enum_type.values_by_name[value].number if field.enum_type else value


def parsed(record: dict[str, Any], version: ApiVersion, method: Method) -> Question:
    read = Record(json.dumps(record).encode(), "a.jsonl:1")
    if method == "check":
        return parse_check(read, CheckSettings(api_version=version, claim_scores=False))
    return parse_question(read, RecordSettings(api_version=version))


def going_out(record: dict[str, Any], version: ApiVersion, method: Method) -> bytes:
    return turn_request(parsed(record, version, method), (), LOCATION)


@pytest.mark.parametrize("spelled", [str, camel], ids=["snake", "camel"])
@pytest.mark.parametrize(("version", "method", "path"), list(fields_of_every_request()))
def test_a_record_can_say_it_and_it_goes_out(
    version: ApiVersion, method: Method, path: Path, spelled: Any
) -> None:
    request = request_class(version, method)
    record = record_saying(request.DESCRIPTOR, path, spelled)
    message = request.FromString(going_out(record, version, method))
    assert values_at(message, path) == [_sent(field_at(request.DESCRIPTOR, path))]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "name"), NOT_SAID)
def test_what_a_record_may_not_say_is_a_field_and_comes_from_the_run(
    version: ApiVersion, method: Method, name: str
) -> None:
    request = request_class(version, method)
    assert name in request.DESCRIPTOR.fields_by_name, f"{name} is no field any more: forget it"
    record = record_saying(request.DESCRIPTOR, (), str)
    plain = going_out(record, version, method)
    for spelling in (name, camel(name)):
        with_it = {**record, spelling: "from the record"}
        assert going_out(with_it, version, method) == plain, f"{name} is heeded now: forget the reason"
        assert json.loads(parsed(with_it, version, method).metadata or "") == {spelling: "from the record"}
    assert values_at(request.FromString(plain), (name,))[0].startswith(LOCATION)


def test_every_alternative_of_a_oneof_is_among_the_fields() -> None:
    names = {path for path in leaves(request_class("v1beta").DESCRIPTOR) if path[0] == "grounding_spec"}
    sources = field_at(
        request_class("v1beta").DESCRIPTOR, ("grounding_spec", "grounding_sources")
    ).message_type
    assert {path[2] for path in names} == {field.name for field in sources.oneofs_by_name["source"].fields}


@pytest.mark.parametrize("method", METHODS)
def test_a_field_that_records_can_not_say_would_be_seen(method: Method) -> None:
    """A made-up release with one more field: the record made from it does not bring it to the wire."""
    descriptor = _with_another_field(request_class("v1", method).DESCRIPTOR)
    path = ("verbosity",)
    assert path in set(leaves(descriptor))
    record = record_saying(descriptor, path, str)
    newer = message_factory.GetMessageClass(descriptor)
    assert values_at(newer.FromString(going_out(record, "v1", method)), path) == []


def _with_another_field(descriptor: Any) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in _files(descriptor.file):
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        for message in proto.message_type:
            if message.name == descriptor.name and file is descriptor.file:
                message.field.add(name="verbosity", number=999, type="TYPE_INT32", label="LABEL_OPTIONAL")
        pool.Add(proto)
    return pool.FindMessageTypeByName(descriptor.full_name)


def _files(file: Any, seen: set[str] | None = None) -> Iterator[Any]:
    """A file's dependencies, then itself."""
    seen = set() if seen is None else seen
    for dependency in file.dependencies:
        if dependency.name not in seen:
            yield from _files(dependency, seen)
    seen.add(file.name)
    yield file
