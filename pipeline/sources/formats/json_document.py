"""A JSON document of many records, a record at a time: an array of them, or objects over several lines.

Only brackets, commas and quotes are looked at, so that each record keeps its own bytes and a record that is
no JSON costs one row. A streaming parser would end the file there, and those that were tried replace half a
surrogate pair by a question mark without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from groundrows.pipeline.sources.formats.items import KEPT_BYTES, MAX_RECORD_BYTES, Item, too_large
from groundrows.schemas.record import Record

_STRUCTURE = re.compile(rb'["\[\]{},]')
_IN_STRING = re.compile(rb'["\\]')


def read_json_document(chunks: Iterable[bytes], path: str) -> Iterator[Item]:
    """Yield a record for each element of the arrays and each object at the top of the document.

    Args:
        chunks: The document's bytes, in pieces of any size.
        path: What the records' origins begin with; the record's number follows, from 1.

    Raises:
        ValueError: a bracket has no partner, or the document ends within a record.
    """
    document = _Document(path)
    for chunk in chunks:
        yield from document.take(chunk)
    yield from document.end()


class _Document:
    """Where in the document the reading is, and what is held of the record that is open."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._number = 0
        self._in_array = False
        self._depth = 0  # of brackets within the open record
        self._in_string = False
        self._escaped = False
        self._held: list[bytes] = []
        self._size = 0

    def take(self, chunk: bytes) -> Iterator[Item]:
        at = start = 0
        while True:
            if self._escaped and at < len(chunk):
                at, self._escaped = at + 1, False
            found = (_IN_STRING if self._in_string else _STRUCTURE).search(chunk, at)
            if found is None:
                self._hold(chunk[start:])
                return
            mark, at = found.group(), found.end()
            if mark == b"\\":
                self._escaped = True
            elif mark == b'"':
                self._in_string = not self._in_string
            elif mark in b"{[":
                if mark == b"[" and not self._in_array and not self._depth:
                    self._in_array = True
                    yield from self._finish(chunk[start : at - 1])
                    start = at
                else:
                    self._depth += 1
            elif self._depth:
                self._depth -= mark in b"}]"
                if not self._depth and not self._in_array and mark != b",":
                    yield from self._finish(chunk[start:at])
                    start = at
            elif self._in_array and mark in b",]":
                self._in_array = mark == b","
                yield from self._finish(chunk[start : at - 1])
                start = at
            else:
                raise ValueError(f"its record {self._number + 1} has a {mark.decode()} without its partner")

    def end(self) -> Iterator[Item]:
        if self._depth or self._in_string or self._in_array:
            raise ValueError(f"it breaks off within record {self._number + 1}")
        yield from self._finish(b"")

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_RECORD_BYTES:
            self._held.append(piece)
        elif self._held and len(self._held[0]) != KEPT_BYTES:
            self._held = [b"".join([*self._held, piece]).lstrip()[:KEPT_BYTES]]

    def _finish(self, last: bytes) -> Iterator[Item]:
        self._hold(last)
        body = b"".join(self._held).strip()
        too_long = self._size > MAX_RECORD_BYTES
        self._held, self._size = [], 0
        if body:
            self._number += 1
            origin = f"{self._path}:{self._number}"
            yield too_large(origin, body) if too_long else Record(body, origin)
