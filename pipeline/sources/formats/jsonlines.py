"""JSON lines: a record is a line's own bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from groundrows.pipeline.sources.formats.items import Item, too_large
from groundrows.pipeline.sources.formats.lines import split_lines
from groundrows.schemas.record import Record


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
    """The same for a `.json` file, whose name promises less: it may be one document instead of lines.

    Raises:
        ValueError: the file is a JSON array, or one object spread over several lines.
    """
    items = read_json_lines(stream, path)
    for item in items:
        start = (item.body if isinstance(item, Record) else item.record).strip()
        if start.startswith(b"[") or start == b"{":
            raise ValueError("it is one JSON document; write one record a line, without brackets around them")
        yield item
        break
    yield from items
