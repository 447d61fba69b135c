import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.sources.formats.items import KEPT_BYTES, MAX_RECORD_BYTES
from groundrows.pipeline.sources.formats.lines import Line, split_lines


class Dribble(io.RawIOBase):
    """Gives as many bytes at a time as it is told, as a decompressor does."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = data
        self._sizes = sizes

    def read(self, size: int = -1) -> bytes:
        take = self._sizes.pop(0) if self._sizes else size
        piece, self._data = self._data[:take], self._data[take:]
        return piece


@given(
    data=st.binary(max_size=200).map(lambda b: b.replace(b"x", b"\n"))
    | st.text("ab\r\n", max_size=30).map(str.encode),
    sizes=st.lists(st.integers(1, 7), max_size=40),
)
def test_the_lines_are_those_of_the_bytes_however_they_arrive(data: bytes, sizes: list[int]) -> None:
    data = b"#" + data  # so that no mark of another encoding starts it
    expected = data.split(b"\n" if b"\n" in data or b"\r" not in data else b"\r")
    if not expected[-1]:
        expected.pop()
    assert [tuple(line) for line in split_lines(Dribble(data, sizes))] == [
        (number, text, False) for number, text in enumerate(expected, 1)
    ]


def test_nothing_has_no_lines() -> None:
    assert list(split_lines(io.BytesIO(b""))) == []


def test_a_byte_order_mark_is_dropped_from_the_first_line_only() -> None:
    mark = b"\xef\xbb\xbf"
    lines = list(split_lines(io.BytesIO(mark + b"a\n" + mark + b"b")))
    assert lines == [Line(1, b"a", False), Line(2, mark + b"b", False)]


@pytest.mark.parametrize(
    ("start", "named"),
    [
        (b"\x1f\x8b\x08", ".gz"),
        (b"BZh9", ".bz2"),
        (b"\x28\xb5\x2f\xfd", ".zst"),
    ],
)
def test_what_is_plainly_no_utf8_text_is_refused_with_advice(start: bytes, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        list(split_lines(io.BytesIO(start + b"\n\n")))


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_limit_is_exact_and_only_the_start_of_a_longer_line_is_kept(end: bytes) -> None:
    longest = b"a" * MAX_RECORD_BYTES
    lines = list(split_lines(io.BytesIO(b"first\n" + longest + b"\n" + longest + b"b\n\nlast" + end)))
    assert [(line.number, len(line.text), line.cut) for line in lines] == [
        (1, 5, False),
        (2, MAX_RECORD_BYTES, False),
        (3, KEPT_BYTES, True),
        (4, 0, False),
        (5, 4, False),
    ]
    assert lines[2].text == longest[:KEPT_BYTES]


def test_the_rest_of_a_long_line_is_not_held() -> None:
    class Endless(io.RawIOBase):
        """A line of 3 GiB that exists one piece at a time, always the same object."""

        left = 3 << 30
        piece = b"x" * (256 << 10)

        def read(self, size: int = -1) -> bytes:
            self.left -= len(self.piece)
            return self.piece if self.left >= 0 else b""

    (line,) = split_lines(Endless())
    assert line == Line(1, b"x" * KEPT_BYTES, True)


def test_a_last_line_that_cannot_be_read_to_its_end_is_not_yielded() -> None:
    class Breaking(io.RawIOBase):
        pieces = iter([b"one\ntw"])

        def read(self, size: int = -1) -> bytes:
            for piece in self.pieces:
                return piece
            raise OSError("gone")

    lines = split_lines(Breaking())
    assert next(lines).text == b"one"
    with pytest.raises(OSError, match="gone"):
        next(lines)
