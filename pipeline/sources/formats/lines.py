"""A byte stream as numbered lines of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from groundrows.pipeline.sources.formats.items import KEPT_BYTES, MAX_RECORD_BYTES

_READ_BYTES = 256 << 10
_UTF8_MARK = b"\xef\xbb\xbf"
_NOT_TEXT = {
    b"\xff\xfe": "it is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16 text; save it as UTF-8",
    b"\x1f\x8b": "it holds gzip data; name it .gz",
    b"BZh": "it holds bzip2 data; name it .bz2",
    b"\x28\xb5\x2f\xfd": "it holds zstd data; name it .zst",
}


class Line(NamedTuple):
    """A line without its line feed; when `cut`, `text` is only the beginning of a line too long to hold."""

    number: int
    text: bytes
    cut: bool


def split_lines(stream: BinaryIO) -> Iterator[Line]:
    r"""Yield the lines of `stream`, counted from 1. A `\r` before the line feed is left in place.

    A byte order mark is dropped. Of a line over `MAX_RECORD_BYTES` the first `KEPT_BYTES` are yielded, and
    the rest is read past without being held. A last line needs no line feed, but is not yielded when reading
    it fails.

    Raises:
        ValueError: the stream plainly holds something else than UTF-8 text.
        OSError: whatever `stream.read` raises.
    """
    lines = _split(stream)
    for number, text, cut in lines:
        for mark, reason in _NOT_TEXT.items():
            if text.startswith(mark):
                raise ValueError(reason)
        yield Line(number, text.removeprefix(_UTF8_MARK), cut)
        break
    yield from lines


def _split(stream: BinaryIO) -> Iterator[Line]:
    number = 1
    held: list[bytes] = []  # the pieces of the line that is still open
    size = 0
    cut = False
    while chunk := stream.read(_READ_BYTES):
        first, *others = chunk.split(b"\n")
        size += len(first)
        if not cut:
            held.append(first)
            cut = size > MAX_RECORD_BYTES
            held = [b"".join(held)[:KEPT_BYTES]] if cut else held
        if not others:
            continue
        yield Line(number, b"".join(held), cut)
        number += 1
        last = others.pop()
        for text in others:
            yield Line(number, text, False)
            number += 1
        held, size, cut = [last], len(last), False
    if size:
        yield Line(number, b"".join(held), cut)
