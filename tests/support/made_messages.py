"""Messages of every shape: whatever a message type's descriptor allows, for properties to hold on."""

from __future__ import annotations

import math
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_VALUES: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: texts,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=6),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: _INT32,
    # One NaN alone: its sign and payload mean nothing, and JSON has no place for them. The last numbers before
    # a float's end are beyond it in the decimals that protobuf writes.
    FieldDescriptor.TYPE_FLOAT: st.floats(-(2.0**127), 2.0**127, width=32)
    | st.sampled_from([math.nan, math.inf, -math.inf]),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False) | st.just(math.nan),
    # Mostly numbers that this version knows, and some that it does not.
    FieldDescriptor.TYPE_ENUM: st.one_of(st.integers(0, 5), _INT32),
}


def messages(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Messages of a class, every field of which may be there or not."""
    return _fields_of(kind.DESCRIPTOR).map(lambda fields: kind(**fields))


def _fields_of(descriptor: Descriptor) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={field.name: _values(field) for field in descriptor.fields})


def _values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return st.dictionaries(texts, texts, max_size=3)
    one = _VALUES[field.type] if kind is None else st.deferred(lambda: _fields_of(kind))
    return st.lists(one, max_size=3) if field.is_repeated else one
