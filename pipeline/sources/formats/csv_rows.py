"""CSV with a header row: a record is a row as a JSON object, its cells strings."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import BinaryIO

from groundrows.pipeline.sources.formats.items import (
    KEPT_BYTES,
    MAX_RECORD_BYTES,
    Item,
    read_failure,
    too_large,
)
from groundrows.pipeline.sources.formats.lines import Line, split_lines
from groundrows.pipeline.sources.formats.row_json import record_of
from groundrows.schemas.names import plain_name
from groundrows.schemas.wording import quoted, reason_of

# Cells of these columns that look like JSON are parsed. Names are compared as `plain_name` writes them.
_STRUCTURED = frozenset(
    {
        "facts", "turns", "contents", "messages", "metadata", "groundingspec", "groundingsources",
        "generationspec", "systeminstruction", "userlabels", "usercontext",
    }
)  # fmt: skip

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
"""What may stand between cells, and what people call it. The first one wins where two fit equally well."""

_SAMPLE_LINES = 50
_SAMPLE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """How a CSV file is laid out: what stands between its cells, and the names of its columns."""

    delimiter: str
    columns: tuple[str, ...]


def csv_layout(stream: BinaryIO, delimiter: str | None = None) -> Layout:
    """The layout of a file, from its first lines; see `read_csv`.

    Raises:
        ValueError, OSError: as `read_csv`.
    """
    lines, found = _sniffed(split_lines(stream), delimiter)
    rows = csv.reader((_text(line.text) for line in lines), delimiter=found)
    return Layout(found, tuple(_header(next((cells for cells in rows if any(cells)), []))))


def read_csv(stream: BinaryIO, path: str, delimiter: str | None = None) -> Iterator[Item]:
    """Yield a record for each row after the header.

    An empty cell is an absent field, and a row of empty cells is no row. Empty cells past the last column are
    dropped. Cells of the API's structured fields that look like JSON are parsed; a broken one stays a string,
    so that validation can name it. An unnamed column N is called `column_N`. Bytes that are not UTF-8 stay as
    they are. A first line `sep=;`, as Excel writes it, names the delimiter.

    Args:
        stream: The file's bytes, UTF-8.
        path: What the records' origins begin with.
        delimiter: What stands between cells; None to tell it from the first lines, among `DELIMITERS`.

    Raises:
        ValueError: the header is unusable, or as `split_lines`.
        OSError: as `split_lines`.
    """
    if csv.field_size_limit() < MAX_RECORD_BYTES:
        csv.field_size_limit(MAX_RECORD_BYTES)
    numbered, delimiter = _sniffed(split_lines(stream), delimiter)
    lines = _RowLines(numbered)
    # Strict: otherwise a quote that is never closed swallows the rest of the file without a word.
    rows = csv.reader(lines, strict=True, delimiter=delimiter)
    header: list[str] | None = None
    named = 0  # columns up to the last one with a name of its own
    while True:
        lines.begin_row()
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
                yield _not_csv(origin, error, lines.raw())
            continue
        if not any(cells) or (len(cells) == 1 and cells[0].isspace()):
            continue
        if header is None:
            header = _header(cells)
            named = max(number for number, cell in enumerate(cells, 1) if cell.strip() or number == 1)
            continue
        while len(cells) > len(header) and not cells[-1]:
            cells.pop()
        origin = f"{path}:{lines.first}"
        if named <= len(cells) <= len(header):
            row = {name: _value(name, cell) for name, cell in zip(header, cells, strict=False) if cell}
            yield record_of(row, origin, lines.raw)
        else:
            counts = f"has {len(cells)} cells where the header has {len(header)}"
            yield _bad_row(origin, f"{counts}; quote a cell that holds {_ONE[delimiter]}", lines.raw())


_ONE = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a pipe"}


def _sniffed(lines: Iterator[Line], delimiter: str | None) -> tuple[Iterator[Line], str]:
    """The lines of the table, and the delimiter: as given, as `sep=` says, or as the first lines show."""
    sample: list[Line] = []
    size = 0
    for line in islice(lines, _SAMPLE_LINES):
        sample.append(line)
        size += len(line.text)
        if size > _SAMPLE_BYTES:
            break
    first = sample[0].text.rstrip(b"\r") if sample else b""
    if len(first) == 5 and first[:4].lower() == b"sep=":
        delimiter = delimiter or first[4:].decode("latin-1")
        sample = sample[1:]
    if delimiter is None:
        delimiter = _most_likely([_text(line.text) for line in sample])
    return chain(sample, lines), delimiter


def _most_likely(sample: Sequence[str]) -> str:
    """The delimiter with which most rows have as many cells as the header has, and the header most.

    Text holds commas and semicolons of its own, so a delimiter counts only where the header has it.
    """

    def fit(delimiter: str) -> tuple[float, int]:
        try:
            rows = [cells for cells in csv.reader(sample, delimiter=delimiter) if any(cells)]
        except csv.Error:
            return 0.0, 0
        if len(rows) > 2:
            rows.pop()  # the sample may end within it
        if not rows or len(rows[0]) == 1:
            return 0.0, 0
        same = sum(len(cells) == len(rows[0]) for cells in rows)
        return same / len(rows), len(rows[0])

    return max(DELIMITERS, key=fit)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape") + "\n"


def _not_csv(origin: str, error: csv.Error, raw: bytes) -> Item:
    if b'\\"' in raw:
        return _bad_row(
            origin,
            'puts a backslash before a quote, which CSV does not know: write "" for a quote in a cell',
            raw,
        )
    return _bad_row(origin, f"is not CSV: {reason_of(error)}; check its quotes", raw)


def _bad_row(origin: str, reason: str, raw: bytes) -> Item:
    return read_failure(origin, "INVALID_CSV", f"The row at {origin} {reason}.", raw)


def _header(cells: Sequence[str]) -> list[str]:
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
    if plain_name(name) in _STRUCTURED and cell.lstrip()[:1] in ("{", "["):
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
        return _text(text)
