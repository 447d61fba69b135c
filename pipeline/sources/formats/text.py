"""A file of text in any encoding as a stream of UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO, cast

from groundrows.pipeline.sources.formats.codecs import Pieces

_READ_BYTES = 256 << 10
# The longer marks come first: UTF-32's little-endian mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def as_utf8(source: BinaryIO, encoding: str | None = None) -> BinaryIO:
    """`source` as UTF-8; its bytes as they are when it is UTF-8 already.

    Bytes that the encoding does not know come out as bytes that are no UTF-8, so that parsing refuses the one
    record that holds them.

    Args:
        source: The file's bytes.
        encoding: How they are encoded; None for UTF-8, or for UTF-16 or UTF-32 that begins with its mark.
    """
    return cast(BinaryIO, Pieces(_pieces(source, encoding)))


def _pieces(source: BinaryIO, encoding: str | None) -> Iterator[bytes]:
    start = b""
    while len(start) < 4 and (more := source.read(4 - len(start))):
        start += more
    if encoding is None:
        encoding = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        chunk = start
        while chunk:
            yield chunk
            chunk = source.read(_READ_BYTES)
        return
    errors = "surrogatepass" if encoding.lower().startswith(("utf-16", "utf-32")) else "surrogateescape"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    chunk = start
    while chunk:
        yield decoder.decode(chunk).encode("utf-8", errors)
        chunk = source.read(_READ_BYTES)
    yield decoder.decode(b"", True).encode("utf-8", errors)
