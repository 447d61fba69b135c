"""A question record: the contract with whoever writes the archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from groundrows.schemas.chat import read_chat
from groundrows.schemas.defaults import Defaults
from groundrows.schemas.errors import RuleError
from groundrows.schemas.fields import Names, read_fields, spellings
from groundrows.schemas.record import Record
from groundrows.schemas.reference import reference_answers
from groundrows.schemas.service import (
    DISCOVERY_ENGINE,
    FACTS_INSTRUCTION,
    BuildSettings,
    Method,
    RequestBuilder,
    service_of,
)
from groundrows.schemas.template import Part, fill_template, template_fields, template_parts
from groundrows.schemas.turns import question_text, read_turns
from groundrows.schemas.wording import fields_of, quoted

_ASKING = ("question", "turns", "contents", "messages")
# Known under their own names only, as the service's fields are; `question` and `id` may be renamed.
_FIXED = ("turns", "contents", "messages", "metadata")
# Settings of Gemini's requests, which stand beside `contents`. Without them another thing would be asked.
_GEMINI_SETTINGS = {
    "generationConfig": "generation_spec",
    "tools": "grounding_sources",
    "toolConfig": "grounding_sources",
    "safetySettings": None,
    "cachedContent": None,
}


@dataclass(frozen=True, slots=True)
class Question:
    """A record that can be asked: every rule of the service that can be checked beforehand was checked.

    Attributes:
        question_id: The record's `id`, or an id derived from its content.
        turns: The user's turns, in order; at least one. With `contents`, the last user turn alone.
        request: The request for the first turn in the form of `service`, whole but for the address; equal
            records give equal bytes.
        api_version: The version of the service's API.
        user_context: The record's `user_context` as JSON, which only REST can carry; else None.
        metadata: The record's metadata as a JSON object, or None.
        record: The record's bytes as read.
        origin: The record's origin.
        history: The record's history.
        method: What to call. A question of `check` has one turn, the answer to be checked.
        instructions: For each turn, in the form of `service`, what takes the place of the request's system
            instruction in that turn, or None; empty when no turn has one of its own.
        service: Which service is asked: a name of `SERVICES`.
        warnings: What was odd about the record, told beside its answers.
        references: The right answers that the record holds, if any; they are never sent.
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
    service: str = DISCOVERY_ENGINE
    warnings: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """How records are read; it travels to the workers.

    Attributes:
        question_field: The field that takes the place of `question`.
        id_field: The field that takes the place of `id`.
        reference_field: The field that holds right answers, or None.
        question_templates: Prompts with the record's fields in braces, in place of a question; several are
            the turns of a conversation, each filled from the same record.
        defaults: The request laid under every record's own, or None.
        api_version: The version of the service's API, whose messages are built and whose rules hold.
        transport: How they will be sent: a `user_context` fits into REST alone.
        service: Which service is asked: a name of `SERVICES`.
        model: The model of requests for which neither record nor defaults name one, or None.
        facts_instruction: What stands above a record's facts, for a service that takes them in the prompt.

    Raises:
        ValueError: one sentence, when the settings contradict each other or a template is broken.
    """

    question_field: str = "question"
    id_field: str = "id"
    question_templates: tuple[str, ...] = ()
    defaults: Defaults | None = None
    api_version: str = "v1"
    transport: Literal["grpc", "rest"] = "grpc"
    service: str = DISCOVERY_ENGINE
    model: str | None = None
    facts_instruction: str = FACTS_INSTRUCTION
    reference_field: str | None = None

    def __post_init__(self) -> None:
        version = service_of(self.service, self.api_version).message_version
        names = _spellings(self)
        if names.get(self.question_field) != "question" or names.get(self.id_field) != "id":
            raise ValueError(
                f"the question field {quoted(self.question_field)} and the id field {quoted(self.id_field)} "
                "must differ, and be no other field of a record: name others"
            )
        if self.reference_field is not None and names.get(self.reference_field) != "references":
            raise ValueError(
                f"the reference field {quoted(self.reference_field)} must differ from every other field of a "
                "record: name another"
            )
        template_parts(self.question_templates)
        if self.defaults is not None:
            if self.defaults.service != self.service:
                raise ValueError(
                    f"the request defaults were checked for {self.defaults.service} and the run asks "
                    f"{self.service}: load them for that"
                )
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
        _requests(self)


