"""Files of a few bytes that stand for more than a machine can hold."""

import io
import json
import zlib

import fastavro
import pytest

from groundrows.pipeline.sources.formats import avro_blocks
from groundrows.pipeline.sources.formats.avro_rows import read_avro
from groundrows.pipeline.sources.formats.items import Item
from groundrows.schemas.record import Record

SYNC = b"0123456789abcdef"


def number(value: int) -> bytes:
    """A zigzag number of Avro."""
    value = value << 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def text(data: bytes) -> bytes:
    return number(len(data)) + data


def container(schema: object, count: int, block: bytes, codec: str = "null") -> bytes:
    """A file of one block, which says that it holds `count` records."""
    meta = number(2) + text(b"avro.schema") + text(json.dumps(schema).encode())
    meta += text(b"avro.codec") + text(codec.encode()) + number(0)
    return b"Obj\x01" + meta + SYNC + number(count) + text(block) + SYNC


def read(data: bytes) -> list[Item]:
    return list(read_avro(io.BytesIO(data), "a.avro"))


def record(*fields: object) -> dict[str, object]:
    return {
        "type": "record",
        "name": "Row",
        "fields": [{"name": f"f{index}", "type": kind} for index, kind in enumerate(fields)],
    }


NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize(
    "items",
    ["null", NOTHING, {"type": "fixed", "name": "F", "size": 0}, {"type": "null"}],
    ids=["null", "record", "fixed", "type"],
)
def test_a_list_of_nothing_is_refused_however_long_it_says_it_is(items: object) -> None:
    data = container(record("string", {"type": "array", "items": items}), 1, text(b"q") + number(1 << 40))
    assert len(data) < 400
    with pytest.raises(ValueError, match="a list of items that hold nothing"):
        read(data)


@pytest.mark.parametrize("fields", [(), ("null",), (NOTHING,)])
def test_records_of_nothing_are_refused_however_many_they_say_they_are(fields: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="its records hold nothing"):
        read(container(record(*fields), 1 << 40, b""))


def test_a_block_that_says_it_holds_more_records_than_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"says that it holds 268435456 records, which it can't"):
        read(container(record("boolean"), 1 << 28, b"\0" * 1000))


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard", "snappy"])
def test_a_block_that_inflates_past_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    out = io.BytesIO()
    fastavro.writer(out, record("string"), [{"f0": "a" * 300_000}, {"f0": "b"}], codec=codec)
    assert len(read(out.getvalue())) == 2
    monkeypatch.setattr(avro_blocks, "MAX_BLOCK_BYTES", 200_000)
    with pytest.raises(ValueError, match="inflates to more than 0 MiB"):
        read(out.getvalue())


def test_a_gigabyte_in_a_megabyte_is_refused_without_being_held() -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = b"".join(squeeze.compress(b"\0" * (1 << 20)) for _ in range(256)) + squeeze.flush()
    with pytest.raises(ValueError, match="inflates to more than 128 MiB"):
        read(container(record("boolean"), 1 << 28, block, "deflate"))


def test_what_fits_is_read() -> None:
    schema = record(
        "string", {"type": "array", "items": ["null", "int"]}, "null", {"type": "map", "values": "null"}
    )
    out = io.BytesIO()
    rows = [{"f0": "q", "f1": [None, 3], "f2": None, "f3": {"a": None}}] * 1000
    fastavro.writer(out, schema, rows, sync_interval=100)
    items = read(out.getvalue())
    assert len(items) == 1000
    assert isinstance(items[-1], Record)
    assert json.loads(items[-1].body) == {"f0": "q", "f1": [None, 3], "f3": {}}
