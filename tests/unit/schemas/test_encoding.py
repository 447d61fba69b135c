"""Our bytes are what fastavro writes for the same values, and what it reads back."""

from datetime import UTC, datetime, timedelta, tzinfo
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.schemas.encoding import MisfitError, put_of

MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("string", TEXT | TEXT.map(lambda text: text * 40)),
    ("bytes", st.binary(max_size=300)),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("double", st.floats(allow_nan=False)),
    (MOMENT, st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))),
    (["null", "string"], st.none() | TEXT),
    (["null", MOMENT], st.none() | st.datetimes(timezones=st.just(UTC))),
    ({"type": "array", "items": "string"}, st.lists(TEXT, max_size=80)),
    ({"type": "array", "items": ["null", "double"]}, st.lists(st.none() | st.floats(allow_nan=False))),
    ({"type": "map", "values": "string"}, st.dictionaries(TEXT, TEXT, max_size=80)),
]


def by_fastavro(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.mark.parametrize(("schema", "values"), TYPES, ids=lambda value: str(value)[:40])
@given(data=st.data())
def test_bytes_are_those_of_fastavro(
    schema: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)
    out = bytearray()
    put_of(schema, {})(value, out)
    assert bytes(out) == by_fastavro(schema, value)
    assert fastavro.schemaless_reader(BytesIO(bytes(out)), fastavro.parse_schema(schema), None) == value


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 8191, 8192, 1_000_000])
def test_lengths_at_the_edges_of_a_byte(size: int) -> None:
    for schema, value in (("string", "x" * size), ("bytes", b"x" * size)):
        out = bytearray()
        put_of(schema, {})(value, out)
        assert bytes(out) == by_fastavro(schema, value)


def test_a_moment_before_the_epoch_keeps_its_microseconds() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - timedelta(microseconds=1)
    out = bytearray()
    put_of(MOMENT, {})(moment, out)
    assert fastavro.schemaless_reader(BytesIO(bytes(out)), fastavro.parse_schema(MOMENT), None) == moment


class Autumn(tzinfo):
    """A zone where clocks go through an hour twice."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1 if moment is not None and moment.fold else 2)

    def dst(self, moment: datetime | None) -> timedelta:
        return self.utcoffset(moment) - timedelta(hours=1)

    def tzname(self, moment: datetime | None) -> str:
        return "autumn"


def test_moments_that_python_calls_equal_are_told_apart() -> None:
    first = datetime(2025, 10, 26, 2, 30, tzinfo=Autumn())
    second = first.replace(fold=1)
    assert first == second
    out = bytearray()
    for moment in (first, second, first):
        put_of(MOMENT, {})(moment, out)
    file = BytesIO(bytes(out))
    read: list[Any] = [
        fastavro.schemaless_reader(file, fastavro.parse_schema(MOMENT), None) for _ in range(3)
    ]
    assert read[1] - read[0] == read[1] - read[2] == timedelta(hours=1)
    assert read[0] == datetime(2025, 10, 26, 0, 30, tzinfo=UTC)


def test_moments_that_come_again_are_written_again() -> None:
    moments = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=number) for number in range(600)]
    given = [*moments, *reversed(moments), *(moment for moment in moments[:9] for _ in range(3))]
    out = bytearray()
    for moment in given:
        put_of(MOMENT, {})(moment, out)
    file = BytesIO(bytes(out))
    schema = fastavro.parse_schema(MOMENT)
    assert [fastavro.schemaless_reader(file, schema, None) for _ in given] == given


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ("string", "\ud83d", "lone surrogate at character 0"),
        ("string", b"x", "must be a string, not bytes"),
        ("int", True, "must be an integer, not bool"),
        ("int", 2**31, "must lie from"),
        ("long", -(2**63) - 1, "must lie from"),
        ("double", "1", "must be a number"),
        ("double", 10**400, "too large"),
        ("boolean", 1, "must be true or false"),
        (MOMENT, datetime(2026, 1, 1), "has no time zone"),
        ({"type": "array", "items": "string"}, "ab", "must be an array, not str"),
        ("string", None, "must be a string, not null"),
    ],
)
def test_what_does_not_fit_is_refused(schema: Any, value: Any, problem: str) -> None:
    with pytest.raises(MisfitError) as caught:
        put_of(schema, {})(value, bytearray())
    assert problem in caught.value.problem