def parse_question(record: Record, settings: RecordSettings) -> Question:
    """Read, check and build what one record asks. Pure: the same record gives the same question anywhere.

    Raises:
        RecordError: the record can't be asked; the error says why.
    """
    plan = _plan(settings)
    fields = read_fields(record, plan.names)
    known = fields.known
    try:
        _check_settings_of_gemini(fields.given, known)
        turns, instructions = _turns(fields.given, known, plan)
        if "messages" in known:
            known = _with_contents(known)
        built = plan.requests.build(turns[0] if turns else None, known)
        references = _references(known, settings)
    except RuleError as broken:
        raise fields.refused(broken) from None
    return Question(
        question_id=fields.question_id,
        turns=turns or (built.text,),
        request=built.request,
        api_version=settings.api_version,
        user_context=built.user_context,
        metadata=fields.metadata,
        record=record.body,
        origin=record.origin,
        history=record.history,
        instructions=instructions,
        service=settings.service,
        warnings=fields.warnings,
        references=references,
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the settings mean, worked out once for all records."""

    names: Names
    question_field: str
    templates: tuple[tuple[Part, ...], ...]
    requests: RequestBuilder


@lru_cache(maxsize=16)
def _plan(settings: RecordSettings) -> _Plan:
    service = service_of(settings.service, settings.api_version)
    templates = template_parts(settings.question_templates)
    words = template_fields(templates)
    by_spelling = _spellings(settings)
    if settings.question_field in words:
        # The template asks, and the field is one of its words.
        del by_spelling[settings.question_field]
    return _Plan(
        names=Names(
            by_spelling=by_spelling,
            known=frozenset({settings.question_field, settings.id_field, *_FIXED, *service.fields}),
            id_field=settings.id_field,
            words=words,
            asking=frozenset(_ASKING),
            asking_last=frozenset({"messages"}),
        ),
        question_field=settings.question_field,
        templates=templates,
        requests=_requests(settings),
    )


def _requests(settings: RecordSettings) -> RequestBuilder:
    return service_of(settings.service, settings.api_version).requests(
        BuildSettings(settings.transport, settings.defaults, settings.model, settings.facts_instruction)
    )


def _spellings(settings: RecordSettings) -> dict[str, str]:
    fixed = (*_FIXED, *service_of(settings.service, settings.api_version).fields)
    renamed = {settings.question_field: "question", settings.id_field: "id"}
    if settings.reference_field is not None:
        renamed = {settings.reference_field: "references"} | renamed
    return spellings(renamed, fixed)


def _turns(
    given: Mapping[str, object], known: Mapping[str, object], plan: _Plan
) -> tuple[tuple[str, ...], tuple[bytes | None, ...]]:
    """The user's turns and their own instructions; none when the record has `contents`."""
    asked = [name for name in _ASKING if name in known]
    filled = tuple(fill_template(template, given) for template in plan.templates)
    if filled:
        asked.append("the question template")
    if not asked:
        raise RuleError(
            "NO_QUESTION",
            f"the record asks nothing: give one of {quoted(plan.question_field)}, `turns`, `contents` and "
            f"`messages`, or name its field with --question_field; {fields_of(given)}",
        )
    if len(asked) > 1:
        raise RuleError("TWO_QUESTIONS", f"the record is asked by {' and '.join(asked)}: keep one of them")
    if asked in (["contents"], ["messages"]):
        return (), ()
    if filled:
        return filled, ()
    if asked == ["question"]:
        return (question_text(known["question"], plan.question_field),), ()
    return read_turns(known["turns"], plan.requests.instruction)


def _references(known: Mapping[str, object], settings: RecordSettings) -> tuple[str, ...]:
    if settings.reference_field is None or "references" not in known:
        return ()
    return reference_answers(known["references"], settings.reference_field)


def _with_contents(known: Mapping[str, object]) -> dict[str, object]:
    """The fields with `contents`, and perhaps a system instruction, in the place of `messages`."""
    contents, instruction = read_chat(known["messages"])
    fields: dict[str, object] = {name: value for name, value in known.items() if name != "messages"}
    if instruction is not None:
        if "system_instruction" in known:
            raise RuleError(
                "TWO_INSTRUCTIONS",
                "the record has a system_instruction and a system message: keep one of them",
            )
        fields["system_instruction"] = instruction
    return {**fields, "contents": contents}


def _check_settings_of_gemini(given: Mapping[str, object], known: Mapping[str, object]) -> None:
    if "contents" not in known:
        return
    for name, ours in _GEMINI_SETTINGS.items():
        if given.get(name):
            advice = f"write {ours} for it" if ours else "take it out"
            raise RuleError(
                "OTHER_SERVICE",
                f"the record has `{name}`, a setting of Gemini's requests that records do not have: {advice}",
            )
