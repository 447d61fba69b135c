"""The reference answers of a record: what it holds to be right, for the answers to be compared with."""

from __future__ import annotations

import json

from groundrows.schemas.errors import RuleError
from groundrows.schemas.wording import kind_of, quoted


def reference_answers(value: object, field: str) -> tuple[str, ...]:
    """Return the reference answers that a field holds, each once, in order; none where they are all blank.

    Args:
        value: A string, a number, or a list of them. A string that is a JSON list of them is taken for the
            list, as tables without lists write it. Null stands for nothing, in a list too.
        field: The field's name, for messages.

    Raises:
        RuleError: `INVALID_REFERENCE`, the value is of another kind.
    """
    given = _listed(value) if isinstance(value, str) else value
    values = given if isinstance(given, list) else [given]
    texts = [_text(one, field, in_list=given is values) for one in values if one is not None]
    return tuple(dict.fromkeys(text for text in texts if text.strip()))


def _listed(text: str) -> object:
    """The list that a text spells out in JSON, or the text itself."""
    if not text.lstrip().startswith("["):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if all(one is None or _is_plain(one) for one in value) else text


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _text(value: object, field: str, *, in_list: bool) -> str:
    if not _is_plain(value):
        raise RuleError(
            "INVALID_REFERENCE",
            f"{quoted(field)} {'holds' if in_list else 'is'} {kind_of(value)}: a reference answer must be a "
            "string or a number, or several of them in a list; correct it or name another --reference_field",
        )
    if isinstance(value, float) and value.is_integer():  # as tables write whole numbers beside gaps
        value = int(value)
    return str(value)
