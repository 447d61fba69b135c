import contextlib
import csv
import io
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundrows.pipeline.sources.formats.csv_rows import read_csv
from groundrows.pipeline.sources.formats.items import KEPT_BYTES, MAX_RECORD_BYTES, Item
from groundrows.schemas.outcome import Failure
from groundrows.schemas.record import Record

encodable = st.characters(exclude_categories=["Cs"])
cells = st.text(encodable, max_size=20) | st.text(',"\n\r\0 a', max_size=8)


def read(data: bytes | str) -> list[Item]:
    return list(read_csv(io.BytesIO(data.encode() if isinstance(data, str) else data), "a.csv"))


def rows(data: bytes | str) -> list[object]:
    items = read(data)
    assert all(isinstance(item, Record) for item in items), items
    return [json.loads(item.body) for item in items if isinstance(item, Record)]


def failed(item: Item) -> Failure:
    assert isinstance(item, Failure)
    assert item.stage == "read"
    return item


def test_rows_become_compact_json_with_the_line_they_start_on() -> None:
    assert read('question,id\r\n"Où est\r\nle ""Louvre""?",7\r\n\r\nWho?,08\n') == [
        Record('{"question":"Où est\\r\\nle \\"Louvre\\"?","id":"7"}'.encode(), "a.csv:2"),
        Record(b'{"question":"Who?","id":"08"}', "a.csv:5"),
    ]


@given(table=st.lists(st.tuples(cells, cells, cells), max_size=6), end=st.sampled_from(["\n", "\r\n"]))
@example(table=[('"', "\0", "\r"), ("\n", ",", '""\n')], end="\r\n")
def test_round_trip(table: list[tuple[str, str, str]], end: str) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("question", "b", "c"), *table])
    expected = [
        {k: v for k, v in zip(("question", "b", "c"), row, strict=True) if v} for row in table if any(row)
    ]
    assert rows(text.getvalue()) == expected


@given(data=st.text('ab",\n\r', max_size=40).map(str.encode) | st.binary(max_size=60))
def test_any_bytes_give_items_or_one_refusal_of_the_file(data: bytes) -> None:
    items = []
    with contextlib.suppress(ValueError):
        items = read(data)
    for item in items:
        assert 2 <= int(item.origin.removeprefix("a.csv:")) <= data.count(b"\n") + data.count(b"\r") + 1


def test_empty_cells_are_absent_and_nothing_else_is_trimmed() -> None:
    assert rows('question,id,note\n Why? ,,"  "\n,"",\n') == [{"question": " Why? ", "note": "  "}]


def test_structured_cells_are_parsed_and_the_question_never() -> None:
    data = (
        "question,facts,metadata,generationSpec,extra\n"
        '"[1]","[""a"",{""fact_text"":""b""}]"," {""n"":null,""x"":1.50}","{""seed"":12345678901234567890}","[1]"\n'
    )
    assert rows(data) == [
        {
            "question": "[1]",
            "facts": ["a", {"fact_text": "b"}],
            "metadata": {"n": None, "x": 1.5},
            "generationSpec": {"seed": 12345678901234567890},
            "extra": "[1]",
        }
    ]


@pytest.mark.parametrize("cell", ["[1", "{a}", '{"x": NaN}', "[" * 100_000, '{"a":1,"a":2}', "plain"])
def test_a_broken_structured_cell_stays_a_string(cell: str) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["question", "facts"], ["q", cell]])
    assert rows(text.getvalue()) == [{"question": "q", "facts": cell}]


def test_half_a_surrogate_pair_in_a_structured_cell_is_left_for_parsing_to_name() -> None:
    assert read('question,facts\né,"[""\\ud83d""]"\n') == [
        Record(b'{"question":"\\u00e9","facts":["\\ud83d"]}', "a.csv:2")
    ]


def test_bytes_that_are_not_utf8_stay_as_they_are() -> None:
    assert read(b"question\ncaf\xe9\n") == [Record(b'{"question":"caf\xe9"}', "a.csv:2")]


def test_a_byte_order_mark_and_spaces_around_names_are_no_part_of_them() -> None:
    assert rows(b"\xef\xbb\xbfquestion , id\na,b\n") == [{"question": "a", "id": "b"}]


def test_unnamed_columns_get_a_name() -> None:
    assert rows("question,,\na,,\nb,c,d\n") == [
        {"question": "a"},
        {"question": "b", "column_2": "c", "column_3": "d"},
    ]


def test_ragged_rows_fail_alone_with_their_text() -> None:
    short, good, long = read('question,id\na\r\nb,1\n"c\nd",2,3\n')
    assert good == Record(b'{"question":"b","id":"1"}', "a.csv:3")
    assert (failed(short).code, failed(short).record, short.origin) == ("INVALID_CSV", b"a", "a.csv:2")
    assert (failed(long).record, long.origin) == (b'"c\nd",2,3', "a.csv:4")
    assert "has 3 cells where the header has 2" in failed(long).message


def test_a_misplaced_quote_fails_alone() -> None:
    bad, good = read('question,id\n"a"b,1\nc,2\n')
    assert (failed(bad).code, failed(bad).record, bad.origin) == ("INVALID_CSV", b'"a"b,1', "a.csv:2")
    assert good == Record(b'{"question":"c","id":"2"}', "a.csv:3")


def test_a_quote_that_is_never_closed_is_said_and_not_swallowed() -> None:
    good, bad = read('question,id\na,1\n"b,2\nc,3\n')
    assert isinstance(good, Record)
    assert (failed(bad).record, bad.origin) == (b'"b,2\nc,3', "a.csv:3")


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_a_row_over_the_limit_costs_one_failure_and_reading_goes_on(quote: bytes) -> None:
    # Inside an open quote the row is many lines, none of which is too long by itself.
    line = b"x" * (1 << 20) + (b"\n" if quote else b"")
    data = b"question\na\n" + quote + line * (MAX_RECORD_BYTES // len(line) + 1) + b"\nb\n"
    items = read(data)
    assert items[0] == Record(b'{"question":"a"}', "a.csv:2")
    assert (failed(items[1]).code, items[1].origin) == ("TOO_LARGE", "a.csv:3")
    assert failed(items[1]).record == (quote + line * 2)[:KEPT_BYTES]
    assert isinstance(items[-1], Record)
    assert items[-1].body == b'{"question":"b"}'


def test_a_large_cell_passes() -> None:
    assert rows("question\n" + "x" * 10_000_000 + "\n") == [{"question": "x" * 10_000_000}]


@pytest.mark.parametrize("data", ["", "\n\n", "question,id\n", "\n\nquestion"])
def test_no_rows(data: str) -> None:
    assert read(data) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"question,id, id\na,b,c\n", "`id` twice"),
        (b"qu\xe9stion\na\n", "not UTF-8"),
        (b'"question\na\n', "not CSV"),
        (b"question\ra\rb\n", "not CSV"),
    ],
)
def test_an_unusable_header_refuses_the_file(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read(data)
