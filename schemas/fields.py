"""What every kind of record has: fields of its own by any spelling, an id, metadata, and names it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from groundrows.schemas.errors import RecordError, RecordStage, RuleError
from groundrows.schemas.jsontext import check_surrogates, compact_json, derived_id, is_writable, read_object
from groundrows.schemas.names import camel, near_miss
from groundrows.schemas.record import Record
from groundrows.schemas.wording import quoted

MAX_ID_CHARACTERS = 1_000

_PUBSUB = "pubsub"
_LONGEST_MISS = 60  # characters past which no name is compared with the known ones


@dataclass(frozen=True, slots=True)
class Names:
    """The fields that a kind of record knows.

    Attributes:
        by_spelling: The known fields by every spelling that is taken for them.
        known: Their names as people know them, the renamed ones by their own.
        id_field: Where the id is.
        words: Fields that stay in the metadata whether known or not, and are no slip of the pen for a known
            one: a template is made of them.
    """

    by_spelling: dict[str, str]
    known: frozenset[str]
    id_field: str
    words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Fields:
    """A record that was read, its id and its names checked.

    Attributes:
        given: Everything, as it came.
        known: The known fields by name, without nulls: a null is how a table says that there is none.
        question_id: The record's own id, or one derived from its content.
        metadata: Its metadata as a JSON object, or None.
    """

    given: dict[str, object]
    known: dict[str, object]
    question_id: str
    metadata: str | None

    def refused(self, broken: RuleError) -> RecordError:
        """What to raise for a record that breaks a rule."""
        return _record_error(broken, "validate", self.question_id, self.metadata)


def spellings(renamed: Mapping[str, str], fixed: Iterable[str]) -> dict[str, str]:
    """The known fields by every spelling: the renamed ones by their own alone, the fixed ones by both.

    Args:
        renamed: Names by the spelling chosen for them.
        fixed: Names in snake_case, known in camelCase too.
    """
    return dict(renamed) | {spelling: name for name in fixed for spelling in (name, camel(name))}


def read_fields(record: Record, names: Names) -> Fields:
    """Read a record's bytes and part its fields into the known ones and metadata.

    Raises:
        RecordError: the bytes are no JSON object, or a name or the id can't be used.
    """
    message = _metadata(None, {}, record.attributes)
    try:
        given = read_object(record.body)
    except RuleError as broken:
        raise _record_error(broken, "parse", derived_id(record.body), message) from None
    try:
        check_surrogates(given, record.body)
    except RuleError as broken:
        question_id = _id_text(given.get(names.id_field)) or derived_id(given)
        raise _record_error(broken, "parse", question_id, message) from None

    known, others, twice = _sorted_out(given, names)
    fields = Fields(
        given=given,
        known=known,
        question_id=_id_text(known.get("id")) or derived_id(given),
        metadata=_metadata(known.get("metadata"), others, record.attributes),
    )
    try:
        _check_names(others, twice, names)
        _check_id(known.get("id"), names.id_field)
    except RuleError as broken:
        raise fields.refused(broken) from None
    return fields


def _record_error(
    broken: RuleError, stage: RecordStage, question_id: str, metadata: str | None
) -> RecordError:
    return RecordError(broken.code, broken.message, stage, question_id, metadata)


def _sorted_out(
    given: Mapping[str, object], names: Names
) -> tuple[dict[str, object], dict[str, object], str | None]:
    """Part a record's fields into the known ones, by name and without nulls, and the others, as they came.

    Third comes the name of a known field that was given in two spellings, if any.
    """
    known: dict[str, object] = {}
    others: dict[str, object] = {}
    twice: str | None = None
    for spelling, value in given.items():
        name = names.by_spelling.get(spelling)
        if name is None or (spelling in names.words and name != "metadata"):
            others[spelling] = value
        if name is not None and value is not None:
            if name in known:
                twice = name
            known[name] = value
    return known, others, twice


def _metadata(own: object, others: Mapping[str, object], attributes: str | None) -> str | None:
    """Join a record's `metadata`, its other fields and what came with its message; None without any.

    The keys of `metadata` stand beside the others. Where that would lose one of them, or when it is no
    object, it stays whole under its own name.
    """
    if own is None:
        joined = dict(others)
    elif isinstance(own, dict) and own.keys().isdisjoint(others):
        joined = {**own, **others}
    else:
        joined = {**others, "metadata": own}
    if attributes is not None:
        if _PUBSUB in joined:
            joined = {"metadata": joined}
        joined[_PUBSUB] = json.loads(attributes)
    return compact_json(joined) if joined else None


def _check_names(others: Mapping[str, object], twice: str | None, names: Names) -> None:
    if twice is not None:
        raise RuleError("DUPLICATE_FIELD", f"{twice} is given in camelCase and snake_case: keep one of them")
    for name in others:
        if name in names.words or len(name) > _LONGEST_MISS:
            continue
        meant = near_miss(name, names.known)
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
    return value if is_writable(value) else None


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
