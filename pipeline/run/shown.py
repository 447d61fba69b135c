"""Text of the data as it may be printed: one line, of bounded length, that gives a terminal no orders."""

from __future__ import annotations

from collections.abc import Callable

LONGEST = 300


def cut(text: str, most: int = LONGEST) -> str:
    """Text of the data on one line of at most so many characters."""
    line = shown(" ".join(text.split()))
    return line if len(line) <= most else line[:most] + "…"


def shown(text: str) -> str:
    """Text of the data with all that a terminal would obey, or not show, escaped."""
    return escaped(text, lambda character: character.encode("unicode_escape").decode())


def escaped(text: str, escape: Callable[[str], str], kept: str = "") -> str:
    """Text in which `escape` has replaced what can't be printed, but for the characters `kept`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else escape(each) for each in text)
