import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pytest

from groundrows.pipeline.sources.formats.avro_rows import read_avro
from groundrows.pipeline.sources.formats.items import Item
from groundrows.schemas.record import Record

SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "question", "type": "string"},
        {"name": "id", "type": ["null", "string", "long"], "default": None},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
            "default": None,
        },
        {
            "name": "price",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}],
            "default": None,
        },
        {"name": "blob", "type": ["null", "bytes"], "default": None},
        {"name": "score", "type": ["null", "double"], "default": None},
        {"name": "labels", "type": ["null", {"type": "map", "values": "string"}], "default": None},
        {
            "name": "kind",
            "type": ["null", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}],
            "default": None,
        },
        {
            "name": "facts",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": [
                        "string",
                        {
                            "type": "record",
                            "name": "Fact",
                            "fields": [{"name": "fact_text", "type": "string"}],
                        },
                    ],
                },
            ],
            "default": None,
        },
    ],
}


def avro(rows: list[dict[str, object]], **options: object) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, rows, **options)
    return out.getvalue()


def read(data: bytes) -> list[Item]:
    return list(read_avro(io.BytesIO(data), "a.avro"))


def test_rows_become_compact_json_numbered_from_one() -> None:
    data = avro(
        [
            {"question": "Où?"},
            {
                "question": "b",
                "id": 7,
                "day": date(2024, 2, 29),
                "at": datetime(2024, 2, 29, 1, tzinfo=UTC),
                "price": Decimal("1.5000"),
                "blob": b"\xff",
                "score": float("nan"),
                "labels": {"k": "v"},
                "kind": "B",
                "facts": ["f", {"fact_text": "g"}],
            },
        ]
    )
    assert read(data) == [
        Record('{"question":"Où?"}'.encode(), "a.avro:1"),
        Record(
            b'{"question":"b","id":7,"day":"2024-02-29","at":"2024-02-29T01:00:00+00:00","price":"1.5000",'
            b'"blob":"/w==","score":null,"labels":{"k":"v"},"kind":"B","facts":["f",{"fact_text":"g"}]}',
            "a.avro:2",
        ),
    ]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs_and_blocks(codec: str) -> None:
    rows: list[dict[str, object]] = [{"question": f"q{i}" * 50} for i in range(500)]
    items = read(avro(rows, codec=codec, sync_interval=1000))
    assert [json.loads(item.body)["question"] for item in items if isinstance(item, Record)] == [
        r["question"] for r in rows
    ]
    assert [item.origin for item in items] == [f"a.avro:{number}" for number in range(1, 501)]


def test_no_rows() -> None:
    assert read(avro([])) == []


def test_a_cut_anywhere_but_between_blocks_is_an_error() -> None:
    # Blocks of 100 rows: their count takes two bytes, so a cut can fall inside it.
    whole = avro([{"question": "q"}] * 100)
    header = len(avro([]))
    data = whole + whole[header:]
    for size in range(len(data)):
        items = []
        try:
            for item in read_avro(io.BytesIO(data[:size]), "a.avro"):
                items.append(item)  # noqa: PERF402
        except Exception:
            assert size not in (header, len(whole))
        else:
            assert size in (header, len(whole))
        assert len(items) in ((0,) if size < header else (0, 100))


def test_text_that_is_not_utf8_keeps_its_bytes() -> None:
    assert read(avro([{"question": "XYZ"}]).replace(b"XYZ", b"X\xffZ")) == [
        Record(b'{"question":"X\xffZ"}', "a.avro:1")
    ]


def nested(name: str, inner: object, namespace: str = "") -> dict[str, object]:
    return {"type": "record", "name": name, "namespace": namespace, "fields": [{"name": "x", "type": inner}]}


@pytest.mark.parametrize(
    "schema",
    [
        nested("A", ["null", "A"]),
        nested("A", {"type": "array", "items": "A"}, "space"),
        nested("A", {"type": "map", "values": nested("B", ["null", "space.A"], "other")}, "space"),
        nested("Row", [nested("A", ["null", "A"]), "null"]),
    ],
)
def test_a_schema_that_refers_to_itself_is_refused(schema: dict[str, object]) -> None:
    out = io.BytesIO()
    fastavro.writer(out, schema, [])
    with pytest.raises(ValueError, match="refers to itself"):
        read(out.getvalue())


def test_a_type_used_twice_is_not_refused() -> None:
    fact = nested("Fact", "string")
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "a", "type": fact}, {"name": "b", "type": ["null", "Fact"]}],
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"a": {"x": "1"}, "b": {"x": "2"}}])
    assert read(out.getvalue()) == [Record(b'{"a":{"x":"1"},"b":{"x":"2"}}', "a.avro:1")]


@pytest.mark.parametrize("data", [b"", b"Obj", b'{"question": "a"}\n', bytes(100)])
def test_what_is_not_avro_is_refused(data: bytes) -> None:
    with pytest.raises(Exception, match=r"\w"):
        read(data)
