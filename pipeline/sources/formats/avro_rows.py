"""Avro object container files: a record is a datum as a JSON object."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import fastavro

from groundrows.pipeline.sources.formats.avro_blocks import check_schema, checked_blocks
from groundrows.pipeline.sources.formats.items import Item
from groundrows.pipeline.sources.formats.row_json import plain, plain_row, record_of, unusable_row


def read_avro(stream: BinaryIO, path: str, text_fields: frozenset[str] = frozenset()) -> Iterator[Item]:
    """Yield a record for each datum, block by block; logical types as `row_json.plain` writes them.

    Raises:
        ValueError: the schema refers to itself, the file breaks off, or it stands for more than can be held.
        Exception: fastavro's, of many types, when the file is not Avro or is corrupt.
    """
    counted = io.BufferedReader(cast(Any, _Counted(checked_blocks(stream))))
    try:
        yield from _read(counted, path, text_fields)
    except EOFError as error:
        raise ValueError("it breaks off within a block") from error


def _read(counted: io.BufferedReader, path: str, text_fields: frozenset[str]) -> Iterator[Item]:
    # Strings that are not UTF-8 keep their bytes, for parsing to judge.
    blocks = fastavro.block_reader(counted, handle_unicode_errors="surrogateescape")
    if _is_recursive(blocks.writer_schema, frozenset()):
        raise ValueError("its schema refers to itself; give the nested part as a string of JSON")
    check_schema(blocks.writer_schema)
    end = counted.tell()
    number = 0
    for block in blocks:
        for datum in block:
            number += 1
            origin = f"{path}:{number}"
            try:
                row = plain_row(datum, text_fields) if isinstance(datum, dict) else plain(datum)
            except (RecursionError, ValueError, OverflowError) as error:
                yield unusable_row(origin, error)
            else:
                yield record_of(row, origin)
        end = block.offset + block.size
    # A file cut inside a block's length looks to fastavro like one that ended.
    if counted.tell() != end:
        raise ValueError("it breaks off at the start of a block")


def _is_recursive(schema: Any, inside: frozenset[str]) -> bool:
    """Whether data may nest without end: at some 5,000 levels fastavro takes the whole process down."""
    if isinstance(schema, str):
        return schema in inside
    if isinstance(schema, list):
        return any(_is_recursive(part, inside) for part in schema)
    inside = inside | {schema["name"]} if "name" in schema else inside
    parts = [schema[key] for key in ("type", "items", "values") if key in schema]
    parts += [field["type"] for field in schema.get("fields", ())]
    return any(_is_recursive(part, inside) for part in parts)


class _Counted(io.RawIOBase):
    """A stream that may be unable to seek, with the position that fastavro asks for."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._position = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
