"""The fields that `groundrows export --table=failures` puts beside those of a record that failed.

They tell a person what to mend. The mended record is asked as if they were not there.
"""

from __future__ import annotations

FAILURE = "groundrows_failure"
"""Why the record failed: the code and the sentence."""

ORIGIN = "groundrows_origin"
"""Where the record is from: file and line or row, or subscription and message."""

RECORD = "groundrows_record"
"""The record itself where it is no JSON object, so that nothing else could be made of it."""

# What `groundrows export` puts before text in CSV that a spreadsheet would take for a formula.
_TEXT_MARK = "'"
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet takes a cell with this text for a formula, and runs it."""
    return text.startswith(_FORMULA_STARTS)


def marked_as_text(text: str) -> str:
    """The text as it stands in a cell that must not be run: Excel and LibreOffice show it as text."""
    return _TEXT_MARK + text if is_formula(text) else text


def as_it_was(given: dict[str, object]) -> dict[str, object]:
    """A record's fields without those that an export of failures added; any other record as it is.

    The export is a table, in which every record has the fields of all others: empty ones are left out.
    """
    if FAILURE not in given:
        return given
    added = (FAILURE, ORIGIN, RECORD)
    return {
        name: _unmarked(value)
        for name, value in given.items()
        if name not in added and value is not None and value != ""
    }


def _unmarked(value: object) -> object:
    if isinstance(value, str) and value.startswith(_TEXT_MARK) and is_formula(value[1:]):
        return value[1:]
    return value
