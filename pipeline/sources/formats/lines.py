"""A byte stream as numbered lines of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, NamedTuple

from groundrows.pipeline.sources.formats.items import KEPT_BYTES, LFS_ADVICE, LFS_POINTER, MAX_RECORD_BYTES

_READ_BYTES = 256 << 10
_UTF8_MARK = b"\xef\xbb\xbf"
_NOT_TEXT = {
    LFS_POINTER: LFS_ADVICE,
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

    Where the stream begins with carriage returns and no line feed (as old Macs wrote), those end the lines. A
    byte order mark is dropped. Of a line over `MAX_RECORD_BYTES` the first `KEPT_BYTES` are yielded, and
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
    start, end = _start(stream)
    for chunk in chain([start], iter(lambda: stream.read(_READ_BYTES), b"")):
        first, *others = chunk.split(end)
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


def _start(stream: BinaryIO) -> tuple[bytes, bytes]:
    """The first bytes of a stream, and what ends its lines, which they show."""
    start = b""
    while len(start) < _READ_BYTES and b"\n" not in start and (chunk := stream.read(_READ_BYTES)):
        start += chunk
    return start, b"\n" if b"\n" in start or b"\r" not in start else b"\r"
