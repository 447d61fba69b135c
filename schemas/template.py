"""Question templates: a prompt with a record's fields in braces."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from schemas.errors import RuleError, kind_of, quoted

Part = tuple[str, str | None]
"""Text as it is, then the name of the field that follows it, if one does."""


def check_template(text: str) -> None:
    """Check a question template before the first record is read; see `template_parts`.

    Raises:
        ValueError: one sentence that says what is wrong with it.
    """
    template_parts(text)


def template_parts(text: str) -> tuple[Part, ...]:
    """Take a template apart: `{company}` is a field of the record, `{{` and `}}` are braces.

    Attributes, indexes, conversions and formats are not taken: a template only puts text together.

    Raises:
        ValueError: one sentence that says what is wrong with it.
    """
    try:
        parsed = list(Formatter().parse(text))
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the question template holds half of a surrogate pair: leave it out") from None
    except ValueError:
        raise ValueError(
            "the question template has a brace without its partner: write {{ or }} for a brace of the text"
        ) from None
    for _, name, spec, conversion in parsed:
        if name is None:
            continue
        if not name.strip():
            raise ValueError("the question template has empty braces: name a field in them")
        if spec or conversion or any(c in name for c in ".[]{}"):
            raise ValueError(
                f"the question template has {quoted(name)} with more than a field's name in the braces: "
                "give the name alone"
            )
    if not any(name for _, name, _, _ in parsed):
        raise ValueError("the question template names no field: every record would ask the same")
    return tuple((literal, name) for literal, name, _, _ in parsed)


def fill_template(parts: tuple[Part, ...], record: Mapping[str, object]) -> str:
    """Put a record's fields into a template; braces in the data stay what they are.

    Raises:
        RuleError: `TEMPLATE_FIELD` for a field that is missing, null, blank, a list or an object.
    """
    filled: list[str] = []
    for literal, name in parts:
        filled.append(literal)
        if name is not None:
            filled.append(_as_text(name, record.get(name)))
    return "".join(filled)


def _as_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not value.strip():
        raise RuleError("TEMPLATE_FIELD", f"the field {quoted(name)} of the question template is blank")
    if isinstance(value, (str, int, float)):
        return str(value)
    found = "missing" if value is None else kind_of(value)
    raise RuleError(
        "TEMPLATE_FIELD",
        f"the field {quoted(name)} of the question template is {found}: it must be a string or a number",
    )
