"""Errors that end a run before it starts."""

from __future__ import annotations


class UsageError(Exception):
    """Something the caller can mend; the text is one sentence that says what, where and what to do."""
