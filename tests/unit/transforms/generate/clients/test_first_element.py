import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.transforms.generate.clients.first_element import FirstElement

TRICKY = {"a": 'brackets ]}{[ and "quotes\\" \\\\', "ä😀": [{"]": "}"}, [], {}], "n": [1.5, -0.0, None, True]}


def complete_after(pieces: list[bytes]) -> int | None:
    """The bytes after which the first element was there, or None."""
    first = FirstElement()
    sent = 0
    for piece in pieces:
        sent += len(piece)
        if first.feed(piece):
            return sent
    return None


def singly(body: bytes) -> list[bytes]:
    return [body[at : at + 1] for at in range(len(body))]


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("element", [TRICKY, {}, {"a": {}}, [], [[1]], {"candidates": [{"index": 3}]}])
def test_it_is_there_with_its_last_byte_and_not_before(element: object, ascii_only: bool) -> None:
    head = f" [\n {json.dumps(element, ensure_ascii=ascii_only)}".encode()
    body = head + b',\r\n{"more": "]"}]\n'
    assert complete_after(singly(body)) == len(head)
    assert complete_after([body]) == len(body)


@settings(max_examples=100, deadline=None)
@given(cuts=st.sets(st.integers(1, 200)))
def test_wherever_the_network_cuts(cuts: set[int]) -> None:
    body = json.dumps([TRICKY, TRICKY], ensure_ascii=False).encode()
    ends = [*sorted(cut for cut in cuts if cut < len(body)), len(body)]
    pieces = [body[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    first = len(json.dumps(TRICKY, ensure_ascii=False).encode()) + 1
    assert complete_after(pieces) == min(end for end in ends if end >= first)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"[",
        b'[{"a": 1',
        b'{"a": {"b": 1}}',
        b"<html>",
        b'[{"a": nope}]',
        b'[{"a": "\xff"}]',
        b'"x"',
        b"1 ",
    ],
)
def test_what_has_no_first_element_has_none(body: bytes) -> None:
    assert complete_after([*singly(body), b"", b"\n", b""]) is None


def test_what_comes_behind_is_not_looked_at() -> None:
    first = FirstElement()
    assert first.feed(b'[{"a": 1},')
    assert first.feed(b"no json at all")


@pytest.mark.parametrize("body", [b'[{"a": "\\ud83d x"}, 1]', b'["\xed\xa0\xbd", 1]', b'["\xc3\x28", 1]'])
def test_text_that_can_not_be_read_ends_the_watch_and_not_the_call(body: bytes) -> None:
    first = FirstElement()
    for piece in (body, b"more", b""):
        first.feed(piece)
