"""The turns of a conversation, each with a system instruction of its own if it has one."""

from __future__ import annotations

from collections.abc import Callable

from groundrows.schemas.errors import RuleError
from groundrows.schemas.names import nearest
from groundrows.schemas.wording import quoted, wrong_type

InstructionReader = Callable[[object, str], bytes]
"""Reads a system instruction, a JSON value at a path in the record; see `RequestBuilder.instruction`."""

_SPELLINGS = {
    "text": "text",
    "system_instruction": "system_instruction",
    "systemInstruction": "system_instruction",
}


def read_turns(
    turns: object, instruction_of: InstructionReader
) -> tuple[tuple[str, ...], tuple[bytes | None, ...]]:
    """Read a record's `turns`: strings, or objects with `text` and, perhaps, `system_instruction`.

    Args:
        turns: The JSON value.
        instruction_of: Reads a turn's own system instruction into the form of the service that is asked.

    Returns:
        The texts, and for each its own system instruction or None; the second is empty when no turn has one.

    Raises:
        RuleError: `NO_QUESTION`, `BLANK_QUESTION`, `NO_TEXT`, or what an instruction or a field breaks.
    """
    if not isinstance(turns, list):
        raise wrong_type("turns", "a list of strings", turns)
    if not turns:
        raise RuleError("NO_QUESTION", "turns is empty: give at least one string")
    texts: list[str] = []
    instructions: list[bytes | None] = []
    for index, turn in enumerate(turns):
        path = f"turns[{index}]"
        if isinstance(turn, dict):
            text, instruction = _turn(turn, path, instruction_of)
        else:
            text, instruction = question_text(turn, path, "a string or an object with text"), None
        texts.append(text)
        instructions.append(instruction)
    return tuple(texts), tuple(instructions) if any(i is not None for i in instructions) else ()


def question_text(value: object, path: str, wanted: str = "a string") -> str:
    """What the user asks in one turn: text that is not blank."""
    if not isinstance(value, str):
        raise wrong_type(path, wanted, value)
    if not value.strip():
        raise RuleError("BLANK_QUESTION", f"{path} is blank: it must ask something")
    return value


def _turn(turn: dict[str, object], path: str, instruction_of: InstructionReader) -> tuple[str, bytes | None]:
    given: dict[str, object] = {}
    for spelling, value in turn.items():
        name = _SPELLINGS.get(spelling)
        if name is None:
            meant = nearest(spelling, _SPELLINGS)
            hint = f"did you mean {_SPELLINGS[meant]}?" if meant else "it takes text and system_instruction"
            raise RuleError(
                "UNKNOWN_FIELD", f"{path} has a field {quoted(spelling)} that no turn has: {hint}"
            )
        if value is None:
            continue
        if name in given:
            raise RuleError(
                "DUPLICATE_FIELD",
                f"{path}.{name} is given in camelCase and snake_case: keep one of them",
            )
        given[name] = value
    if "text" not in given:
        raise RuleError("NO_TEXT", f"{path}.text is missing: give what the turn asks")
    text = question_text(given["text"], f"{path}.text")
    if "system_instruction" not in given:
        return text, None
    return text, instruction_of(given["system_instruction"], f"{path}.system_instruction")
