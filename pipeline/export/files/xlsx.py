"""Excel workbooks. Text is always written as text, never as a formula or a link."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, BinaryIO

import xlsxwriter
from xlsxwriter.worksheet import Worksheet

from groundrows.pipeline.export.files.plain import as_text
from groundrows.pipeline.export.sheet import Sheet

# Limits of Excel.
MOST_ROWS = 1_048_576
MOST_COLUMNS = 16_384
LONGEST_TEXT = 32_767  # UTF-16 code units
MOMENT = 'yyyy-mm-dd hh:mm:ss.000" UTC"'
# Excel stores numbers as 64-bit floats. Larger whole numbers would lose digits.
LARGEST_NUMBER = 10**15


def write(sheet: Sheet, file: BinaryIO) -> int:
    """Write the rows, on further sheets when one is full; return their number.

    Raises:
        ValueError: There are more columns than a sheet has.
    """
    if len(sheet.columns) > MOST_COLUMNS:
        raise ValueError(f"{len(sheet.columns):,} columns are more than the {MOST_COLUMNS:,} of a sheet")
    options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    count = 0
    with xlsxwriter.Workbook(file, options) as book:
        moment = book.add_format({"num_format": MOMENT})
        page = _page(book, sheet, 1)
        for row in sheet.rows():
            place = count % (MOST_ROWS - 1) + 1
            if place == 1 and count:
                page = _page(book, sheet, count // (MOST_ROWS - 1) + 1)
            for column, value in enumerate(row):
                _put(page, place, column, value, moment)
            count += 1
    return count


def _page(book: xlsxwriter.Workbook, sheet: Sheet, number: int) -> Worksheet:
    page = book.add_worksheet(sheet.name if number == 1 else f"{sheet.name} {number}")
    page.freeze_panes(1, 0)
    for column, name in enumerate(sheet.columns):
        page.write_string(0, column, cut(name))
    return page


def _put(page: Worksheet, row: int, column: int, value: Any, moment: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        page.write_boolean(row, column, value)
    elif isinstance(value, int | float) and abs(value) < LARGEST_NUMBER:
        page.write_number(row, column, value)
    elif isinstance(value, datetime):
        # Excel has no time zones and no dates before 1900.
        page.write_datetime(row, column, value.astimezone(UTC).replace(tzinfo=None), moment)
    elif isinstance(value, str):
        page.write_string(row, column, cut(value))
    else:
        page.write_string(row, column, cut(str(value) if isinstance(value, int | float) else as_text(value)))


def cut(text: str) -> str:
    """Return text that fits into a cell. A text that is cut ends with a note of its full length."""
    if len(text) <= LONGEST_TEXT // 2 or _units(text) <= LONGEST_TEXT:
        return text
    mark = f"… [cut: {len(text):,} characters]"
    kept = text.encode("utf-16-le")[: 2 * (LONGEST_TEXT - _units(mark))].decode("utf-16-le", "ignore")
    return kept + mark


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
