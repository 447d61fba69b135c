"""Question templates: a prompt with a record's fields in braces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from string import Formatter

from groundrows.schemas.errors import RuleError
from groundrows.schemas.wording import fields_of, kind_of, quoted

Part = tuple[str, str | None]
"""Text as it is, then the name of the field that follows it, if one does."""

_POSITION = re.compile(r"[0-9]{1,9}")


def template_parts(texts: Sequence[str]) -> tuple[tuple[Part, ...], ...]:
    """Take templates apart, one for each turn.

    `{company}` is a field of the record, `{{` and `}}` are braces of the text. `{address.city}` is a field
    inside an object and `{authors.0}` the first of a list, unless the record has a field of just that name,
    as flattened archives do. Indexes in brackets, conversions and formats are not taken: a template only puts
    text together.

    Args:
        texts: The templates. Those of later turns may name no field, if another one does.

    Returns:
        The parts of each template.

    Raises:
        ValueError: one sentence that says what is wrong with which.
    """
    several = len(texts) > 1
    parts = tuple(
        _parts(text, f"question template {index + 1}" if several else "the question template")
        for index, text in enumerate(texts)
    )
    if texts and not any(name for template in parts for _, name in template):
        which = "the question templates name" if several else "the question template names"
        raise ValueError(f"{which} no field: every record would ask the same")
    return parts


def template_fields(templates: Iterable[tuple[Part, ...]]) -> frozenset[str]:
    """The record's own fields that templates are filled from."""
    names = {name for template in templates for _, name in template if name is not None}
    return frozenset(names | {name.partition(".")[0] for name in names})


def fill_template(parts: tuple[Part, ...], record: Mapping[str, object]) -> str:
    """Put a record's fields into a template; braces in the data stay what they are.

    Raises:
        RuleError: `TEMPLATE_FIELD` for a field that is missing, null, blank, a list or an object.
    """
    filled: list[str] = []
    for literal, name in parts:
        filled.append(literal)
        if name is not None:
            filled.append(_as_text(name, record))
    return "".join(filled)


def _parts(text: str, which: str) -> tuple[Part, ...]:
    try:
        parsed = list(Formatter().parse(text))
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{which} holds half of a surrogate pair: leave it out") from None
    except ValueError:
        raise ValueError(
            f"{which} has a brace without its partner: write {{{{ or }}}} for a brace of the text"
        ) from None
    for _, name, spec, conversion in parsed:
        if name is None:
            continue
        if not all(step.strip() for step in name.split(".")):
            raise ValueError(f"{which} has braces without a field's name in them: give one")
        if spec or conversion or any(c in name for c in "[]{}"):
            raise ValueError(
                f"{which} has {quoted(name)} with more than a field's name in the braces: "
                "give the name alone, as field or field.inner"
            )
    if not text.strip():
        raise ValueError(f"{which} is blank: it must ask something")
    return tuple((literal, name) for literal, name, _, _ in parsed)


def _looked_up(name: str, record: Mapping[str, object]) -> object:
    if name in record:
        return record[name]
    value: object = record
    for step in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and _POSITION.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _as_text(name: str, record: Mapping[str, object]) -> str:
    value = _looked_up(name, record)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not value.strip():
        raise RuleError("TEMPLATE_FIELD", f"the field {quoted(name)} of the question template is blank")
    if isinstance(value, (str, int, float)):
        return str(value)
    if value is None:
        raise RuleError(
            "TEMPLATE_FIELD",
            f"the field {quoted(name)} of the question template is missing: {fields_of(record)}",
        )
    raise RuleError(
        "TEMPLATE_FIELD",
        f"the field {quoted(name)} of the question template is {kind_of(value)}: "
        "it must be a string or a number",
    )
