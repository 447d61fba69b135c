"""Makes text from the data safe to print: on one line, of bounded length, without control characters."""

from __future__ import annotations

from collections.abc import Callable

LONGEST = 300


def cut(text: str, most: int = LONGEST) -> str:
    """Return the text on one line, cut to `most` characters, with unprintable characters escaped."""
    line = shown(" ".join(text.split()))
    return line if len(line) <= most else line[:most] + "…"


def shown(text: str) -> str:
    """Return the text with unprintable characters, such as a terminal's control sequences, escaped."""
    return escaped(text, lambda character: character.encode("unicode_escape").decode())


def escaped(text: str, escape: Callable[[str], str], kept: str = "") -> str:
    """Return the text with each unprintable character replaced by `escape`, except the characters `kept`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else escape(each) for each in text)
