"""CSV for spreadsheets and programs: UTF-8, commas, a header, and lines that end with CR and LF."""

from __future__ import annotations

import csv
import io
from typing import Any, BinaryIO

from groundrows.pipeline.export.files.plain import as_text
from groundrows.pipeline.export.sheet import Sheet
from groundrows.schemas.failed_fields import marked_as_text


def write(sheet: Sheet, file: BinaryIO) -> int:
    """Write the rows; return their number."""
    count = 0
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(map(cell, sheet.columns))
    for row in sheet.rows():
        writer.writerow(map(cell, row))
        count += 1
    text.detach()  # writes the buffered text, and leaves the file open
    return count


def cell(value: Any) -> Any:
    """Return a value as a cell. Text that a spreadsheet would run as a formula gets an apostrophe."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int | float):
        return value
    return marked_as_text(value if isinstance(value, str) else as_text(value))
