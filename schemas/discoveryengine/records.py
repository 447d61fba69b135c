"""Requests for answers, built from the fields of records and from the request defaults."""

from __future__ import annotations

from collections.abc import Mapping

from groundrows.schemas.discoveryengine.build import (
    SHARED_FIELDS,
    add_content,
    lay_contents,
    lay_instruction,
    lay_over,
    user_context_of,
)
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.discoveryengine.rules import text_of
from groundrows.schemas.errors import RuleError
from groundrows.schemas.jsontext import compact_json
from groundrows.schemas.service import BuildSettings, Built

_LAID = frozenset(SHARED_FIELDS) - {"user_context"}


class Builder:
    """See `RequestBuilder`. The defaults are read once, into a message that is copied for each record.

    A request is a serialized `GenerateGroundedContentRequest` whole but for the location, with map fields in
    a deterministic order; an instruction is a serialized `GroundedGenerationContent`.
    """

    def __init__(self, api_version: str, settings: BuildSettings) -> None:
        self._message = request_class(api_version)
        self._base = self._message()
        if settings.model is not None:
            self._base.generation_spec.model_id = settings.model
        defaults = settings.defaults
        if defaults is not None:
            self._base.MergeFromString(defaults.request)
        self._user_context = None if defaults is None else defaults.user_context
        self._transport = settings.transport

    def build(self, question: str | None, fields: Mapping[str, object]) -> Built:
        """See `RequestBuilder.build`."""
        request = self._message()
        request.CopyFrom(self._base)
        if question is None:
            lay_contents(request, fields["contents"])
            question = text_of(request.contents[-1])
        else:
            add_content(request.contents, "user", question)
        if not _LAID.isdisjoint(fields):
            lay_over(request, fields)
        user_context = self._user_context
        if "user_context" in fields:
            context = user_context_of(fields["user_context"])
            if self._transport != "rest":
                raise RuleError(
                    "NEEDS_REST", "user_context goes out over REST only: give --transport=rest or take it out"
                )
            user_context = compact_json(context)
        return Built(request.SerializeToString(deterministic=True), question, user_context)

    def instruction(self, value: object, path: str) -> bytes:
        """See `RequestBuilder.instruction`."""
        content = self._message().system_instruction
        lay_instruction(content, value, path)
        data: bytes = content.SerializeToString(deterministic=True)
        return data


def default_request(api_version: str, fields: Mapping[str, object]) -> Built:
    """The request that is laid under every record's own, without contents; see `Service.default_request`."""
    message = request_class(api_version)()
    lay_over(message, fields)
    context = fields.get("user_context")
    return Built(
        request=message.SerializeToString(deterministic=True),
        text="",
        user_context=None if context is None else compact_json(user_context_of(context)),
    )
