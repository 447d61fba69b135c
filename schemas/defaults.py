"""The request defaults: a partial request laid under every question."""

from __future__ import annotations

from dataclasses import dataclass

from groundrows.schemas.errors import RuleError
from groundrows.schemas.jsontext import check_surrogates, read_object
from groundrows.schemas.names import camel, nearest
from groundrows.schemas.service import DISCOVERY_ENGINE, Service, service_of
from groundrows.schemas.wording import quoted


@dataclass(frozen=True, slots=True)
class Defaults:
    """Checked request defaults; made by `load_defaults`.

    Attributes:
        request: A request in the service's form, without a question and an address.
        api_version: The version of the API whose messages it is made of.
        user_context: The user context as JSON, or None.
        service: Whose request it is.
    """

    request: bytes
    api_version: str
    user_context: str | None
    service: str = DISCOVERY_ENGINE


def load_defaults(text: str, api_version: str, service: str = DISCOVERY_ENGINE) -> Defaults:
    """Check the JSON of `--request_defaults`: the same fields as in a record, but no question and no id.

    Raises:
        ValueError: one sentence that says what is wrong with it and where.
    """
    asked = service_of(service, api_version)
    try:
        body = text.encode("utf-8", "surrogatepass")
        fields = read_object(body)
        check_surrogates(fields, body)
        built = asked.default_request(_known_fields(fields, asked))
    except RuleError as broken:
        # The reader speaks of records; these are the one thing it reads that is none.
        message_text = broken.message.replace("the record", "the file")
        raise ValueError(f"--request_defaults can't be used: {message_text}") from None
    return Defaults(built.request, asked.message_version, built.user_context, service)


def _known_fields(fields: dict[str, object], service: Service) -> dict[str, object]:
    by_name = {spelling: name for name in service.fields for spelling in (name, camel(name))}
    known: dict[str, object] = {}
    for spelling, value in fields.items():
        name = by_name.get(spelling)
        if name is None:
            raise RuleError("UNKNOWN_FIELD", f"{quoted(spelling)} {_advice(spelling, service)}")
        if name in known:
            raise RuleError("DUPLICATE_FIELD", f"{name} is given in camelCase and snake_case: keep one")
        if value is not None:
            known[name] = value
    return known


def _advice(name: str, service: Service) -> str:
    if name in ("question", "turns", "contents", "id", "metadata"):
        return "belongs in each record: take it out"
    if name == "location":
        return "is given as --location: take it out"
    home = service.home_of(name)
    if home is not None:
        return f"belongs inside {home}: move it there"
    meant = nearest(name, service.fields)
    hint = f"did you mean {meant}?" if meant else f"it takes {', '.join(service.fields)}"
    return f"is no field of a request: {hint}"
