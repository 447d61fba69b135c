"""JSON lines: a record is a line's own bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, cast

from groundrows.pipeline.sources.formats.codecs import Pieces
from groundrows.pipeline.sources.formats.items import Item, too_large
from groundrows.pipeline.sources.formats.json_document import read_json_document
from groundrows.pipeline.sources.formats.lines import split_lines
from groundrows.schemas.record import Record

_READ_BYTES = 256 << 10
_UTF8_MARK = b"\xef\xbb\xbf"


def read_json_lines(stream: BinaryIO, path: str) -> Iterator[Item]:
    r"""Yield a record for each line that is not blank, without its `\n` or `\r\n`, else byte for byte.

    Whether the bytes are UTF-8 and JSON is for parsing to say, so that one bad line costs one row.

    Raises:
        ValueError, OSError: as `split_lines`.
    """
    for number, text, cut in split_lines(stream):
        if cut:
            yield too_large(f"{path}:{number}", text)
        elif text and not text.isspace():
            yield Record(text.removesuffix(b"\r"), f"{path}:{number}")


def read_json_file(stream: BinaryIO, path: str) -> Iterator[Item]:
    """The same for a `.json` file, whose name promises less: lines, one array of records, or one record.

    A record of an array is numbered by its place in it, from 1.

    Raises:
        ValueError, OSError: as `split_lines`, or the document is not closed.
    """
    start = stream.read(_READ_BYTES)
    while start.isspace() and (more := stream.read(_READ_BYTES)):
        start = more
    shown = start.removeprefix(_UTF8_MARK).lstrip()
    rest = iter(lambda: stream.read(_READ_BYTES), b"")
    if shown.startswith(b"[") or shown.partition(b"\n")[0].strip() == b"{":
        yield from read_json_document(chain([shown], rest), path)
    else:
        yield from read_json_lines(cast(BinaryIO, Pieces(chain([start], rest))), path)
