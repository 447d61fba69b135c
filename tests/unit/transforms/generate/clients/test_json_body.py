import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundrows.schemas.errors import NotReadableError
from groundrows.transforms.generate.clients.json_body import read_json


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"<html>",
        b"{",
        b'{"a": 1} x',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": "\xff"}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b'"\xed\xa0\xbd"',  # half a surrogate pair, encoded
        b"[" * 100_000,
        b"9" * 5_000,
    ],
)
def test_what_is_no_json_in_utf8_is_not_read(body: bytes) -> None:
    with pytest.raises(NotReadableError):
        read_json(body)


def test_a_zero_keeps_its_sign_however_it_is_written() -> None:
    for body in (b"-0", b"-0.0", b"-0e5"):
        assert math.copysign(1, read_json(body)) == -1
    assert math.copysign(1, read_json(b"0")) == 1
    assert read_json(b"[-1, 10, -10, 1e3]") == [-1, 10, -10, 1000.0]


_units = st.text(st.sampled_from('a\\"/ud8\ud83d\udbff\udc00\ude00\uffff\U0001f600'), max_size=12)


@given(st.lists(st.tuples(_units, _units), max_size=3), st.booleans())
@example([("\\ud83d", "\\\ud83d\\")], True)
def test_half_a_surrogate_pair_is_read_as_the_replacement_character(
    fields: list[tuple[str, str]], upper: bool
) -> None:
    def mended(text: str) -> str:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    body = json.dumps([list(pair) for pair in fields])
    if upper:
        body = body.replace(r"\ud", r"\uD")
    read = read_json(body.encode())
    assert read == [
        [mended(text.replace(r"\ud", r"\uD") if upper else text) for text in pair] for pair in fields
    ]
