"""CSV with a header row: a record is a row as a JSON object, its cells strings."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from groundrows.pipeline.sources.formats.items import (
    KEPT_BYTES,
    MAX_RECORD_BYTES,
    Item,
    read_failure,
    reason_of,
    too_large,
)
from groundrows.pipeline.sources.formats.lines import Line, split_lines
from groundrows.pipeline.sources.formats.row_json import record_of
from groundrows.schemas.errors import quoted

_STRUCTURED = frozenset(
    {
        "facts", "turns", "contents", "metadata",
        "grounding_spec", "groundingSpec", "grounding_sources", "groundingSources",
        "generation_spec", "generationSpec", "system_instruction", "systemInstruction",
        "user_labels", "userLabels", "user_context", "userContext",
    }
)  # fmt: skip


def read_csv(stream: BinaryIO, path: str) -> Iterator[Item]:
    """Yield a record for each row after the header.

    An empty cell is an absent field. Cells of the API's structured fields that look like JSON are parsed;
    a broken one stays a string, so that validation can name it. An unnamed column N is called `column_N`.
    Bytes that are not UTF-8 are kept as they are.

    Raises:
        ValueError: the header is unusable, or as `split_lines`.
        OSError: as `split_lines`.
    """
    if csv.field_size_limit() < MAX_RECORD_BYTES:
        csv.field_size_limit(MAX_RECORD_BYTES)
    lines = _RowLines(split_lines(stream))
    # Strict: otherwise a quote that is never closed swallows the rest of the file without a word.
    rows = csv.reader(lines, strict=True)
    header: list[str] | None = None
    while True:
        lines.begin_row()
        item: Item
        try:
            cells = next(rows)
        except StopIteration:
            return
        except (_RowTooLongError, csv.Error) as error:
            if header is None:
                raise ValueError(f"its header row is not CSV: {reason_of(error)}") from error
            origin = f"{path}:{lines.first}"
            if isinstance(error, _RowTooLongError):
                yield too_large(origin, lines.raw(), ", perhaps because a quote is never closed")
            else:
                yield _bad_row(origin, f"is not CSV: {reason_of(error)}; check its quotes", lines.raw())
            continue
        if not cells or (len(cells) == 1 and cells[0].isspace()):
            continue
        if header is None:
            header = _header(cells)
            continue
        origin = f"{path}:{lines.first}"
        if len(cells) == len(header):
            row = {name: _value(name, cell) for name, cell in zip(header, cells, strict=True) if cell}
            item = record_of(row, origin, lines.raw)
        else:
            counts = f"has {len(cells)} cells where the header has {len(header)}"
            item = _bad_row(origin, f"{counts}; quote a cell that holds a comma", lines.raw())
        yield item


def _bad_row(origin: str, reason: str, raw: bytes) -> Item:
    return read_failure(origin, "INVALID_CSV", f"The row at {origin} {reason}.", raw)


def _header(cells: list[str]) -> list[str]:
    names = [cell.strip() or f"column_{number}" for number, cell in enumerate(cells, 1)]
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise ValueError("its header row is not UTF-8 text; save the file as UTF-8") from error
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"its header names the column {quoted(twice[0])} twice; rename one of them")
    return names


def _value(name: str, cell: str) -> object:
    if name in _STRUCTURED and cell.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(cell, object_pairs_hook=_object, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return cell
    return cell


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return fields


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


class _RowTooLongError(Exception):
    """The row being read is over the limit."""


class _RowLines:
    """The lines that the CSV reader takes, with those of the row it is at: their number and their bytes."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self.begin_row()

    def begin_row(self) -> None:
        self.first = 0
        self._taken: list[bytes] = []
        self._size = 0

    def raw(self) -> bytes:
        return b"\n".join(self._taken).removesuffix(b"\r")

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        number, text, cut = next(self._lines)
        self.first = self.first or number
        self._taken.append(text)
        self._size += len(text) + 1
        if cut or self._size > MAX_RECORD_BYTES + 1:
            self._taken = [self.raw()[:KEPT_BYTES]]
            raise _RowTooLongError(f"it is longer than {MAX_RECORD_BYTES >> 20} MiB")
        return text.decode("utf-8", "surrogateescape") + "\n"
