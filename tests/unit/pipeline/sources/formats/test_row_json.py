import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.sources.formats.items import KEPT_BYTES, MAX_RECORD_BYTES
from groundrows.pipeline.sources.formats.row_json import plain, record_of
from groundrows.schemas.outcome import Failure
from groundrows.schemas.record import Record


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (2**63, 2**63),
        (1.5, 1.5),
        (math.nan, None),
        (-math.inf, None),
        (date(2024, 2, 29), "2024-02-29"),
        (datetime(2024, 2, 29, 1, 2, 3, 4000, UTC), "2024-02-29T01:02:03.004000+00:00"),
        (datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=2))), "2024-02-29T00:00:00+02:00"),
        (datetime(2024, 2, 29), "2024-02-29T00:00:00"),
        (time(1, 2, 3), "01:02:03"),
        (timedelta(seconds=90, microseconds=500), "PT90.0005S"),
        (timedelta(days=-1), "PT-86400S"),
        (Decimal("12345678901234567890.12345678901234567800"), "12345678901234567890.12345678901234567800"),
        (Decimal("1E+3"), "1000"),
        (Decimal("1E-9"), "0.000000001"),
        ("é".encode(), "é"),
        (b"\xff\x00", "/wA="),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([1, None, (2, math.nan)], [1, None, [2, None]]),
        ({"a": None, "b": {"c": None, "d": math.nan}, 3: "x"}, {"b": {"d": None}, "3": "x"}),
    ],
    ids=repr,
)
def test_plain(value: object, expected: object) -> None:
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9))
def test_decimals_are_exact(value: Decimal) -> None:
    assert Decimal(str(plain(value))) == value


@given(st.timedeltas())
def test_durations_are_exact(value: timedelta) -> None:
    text = str(plain(value))
    assert Decimal(text[2:-1]) * 1_000_000 == value // timedelta(microseconds=1)


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
def test_a_record_holds_its_row(row: dict[str, object]) -> None:
    item = record_of(row, "a:1")
    assert isinstance(item, Record)
    assert json.loads(item.body) == row
    assert item.body == json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


@given(st.binary())
def test_undecodable_bytes_come_back(data: bytes) -> None:
    item = record_of([data.decode("utf-8", "surrogateescape")], "a:1")
    assert isinstance(item, Record)
    printable = bytes(b for b in data if b >= 0x80)
    assert bytes(b for b in item.body if b >= 0x80) == printable


def test_a_row_over_the_limit_fails_alone() -> None:
    item = record_of({"question": "é" * (MAX_RECORD_BYTES // 2)}, "a:1")
    assert isinstance(item, Failure)
    assert (item.code, len(item.record)) == ("TOO_LARGE", KEPT_BYTES)


def test_a_row_too_deep_fails_alone_with_its_text() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    item = record_of(deep, "a:1", lambda: b"raw text")
    assert isinstance(item, Failure)
    assert (item.code, item.stage, item.record) == ("INVALID_ROW", "read", b"raw text")
