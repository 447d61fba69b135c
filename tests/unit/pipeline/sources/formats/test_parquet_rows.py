import io
import json
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundrows.pipeline.sources.formats.items import Item
from groundrows.pipeline.sources.formats.parquet_rows import read_parquet
from groundrows.schemas.outcome import Failure
from groundrows.schemas.record import Record

# 2024-02-29T01:02:03.123456789
NANOSECONDS = 1_709_168_523_123_456_789


def parquet(table: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def read(data: bytes) -> list[Item]:
    return list(read_parquet(io.BytesIO(data), "a.parquet"))


def only_row(column: pa.Array) -> object:
    (item,) = read(parquet(pa.table({"x": column})))
    assert isinstance(item, Record), item
    return json.loads(item.body).get("x", "absent")


def test_rows_become_compact_json_numbered_from_one() -> None:
    table = pa.table(
        {"question": ["Où?", "b"], "id": pa.array([None, 7], pa.int64()), "facts": [["f"], None]}
    )
    assert read(parquet(table)) == [
        Record('{"question":"Où?","facts":["f"]}'.encode(), "a.parquet:1"),
        Record(b'{"question":"b","id":7}', "a.parquet:2"),
    ]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([None], pa.string()), "absent"),
        (pa.array([float("nan")]), None),
        (pa.array([date(2024, 2, 29)]), "2024-02-29"),
        (pa.array([datetime(2024, 2, 29, 1)], pa.timestamp("ms", "UTC")), "2024-02-29T01:00:00+00:00"),
        (pa.array([NANOSECONDS], pa.timestamp("ns")), "2024-02-29T01:02:03.123456"),
        (pa.array([3_600_000_000_123], pa.time64("ns")), "01:00:00"),
        (pa.array([1_500_000_123], pa.duration("ns")), "PT1.5S"),
        (pa.array([[NANOSECONDS]], pa.list_(pa.timestamp("ns"))), ["2024-02-29T01:02:03.123456"]),
        (pa.array([[NANOSECONDS]], pa.large_list(pa.timestamp("ns"))), ["2024-02-29T01:02:03.123456"]),
        (
            pa.array([{"at": NANOSECONDS}], pa.struct([("at", pa.timestamp("ns"))])),
            {"at": "2024-02-29T01:02:03.123456"},
        ),
        (
            pa.array([[("k", NANOSECONDS)]], pa.map_(pa.string(), pa.timestamp("ns"))),
            {"k": "2024-02-29T01:02:03.123456"},
        ),
        (pa.array([Decimal("1.5000")], pa.decimal128(20, 4)), "1.5000"),
        (pa.array([b"abc"]), "abc"),
        (pa.array([b"\xff"]), "/w=="),
        (pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string())), {"k": "v"}),
        (pa.array([[]], pa.map_(pa.string(), pa.string())), {}),
        (pa.array([[(1, "v")]], pa.map_(pa.int32(), pa.string())), {"1": "v"}),
        (pa.array([{"a": {"b": [1, None]}, "c": None}]), {"a": {"b": [1, None]}}),
        (pa.array(["a"]).dictionary_encode(), "a"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_types(column: pa.Array, expected: object) -> None:
    assert only_row(column) == expected


def test_row_groups_and_batches_keep_the_order() -> None:
    items = read(parquet(pa.table({"question": [f"q{i}" for i in range(1000)]}), row_group_size=150))
    assert items == [Record(b'{"question":"q%d"}' % i, f"a.parquet:{i + 1}") for i in range(1000)]


def test_a_row_that_python_cannot_hold_fails_alone() -> None:
    at = pa.array([0] * 70 + [10**17] + [0] * 9, pa.timestamp("ms"))
    twice = pa.array([[("k", 1)]] * 79 + [[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    items = read(parquet(pa.table({"at": at, "labels": twice})))
    assert [item.origin for item in items] == [f"a.parquet:{number}" for number in range(1, 81)]
    failures = [item for item in items if isinstance(item, Failure)]
    assert [(failure.code, failure.origin) for failure in failures] == [
        ("INVALID_ROW", "a.parquet:71"),
        ("INVALID_ROW", "a.parquet:80"),
    ]


def test_text_that_is_not_utf8_fails_alone() -> None:
    text = pa.array([b"fine", b"X\xffZ"]).view(pa.string())
    first, second = read(parquet(pa.table({"question": text})))
    assert first == Record(b'{"question":"fine"}', "a.parquet:1")
    assert isinstance(second, Failure)


def test_a_stream_that_cannot_seek_is_read_all_the_same() -> None:
    class Stream(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._data = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            return self._data.read(min(size, 10))

    data = parquet(pa.table({"question": ["a", "b"]}))
    assert list(read_parquet(Stream(data), "a.parquet")) == read(data)


def test_columns_of_one_name_refuse_the_file() -> None:
    with pytest.raises(ValueError, match="same name"):
        read(parquet(pa.table([["a"], ["b"]], names=["question", "question"])))


def test_no_rows() -> None:
    assert read(parquet(pa.table({"question": pa.array([], pa.string())}))) == []


def test_what_is_not_parquet_is_refused() -> None:
    data = parquet(pa.table({"question": ["a"]}))
    for broken in (b"", b"PAR1", data[:-1], data[: len(data) // 2], b'{"question": "a"}\n'):
        with pytest.raises(pa.ArrowException):
            read(broken)
