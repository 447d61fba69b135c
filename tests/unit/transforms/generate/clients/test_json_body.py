import math

import pytest

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
