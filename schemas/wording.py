"""Pieces of messages for people: what a value is, a name in quotes, a text on one line, why an error came."""

from __future__ import annotations

from collections.abc import Mapping

from groundrows.schemas.errors import RuleError

_LONGEST_NAME = 80
_KINDS: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def kind_of(value: object) -> str:
    """What a JSON value is, for a message: `a string`, `an object` …; never the value itself."""
    if value is None:
        return "null"
    return _KINDS.get(type(value), type(value).__name__)


def wrong_type(path: str, wanted: str, value: object) -> RuleError:
    """What to raise for a JSON value of the wrong kind."""
    return RuleError("WRONG_TYPE", f"{path} is {kind_of(value)}: it must be {wanted}")


def quoted(name: str) -> str:
    """A field's name or a map's key for a message: in backquotes, shortened, with nothing that breaks a line.

    Lone surrogates and control characters come out escaped, so that the message can always be written.
    """
    shown = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return f"`{shown}`"


def one_line(text: object) -> str:
    """The text on one line and as UTF-8: file names may hold line breaks, and bytes that are no UTF-8."""
    return " ".join(str(text).splitlines()).encode("utf-8", "backslashreplace").decode()


def fields_of(record: Mapping[str, object]) -> str:
    """Which fields a record has, for a message: the names of some of them, never a value."""
    names = [quoted(name) for name in list(record)[:_MOST_FIELDS]]
    if not names:
        return "it has no field at all"
    more = len(record) - len(names)
    return f"it has {', '.join(names)}" + (f" and {more} more" if more else "")


_MOST_FIELDS = 12


def reason_of(error: BaseException) -> str:
    """One line that says why `error` was raised, without a full stop, at most 300 characters of it."""
    line = next(iter(str(error).strip().splitlines()), "")[:300].rstrip(".")
    # These say what is wrong by themselves; of others (KeyError: 'x') the name is half of what is said.
    telling = isinstance(error, (OSError, ValueError)) and line
    return line if telling else f"{type(error).__name__}: {line}".removesuffix(": ")
