"""A question record: the contract with whoever writes the archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from schemas.build import SHARED_FIELDS, add_content, lay_contents, lay_over, user_context_of
from schemas.defaults import Defaults
from schemas.errors import RecordError, RuleError, quoted
from schemas.fill import wrong_type
from schemas.jsontext import check_surrogates, compact_json, derived_id, read_object
from schemas.messages import ApiVersion, Method, Pb, message_version, request_class
from schemas.names import camel, near_miss
from schemas.record import Record
from schemas.rules import text_of
from schemas.template import Part, fill_template, template_parts

MAX_ID_CHARACTERS = 1_000

_ASKING = ("question", "turns", "contents")
# Known under their own names only; `question` and `id` may be renamed.
_FIXED = ("turns", "contents", "metadata", *SHARED_FIELDS)
_LAID = frozenset(SHARED_FIELDS) - {"user_context"}
_LONGEST_MISS = 60  # characters past which no name is compared with the known ones


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
        question_template: A prompt with the record's fields in braces, in place of a question; or None.
        defaults: The request laid under every record's own, or None.
        api_version: Whose messages are built, and whose rules hold.
        transport: How they will be sent: a `user_context` fits into REST alone.

    Raises:
        ValueError: one sentence, when the settings contradict each other or the template is broken.
    """

    question_field: str = "question"
    id_field: str = "id"
    question_template: str | None = None
    defaults: Defaults | None = None
    api_version: ApiVersion = "v1"
    transport: Literal["grpc", "rest"] = "grpc"

    def __post_init__(self) -> None:
        version = message_version(self.api_version)
        names = _spellings(self.question_field, self.id_field)
        if names.get(self.question_field) != "question" or names.get(self.id_field) != "id":
            raise ValueError(
                f"the question field {quoted(self.question_field)} and the id field {quoted(self.id_field)} "
                "must differ, and be no other field of a record: name others"
            )
        if self.question_template is not None:
            template_parts(self.question_template)
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
    try:
        fields = read_object(record.body)
    except RuleError as broken:
        raise _record_error(broken, "parse", derived_id(record.body), None) from None
    try:
        check_surrogates(fields, record.body)
    except RuleError as broken:
        question_id = _id_text(fields.get(settings.id_field)) or derived_id(fields)
        raise _record_error(broken, "parse", question_id, None) from None

    known, others, twice = _sorted_out(fields, plan)
    question_id = _id_text(known.get("id")) or derived_id(fields)
    metadata = _metadata(known.get("metadata"), others)
    try:
        _check_names(others, twice, plan)
        _check_id(known.get("id"), settings.id_field)
        request = plan.message()
        if plan.base is not None:
            request.CopyFrom(plan.base)
        turns = _lay_question(request, fields, known, plan)
        if not _LAID.isdisjoint(known):
            lay_over(request, known)
        user_context = plan.user_context
        if "user_context" in known:
            user_context = _user_context(known["user_context"], settings.transport)
    except RuleError as broken:
        raise _record_error(broken, "validate", question_id, metadata) from None
    return Question(
        question_id=question_id,
        turns=turns,
        request=request.SerializeToString(deterministic=True),
        api_version=settings.api_version,
        user_context=user_context,
        metadata=metadata,
        record=record.body,
        origin=record.origin,
        history=record.history,
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the settings mean, worked out once for all records.

    `names` are the known fields by every spelling, `known` the names as people know them, `base` the request
    defaults as a message that is copied for each record.
    """

    names: dict[str, str]
    known: frozenset[str]
    question_field: str
    template: tuple[Part, ...] | None
    template_fields: frozenset[str]
    message: type[Pb]
    base: Pb | None
    user_context: str | None


@lru_cache(maxsize=16)
def _plan(settings: RecordSettings) -> _Plan:
    message = request_class(settings.api_version)
    defaults, text = settings.defaults, settings.question_template
    template = None if text is None else template_parts(text)
    template_fields = frozenset(name for _, name in template or () if name is not None)
    names = _spellings(settings.question_field, settings.id_field)
    if settings.question_field in template_fields:
        # The template asks, and the field is one of its words.
        del names[settings.question_field]
    return _Plan(
        names=names,
        known=frozenset({settings.question_field, settings.id_field, *_FIXED}),
        question_field=settings.question_field,
        template=template,
        template_fields=template_fields,
        message=message,
        base=None if defaults is None else message.FromString(defaults.request),
        user_context=None if defaults is None else defaults.user_context,
    )


def _spellings(question_field: str, id_field: str) -> dict[str, str]:
    """The known fields of a record by every spelling that is taken for them."""
    names = {question_field: "question", id_field: "id"}
    return names | {spelling: name for name in _FIXED for spelling in (name, camel(name))}


def _record_error(
    broken: RuleError, stage: Literal["parse", "validate"], question_id: str, metadata: str | None
) -> RecordError:
    return RecordError(broken.code, broken.message, stage, question_id, metadata)


def _sorted_out(
    fields: Mapping[str, object], plan: _Plan
) -> tuple[dict[str, object], dict[str, object], str | None]:
    """Part a record's fields into the known ones, by name and without nulls, and the others, as they came.

    A null is how a table says that a row has no such field. Third comes the name of a known field that was
    given in two spellings, if any.
    """
    known: dict[str, object] = {}
    others: dict[str, object] = {}
    twice: str | None = None
    for spelling, value in fields.items():
        name = plan.names.get(spelling)
        if name is None or (spelling in plan.template_fields and name != "metadata"):
            others[spelling] = value
        if name is not None and value is not None:
            if name in known:
                twice = name
            known[name] = value
    return known, others, twice


def _metadata(own: object, others: Mapping[str, object]) -> str | None:
    """Join a record's `metadata` and its other fields into one JSON object; None when there is neither.

    The keys of `metadata` stand beside the others. Where that would lose one of them, or when it is no
    object, it stays whole under its own name.
    """
    if own is None:
        return compact_json(others) if others else None
    if isinstance(own, dict) and own.keys().isdisjoint(others):
        joined = {**own, **others}
        return compact_json(joined) if joined else None
    return compact_json({**others, "metadata": own})


def _check_names(others: Mapping[str, object], twice: str | None, plan: _Plan) -> None:
    if twice is not None:
        raise RuleError("DUPLICATE_FIELD", f"{twice} is given in camelCase and snake_case: keep one of them")
    for name in others:
        if name in plan.template_fields or len(name) > _LONGEST_MISS:
            continue
        meant = near_miss(name, plan.known)
        if meant is not None:
            raise RuleError(
                "NEAR_MISS",
                f"the field {quoted(name)} was surely meant to be {quoted(meant)}: rename it, or put it "
                "inside `metadata` to keep it",
            )


def _id_text(value: object) -> str | None:
    """The record's own id as text; None when it has none, or none that can be used."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_ID_CHARACTERS:
        return None
    return value if _is_writable(value) else None


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_id(value: object, field: str) -> None:
    if value is None or _id_text(value) is not None:
        return
    if (isinstance(value, str) and value.strip()) or (isinstance(value, int) and not isinstance(value, bool)):
        raise RuleError(
            "INVALID_ID", f"{quoted(field)} is longer than {MAX_ID_CHARACTERS:,} characters: shorten it"
        )
    raise RuleError(
        "INVALID_ID", f"{quoted(field)} must be a string that is not empty, or a whole number: correct it"
    )


def _lay_question(
    request: Pb, fields: Mapping[str, object], known: Mapping[str, object], plan: _Plan
) -> tuple[str, ...]:
    """Add what the record asks first to `request`, and return all the user's turns."""
    asked = [name for name in _ASKING if name in known]
    if plan.template is not None:
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
        return (text_of(request.contents[-1]),)
    if plan.template is not None:
        turns: tuple[str, ...] = (fill_template(plan.template, fields),)
    elif asked == ["question"]:
        turns = (_question_text(known["question"], plan.question_field),)
    else:
        turns = _turn_texts(known["turns"])
    add_content(request.contents, "user", turns[0])
    return turns


def _turn_texts(turns: object) -> tuple[str, ...]:
    if not isinstance(turns, list):
        raise wrong_type("turns", "a list of strings", turns)
    if not turns:
        raise RuleError("NO_QUESTION", "turns is empty: give at least one string")
    return tuple(_question_text(turn, f"turns[{index}]") for index, turn in enumerate(turns))


def _question_text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise wrong_type(path, "a string", value)
    if not value.strip():
        raise RuleError("BLANK_QUESTION", f"{path} is blank: it must ask something")
    return value


def _user_context(value: object, transport: str) -> str:
    context = user_context_of(value)
    if transport != "rest":
        raise RuleError(
            "NEEDS_REST", "user_context goes out over REST only: give --transport=rest or take it out"
        )
    return compact_json(context)
