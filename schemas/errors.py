"""Why a record can't be asked."""

from __future__ import annotations

from typing import Literal

RecordStage = Literal["parse", "validate"]


class RuleError(Exception):
    """Some part of a record, or of the request defaults, breaks a rule.

    It is raised where the rule is checked, by code that knows the path but not the record it belongs to;
    whoever holds the record turns it into a `RecordError`.

    Attributes:
        code: A stable name in capitals, such as `TOO_MANY_SOURCES`.
        message: One sentence for a person: what, where, what to do. It never holds a prompt or a fact.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class RecordError(Exception):
    """A record that can't be asked, and why. It costs one row of failures, never the run.

    Attributes:
        code: A stable name in capitals, such as `NO_QUESTION`.
        message: One sentence for a person: what, where, what to do. It never holds a prompt or a fact.
        stage: `parse` when the bytes are no JSON object that could be read, else `validate`.
        question_id: The record's own id where it can be read, else an id derived from its content.
        metadata: The record's metadata as a JSON object, where it can be read and there is any; else None.
    """

    def __init__(
        self, code: str, message: str, stage: RecordStage, question_id: str, metadata: str | None
    ) -> None:
        super().__init__(code, message, stage, question_id, metadata)
        self.code = code
        self.message = message
        self.stage = stage
        self.question_id = question_id
        self.metadata = metadata

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def kind_of(value: object) -> str:
    """What a JSON value is, for a message: `a string`, `an object` …; never the value itself."""
    if value is None:
        return "null"
    return _KINDS.get(type(value), type(value).__name__)


def quoted(name: str) -> str:
    """A field's name or a map's key for a message: in backquotes, shortened, with nothing that breaks a line.

    Lone surrogates and control characters come out escaped, so that the message can always be written.
    """
    shown = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return f"`{shown}`"


_LONGEST_NAME = 80
_KINDS: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
