"""A conversation as chat archives write it: `messages`, each with a `role` and a `content`."""

from __future__ import annotations

from groundrows.schemas.errors import RuleError
from groundrows.schemas.wording import quoted, wrong_type

_ROLES = {"user": "user", "human": "user", "assistant": "model", "model": "model", "ai": "model"}
_SYSTEM = ("system", "developer")


def is_chat(value: object) -> bool:
    """Whether a value is a list of messages, as far as its first one shows it."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "role" in value[0]


def read_chat(messages: object) -> tuple[list[object], str | None]:
    """Read a record's `messages`.

    Args:
        messages: The JSON value: objects with `role` and `content`, which is a string or a list of parts with
            a `text`.

    Returns:
        The conversation as `contents`, the last of them the user's, and the texts of the system's messages,
        joined, or None.

    Raises:
        RuleError: `WRONG_TYPE`, `UNKNOWN_ROLE` or `NO_QUESTION`.
    """
    if not isinstance(messages, list):
        raise wrong_type("messages", "a list of messages", messages)
    contents: list[object] = []
    system: list[str] = []
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if not isinstance(message, dict):
            raise wrong_type(path, "an object with role and content", message)
        role = message.get("role")
        text = _text(message.get("content"), f"{path}.content")
        if role in _SYSTEM:
            system.append(text)
        elif isinstance(role, str) and role in _ROLES:
            contents.append({"role": _ROLES[role], "parts": [{"text": text}]})
        else:
            shown = quoted(role) if isinstance(role, str) else "none"
            raise RuleError(
                "UNKNOWN_ROLE", f"{path}.role is {shown}: it must be one of user, assistant and system"
            )
    if not contents:
        raise RuleError("NO_QUESTION", "messages has no message of the user: give at least one")
    return contents, "\n".join(system) or None


def _text(content: object, path: str) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") if isinstance(part, dict) else part for part in content]
        if texts and all(isinstance(text, str) for text in texts):
            return "".join(text for text in texts if isinstance(text, str))
    raise wrong_type(path, "a string, or a list of parts with a text", content)
