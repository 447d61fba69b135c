"""What an Avro file may make of memory and time, checked before any of it is decoded.

A few hundred bytes can stand for any number of items that take no bytes, or inflate to gigabytes. fastavro
decodes a block in one piece, so what a block may hold is checked as the file is read.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import cramjam
import fastavro
import zstandard

from groundrows.pipeline.sources.formats.codecs import Pieces
from groundrows.pipeline.sources.formats.items import MAX_RECORD_BYTES

MAX_BLOCK_BYTES = 2 * MAX_RECORD_BYTES
"""How large a block may be once it is inflated. Writers end a block soon after a record has filled it."""

MAX_BLOCK_RECORDS = 4_000_000

_READ_BYTES = 256 << 10
_MAX_HEADER_BYTES = 1 << 20
_SYNC_BYTES = 16
_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC_BYTES}},
        ],
    }
)


def checked_blocks(stream: BinaryIO) -> BinaryIO:
    """The same bytes, each block of them checked before it is handed on. A file that is cut stays cut.

    Raises:
        ValueError: while reading, when a block is too large or says that it holds more than fits in it.
    """
    return cast(BinaryIO, Pieces(_checked(stream)))


def check_schema(schema: Any) -> None:
    """Refuse a schema by which no bytes stand for any number of things.

    Args:
        schema: A schema that fastavro has parsed and that does not refer to itself.

    Raises:
        ValueError: its records take no bytes, or the items of one of its lists do.
    """
    if not _least_bytes(schema, {}):
        raise ValueError("its records hold nothing; a record needs a field with a question")


def _least_bytes(schema: Any, named: dict[str, int]) -> int:
    """How many bytes a datum takes at least, 1 standing for any more."""
    if isinstance(schema, list):  # a union says which of its parts follows
        for part in schema:
            _least_bytes(part, named)
        return 1
    if isinstance(schema, str):
        return named.get(schema, 0 if schema == "null" else 1)
    kind = schema["type"]
    if kind in ("array", "map"):
        if not _least_bytes(schema["items" if kind == "array" else "values"], named) and kind == "array":
            raise ValueError("its schema has a list of items that hold nothing; leave that field out")
        return 1
    if kind == "record":
        least = max([_least_bytes(field["type"], named) for field in schema["fields"]], default=0)
        return named.setdefault(schema["name"], least)
    if kind == "fixed":
        return named.setdefault(schema["name"], min(schema["size"], 1))
    if kind == "enum":
        return named.setdefault(schema["name"], 1)
    return _least_bytes(kind, named)


def _checked(stream: BinaryIO) -> Iterator[bytes]:
    source = _Source(stream)
    start = source.peek(_MAX_HEADER_BYTES)
    opened = io.BytesIO(start)
    try:
        header = cast(dict[str, Any], fastavro.schemaless_reader(opened, _HEADER, None))
        codec = header["meta"].get("avro.codec", b"null").decode()
    except Exception:  # whoever reads the file says what is wrong with it
        yield from source.rest()
        return
    yield source.take(opened.tell())
    while True:
        prefix, count = source.number()
        more, size = source.number()
        yield prefix + more
        if count is None or size is None:
            yield from source.rest()
            return
        if not 0 <= size <= MAX_BLOCK_BYTES:
            raise ValueError(f"a block of it is larger than {MAX_BLOCK_BYTES >> 20} MiB")
        data = source.take(size)
        length = len(data) if len(data) < size else _inflated_bytes(data, codec)
        if length > MAX_BLOCK_BYTES:
            raise ValueError(f"a block of it inflates to more than {MAX_BLOCK_BYTES >> 20} MiB")
        if not 0 <= count <= min(length, MAX_BLOCK_RECORDS) and len(data) == size:
            raise ValueError(f"a block of it says that it holds {count} records, which it can't")
        yield data
        yield source.take(_SYNC_BYTES)


def _inflated_bytes(data: bytes, codec: str) -> int:
    """How many bytes a block inflates to, counted no further than one past the limit."""
    most = MAX_BLOCK_BYTES + 1
    try:
        if codec == "deflate":
            return len(zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, most))
        if codec == "bzip2":
            return len(bz2.BZ2Decompressor().decompress(data, most))
        if codec == "xz":
            return len(lzma.LZMADecompressor().decompress(data, most))
        if codec == "zstandard":
            return len(zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read(most))
        if codec == "snappy":
            return int(cramjam.snappy.decompress_raw_len(data[:-4]))
    except Exception:  # corrupt: whoever reads the block says so
        return len(data)
    return len(data)


class _Source:
    """A stream with what was read ahead of it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        pieces = [self._ahead]
        have = len(self._ahead)
        while have < size and (chunk := self._stream.read(min(_READ_BYTES, size - have))):
            pieces.append(chunk)
            have += len(chunk)
        self._ahead = b"".join(pieces)
        return self._ahead[:size]

    def take(self, size: int) -> bytes:
        taken = self.peek(size)
        self._ahead = self._ahead[len(taken) :]
        return taken

    def number(self) -> tuple[bytes, int | None]:
        """The bytes of one of Avro's zigzag numbers, and the number; None where there is none."""
        ahead = self.peek(10)
        value = 0
        for index, byte in enumerate(ahead):
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return self.take(index + 1), (value >> 1) ^ -(value & 1)
        return b"", None

    def rest(self) -> Iterator[bytes]:
        ahead, self._ahead = self._ahead, b""
        yield ahead
        while chunk := self._stream.read(_READ_BYTES):
            yield chunk
