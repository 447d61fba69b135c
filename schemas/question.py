"""A question record: the contract with whoever writes the archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from groundrows.schemas.defaults import Defaults
from groundrows.schemas.discoveryengine.build import (
    SHARED_FIELDS,
    add_content,
    lay_contents,
    lay_over,
    user_context_of,
)
from groundrows.schemas.discoveryengine.messages import ApiVersion, Method, Pb, message_version, request_class
from groundrows.schemas.discoveryengine.rules import text_of
from groundrows.schemas.errors import RuleError
from groundrows.schemas.fields import Names, read_fields, spellings
from groundrows.schemas.jsontext import compact_json
from groundrows.schemas.record import Record
from groundrows.schemas.template import Part, fill_template, template_fields, template_parts
from groundrows.schemas.turns import question_text, read_turns
from groundrows.schemas.wording import quoted

_ASKING = ("question", "turns", "contents")
# Known under their own names only; `question` and `id` may be renamed.
_FIXED = ("turns", "contents", "metadata", *SHARED_FIELDS)
_LAID = frozenset(SHARED_FIELDS) - {"user_context"}


@dataclass(frozen=True, slots=True)
class Question:
    """A record that can be asked: every rule of the service that can be checked beforehand was checked.

    Attributes:
        question_id: The record's `id`, or an id derived from its content.
        turns: The user's turns, in order; at least one. With `contents`, the last user turn alone.
        request: A serialized `GenerateGroundedContentRequest` of `api_version` for the first turn, whole
            but for the location; map fields in a deterministic order.
        api_version: `v1`, `v1beta` or `v1alpha` (whose messages are v1's).
        user_context: The record's `user_context` as JSON, which only REST can carry; else None.
        metadata: The record's metadata as a JSON object, or None.
        record: The record's bytes as read.
        origin: The record's origin.
        history: The record's history.
        method: What to call. A question of `check` has one turn, the answer to be checked, and its request is
            a serialized `CheckGroundingRequest`, whole but for the grounding config.
        instructions: For each turn, a serialized `GroundedGenerationContent` that takes the place of the
            request's system instruction in that turn, or None; empty when no turn has one of its own.
    """

    question_id: str
    turns: tuple[str, ...]
    request: bytes
    api_version: str
    user_context: str | None
    metadata: str | None
    record: bytes
    origin: str
    history: tuple[str, ...] = ()
    method: Method = "generate"
    instructions: tuple[bytes | None, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """How records are read; it travels to the workers.

    Attributes:
        question_field: The field that takes the place of `question`.
        id_field: The field that takes the place of `id`.
        question_templates: Prompts with the record's fields in braces, in place of a question; several are
            the turns of a conversation, each filled from the same record.
        defaults: The request laid under every record's own, or None.
        api_version: Whose messages are built, and whose rules hold.
        transport: How they will be sent: a `user_context` fits into REST alone.

    Raises:
        ValueError: one sentence, when the settings contradict each other or a template is broken.
    """

    question_field: str = "question"
    id_field: str = "id"
    question_templates: tuple[str, ...] = ()
    defaults: Defaults | None = None
    api_version: ApiVersion = "v1"
    transport: Literal["grpc", "rest"] = "grpc"

    def __post_init__(self) -> None:
        version = message_version(self.api_version)
        names = _spellings(self)
        if names.get(self.question_field) != "question" or names.get(self.id_field) != "id":
            raise ValueError(
                f"the question field {quoted(self.question_field)} and the id field {quoted(self.id_field)} "
                "must differ, and be no other field of a record: name others"
            )
        template_parts(self.question_templates)
        if self.defaults is not None:
            if self.defaults.api_version != version:
                raise ValueError(
                    f"the request defaults were checked for {self.defaults.api_version} and the run uses "
                    f"{self.api_version}: load them for that"
                )
            if self.defaults.user_context is not None and self.transport != "rest":
                raise ValueError(
                    "the request defaults have a user_context, which goes out over REST only: "
                    "give --transport=rest or take it out"
                )


def parse_question(record: Record, settings: RecordSettings) -> Question:
    """Read, check and build what one record asks. Pure: the same record gives the same question anywhere.

    Raises:
        RecordError: the record can't be asked; the error says why.
    """
    plan = _plan(settings)
    fields = read_fields(record, plan.names)
    known = fields.known
    try:
        request = plan.message()
        if plan.base is not None:
            request.CopyFrom(plan.base)
        turns, instructions = _lay_question(request, fields.given, known, plan)
        if not _LAID.isdisjoint(known):
            lay_over(request, known)
        user_context = plan.user_context
        if "user_context" in known:
            user_context = _user_context(known["user_context"], settings.transport)
    except RuleError as broken:
        raise fields.refused(broken) from None
    return Question(
        question_id=fields.question_id,
        turns=turns,
        request=request.SerializeToString(deterministic=True),
        api_version=settings.api_version,
        user_context=user_context,
        metadata=fields.metadata,
        record=record.body,
        origin=record.origin,
        history=record.history,
        instructions=instructions,
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the settings mean, worked out once for all records.

    `base` are the request defaults as a message that is copied for each record.
    """

    names: Names
    question_field: str
    templates: tuple[tuple[Part, ...], ...]
    message: type[Pb]
    base: Pb | None
    user_context: str | None


@lru_cache(maxsize=16)
def _plan(settings: RecordSettings) -> _Plan:
    message = request_class(settings.api_version)
    defaults = settings.defaults
    templates = template_parts(settings.question_templates)
    words = template_fields(templates)
    by_spelling = _spellings(settings)
    if settings.question_field in words:
        # The template asks, and the field is one of its words.
        del by_spelling[settings.question_field]
    return _Plan(
        names=Names(
            by_spelling=by_spelling,
            known=frozenset({settings.question_field, settings.id_field, *_FIXED}),
            id_field=settings.id_field,
            words=words,
            asking=frozenset(_ASKING),
        ),
        question_field=settings.question_field,
        templates=templates,
        message=message,
        base=None if defaults is None else message.FromString(defaults.request),
        user_context=None if defaults is None else defaults.user_context,
    )


def _spellings(settings: RecordSettings) -> dict[str, str]:
    return spellings({settings.question_field: "question", settings.id_field: "id"}, _FIXED)


def _lay_question(
    request: Pb, given: Mapping[str, object], known: Mapping[str, object], plan: _Plan
) -> tuple[tuple[str, ...], tuple[bytes | None, ...]]:
    """Add what the record asks first to `request`; return all the user's turns and their own instructions."""
    asked = [name for name in _ASKING if name in known]
    if plan.templates:
        asked.append("the question template")
    if not asked:
        raise RuleError(
            "NO_QUESTION",
            f"the record asks nothing: give one of {quoted(plan.question_field)}, `turns` and `contents`",
        )
    if len(asked) > 1:
        raise RuleError("TWO_QUESTIONS", f"the record is asked by {' and '.join(asked)}: keep one of them")
    if asked == ["contents"]:
        lay_contents(request, known["contents"])
        return (text_of(request.contents[-1]),), ()
    instructions: tuple[bytes | None, ...] = ()
    if plan.templates:
        turns = tuple(fill_template(template, given) for template in plan.templates)
    elif asked == ["question"]:
        turns = (question_text(known["question"], plan.question_field),)
    else:
        turns, instructions = read_turns(known["turns"], plan.message)
    add_content(request.contents, "user", turns[0])
    return turns, instructions


def _user_context(value: object, transport: str) -> str:
    context = user_context_of(value)
    if transport != "rest":
        raise RuleError(
            "NEEDS_REST", "user_context goes out over REST only: give --transport=rest or take it out"
        )
    return compact_json(context)
