"""The request defaults: a partial request laid under every question."""

from __future__ import annotations

from dataclasses import dataclass

from groundrows.schemas.discoveryengine.build import SHARED_FIELDS, lay_over, user_context_of
from groundrows.schemas.discoveryengine.fill import field_names
from groundrows.schemas.discoveryengine.messages import message_version, request_class
from groundrows.schemas.errors import RuleError
from groundrows.schemas.jsontext import check_surrogates, compact_json, read_object
from groundrows.schemas.names import camel, nearest
from groundrows.schemas.wording import quoted


@dataclass(frozen=True, slots=True)
class Defaults:
    """Checked request defaults; made by `load_defaults`.

    Attributes:
        request: A serialized `GenerateGroundedContentRequest` without location and contents.
        api_version: Whose message it is.
        user_context: The user context as JSON, or None.
    """

    request: bytes
    api_version: str
    user_context: str | None


def load_defaults(text: str, api_version: str) -> Defaults:
    """Check the JSON of `--request_defaults`: the same fields as in a record, but no question and no id.

    Raises:
        ValueError: one sentence that says what is wrong with it and where.
    """
    message = request_class(api_version)()
    try:
        body = text.encode("utf-8", "surrogatepass")
        fields = read_object(body)
        check_surrogates(fields, body)
        given = _known_fields(fields, api_version)
        lay_over(message, given)
        context = given.get("user_context")
        user_context = None if context is None else compact_json(user_context_of(context))
    except RuleError as broken:
        # The reader speaks of records; these are the one thing it reads that is none.
        message_text = broken.message.replace("the record", "the file")
        raise ValueError(f"--request_defaults can't be used: {message_text}") from None
    return Defaults(
        request=message.SerializeToString(deterministic=True),
        api_version=message_version(api_version),
        user_context=user_context,
    )


def _known_fields(fields: dict[str, object], api_version: str) -> dict[str, object]:
    by_name = {spelling: name for name in SHARED_FIELDS for spelling in (name, camel(name))}
    known: dict[str, object] = {}
    for spelling, value in fields.items():
        name = by_name.get(spelling)
        if name is None:
            raise RuleError("UNKNOWN_FIELD", f"{quoted(spelling)} {_advice(spelling, api_version)}")
        if name in known:
            raise RuleError("DUPLICATE_FIELD", f"{name} is given in camelCase and snake_case: keep one")
        if value is not None:
            known[name] = value
    return known


def _advice(name: str, api_version: str) -> str:
    if name in ("question", "turns", "contents", "id", "metadata"):
        return "belongs in each record: take it out"
    if name == "location":
        return "is given as --location: take it out"
    if name in field_names(request_class(api_version)().generation_spec):
        return "belongs inside generation_spec: move it there"
    meant = nearest(name, SHARED_FIELDS)
    hint = f"did you mean {meant}?" if meant else f"it takes {', '.join(SHARED_FIELDS)}"
    return f"is no field of a request: {hint}"
