import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.sources.formats.items import KEPT_BYTES, MAX_RECORD_BYTES, Item
from groundrows.pipeline.sources.formats.json_document import read_json_document
from groundrows.pipeline.sources.formats.jsonlines import read_json_file, read_json_lines
from groundrows.schemas.outcome import Failure
from groundrows.schemas.record import Record

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def read(data: bytes) -> list[Item]:
    return list(read_json_lines(io.BytesIO(data), "a.jsonl"))


def test_bodies_are_the_lines_own_bytes_and_origins_count_every_line() -> None:
    assert read(b'{"a": 1}\r\n\n  \t\r\n {"b" :2} \n\xff\xfe not UTF-8\nlast') == [
        Record(b'{"a": 1}', "a.jsonl:1"),
        Record(b' {"b" :2} ', "a.jsonl:4"),
        Record(b"\xff\xfe not UTF-8", "a.jsonl:5"),
        Record(b"last", "a.jsonl:6"),
    ]


@given(
    objects=st.lists(st.dictionaries(st.text(), json_values, max_size=4)),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
def test_round_trip(objects: list[dict[str, object]], end: str, last: bool) -> None:
    lines = [json.dumps(value, ensure_ascii=False).encode() for value in objects]
    data = end.encode().join(lines) + (end.encode() if last else b"")
    assert read(data) == [Record(line, f"a.jsonl:{number}") for number, line in enumerate(lines, 1)]


def test_fifty_megabytes_pass_whole() -> None:
    body = b'{"question":"' + b"x" * 50_000_000 + b'"}'
    assert read(body + b"\n{}\n") == [Record(body, "a.jsonl:1"), Record(b"{}", "a.jsonl:2")]


def test_a_line_over_the_limit_costs_one_failure_and_reading_goes_on() -> None:
    long, after = read(b"y" * (MAX_RECORD_BYTES + 1) + b"\n{}\n")
    assert after == Record(b"{}", "a.jsonl:2")
    assert isinstance(long, Failure)
    assert (long.stage, long.code, long.origin, long.record) == (
        "read",
        "TOO_LARGE",
        "a.jsonl:1",
        b"y" * KEPT_BYTES,
    )
    assert "64 MiB" in long.message
    assert "first 64 KiB" in long.message


@pytest.mark.parametrize(
    ("data", "bodies"),
    [
        (b'[{"question": "a"}, {"question": "b"}]', [b'{"question": "a"}', b'{"question": "b"}']),
        (b'\n\n  [\n  {"question": "a"}\n]\n', [b'{"question": "a"}']),
        (b'\xef\xbb\xbf[\n{"question": "a"}]', [b'{"question": "a"}']),
        (b'{\n  "question": "a"\n}\n', [b'{\n  "question": "a"\n}']),
        (b"[" + b" " * MAX_RECORD_BYTES + b"]", []),
        (
            b'[{"q": "],[\\""}, {bad}, [1, {"a": []}], 2]',
            [b'{"q": "],[\\""}', b"{bad}", b'[1, {"a": []}]', b"2"],
        ),
    ],
    ids=["array", "indented array", "byte order mark", "indented object", "huge array", "brackets in texts"],
)
def test_a_json_file_that_is_one_document_has_its_records(data: bytes, bodies: list[bytes]) -> None:
    items = list(read_json_file(io.BytesIO(data), "a.json"))
    assert items == [Record(body, f"a.json:{number}") for number, body in enumerate(bodies, 1)]


@given(
    values=st.lists(json_values, max_size=6),
    indent=st.sampled_from([None, 1]),
    size=st.integers(1, 9),
    ascii_only=st.booleans(),
)
def test_an_array_in_pieces_of_any_size(
    values: list[object], indent: int | None, size: int, ascii_only: bool
) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    bodies = [item.body for item in read_json_document(chunks, "a.json") if isinstance(item, Record)]
    assert [json.loads(body) for body in bodies] == values


@pytest.mark.parametrize("data", [b'[{"question": "a"}', b'[{"question": "a', b"[1]]", b"{\n}}"])
def test_a_document_that_is_not_closed_gives_what_it_has_and_says_where_it_ends(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"breaks off within record 1|has a . without its partner"):
        list(read_json_file(io.BytesIO(data), "a.json"))


def test_a_record_of_an_array_over_the_limit_costs_one_failure() -> None:
    data = b'[{"a": "' + b"y" * MAX_RECORD_BYTES + b'"}, {}]'
    long, after = read_json_file(io.BytesIO(data), "a.json")
    assert after == Record(b"{}", "a.json:2")
    assert isinstance(long, Failure)
    assert (long.code, long.origin, len(long.record)) == ("TOO_LARGE", "a.json:1", KEPT_BYTES)


def test_a_json_file_of_lines_is_read_as_lines() -> None:
    data = b'{"question": "a"}\n[1]\n{"question": "b"}\n'
    assert list(read_json_file(io.BytesIO(data), "a.json")) == list(
        read_json_lines(io.BytesIO(data), "a.json")
    )
    assert len(read(data)) == 3
