"""JSON Lines: one object per row. Lists and objects keep their structure."""

from __future__ import annotations

from typing import BinaryIO

from groundrows.pipeline.export.files.plain import as_json
from groundrows.pipeline.export.sheet import Sheet


def write(sheet: Sheet, file: BinaryIO) -> int:
    """Write the rows; return their number."""
    count = 0
    for row in sheet.rows():
        file.write(as_json(dict(zip(sheet.columns, row, strict=True))).encode() + b"\n")
        count += 1
    return count
