"""Errors that end a run before it starts."""

from __future__ import annotations


class UsageError(Exception):
    """Something the caller can mend; the text is one sentence that says what, where and what to do."""


def one_line(text: object) -> str:
    """The text without what names of files may bring along: line breaks, and bytes that are no UTF-8."""
    return " ".join(str(text).splitlines()).encode("utf-8", "backslashreplace").decode()
