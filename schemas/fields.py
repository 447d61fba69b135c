"""What every kind of record has: fields of its own by any spelling, an id, metadata, and names it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from groundrows.schemas.errors import RecordError, RecordStage, RuleError
from groundrows.schemas.failed_fields import as_it_was
from groundrows.schemas.jsontext import check_surrogates, compact_json, derived_id, is_writable, read_record
from groundrows.schemas.names import ORDINARY_BESIDE_A_QUESTION, camel, near_miss, plain_name
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
        asking: The known fields of which a record needs one.
        asking_last: Those of them that ask only where no other does, and are metadata elsewhere.
        by_plain_name: The known fields by their names without upper case, `_`, `-` and spaces.
    """

    by_spelling: dict[str, str]
    known: frozenset[str]
    id_field: str
    words: frozenset[str] = frozenset()
    asking: frozenset[str] = frozenset()
    asking_last: frozenset[str] = frozenset()
    by_plain_name: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        loosely = {plain_name(spelling): name for spelling, name in self.by_spelling.items()}
        object.__setattr__(self, "by_plain_name", loosely)


@dataclass(frozen=True, slots=True)
class Fields:
    """A record that was read, its id and its names checked.

    Attributes:
        given: Everything, as it came.
        known: The known fields by name, without nulls: a null is how a table says that there is none.
        question_id: The record's own id, or one derived from its content.
        metadata: Its metadata as a JSON object, or None.
        warnings: What was odd about the record and is told beside its answers.
    """

    given: dict[str, object]
    known: dict[str, object]
    question_id: str
    metadata: str | None
    warnings: tuple[str, ...] = ()

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
        given, not_finite = read_record(record.body)
        given = as_it_was(given)
    except RuleError as broken:
        raise _record_error(broken, "parse", derived_id(record.body), message) from None
    try:
        check_surrogates(given, record.body)
    except RuleError as broken:
        question_id = _id_text(given.get(names.id_field)) or derived_id(given)
        raise _record_error(broken, "parse", question_id, message) from None

    known, others, twice = _sorted_out(given, names)
    in_metadata = not_finite & (others.keys() | {"metadata"})
    fields = Fields(
        given=given,
        known=known,
        question_id=_id_text(known.get("id")) or derived_id(given),
        metadata=_metadata(known.get("metadata"), others, record.attributes),
        warnings=tuple(
            f"The record's field {quoted(name)} holds NaN or an infinity, which JSON does not know: "
            "the metadata has null in its place."
            for name in sorted(in_metadata)
        ),
    )
    if not_finite != in_metadata:
        name = min(not_finite - in_metadata)
        unknown = RuleError(
            "NOT_FINITE",
            f"{quoted(name)} holds NaN or an infinity, which is no JSON number: write null or a string",
        )
        raise _record_error(unknown, "parse", fields.question_id, fields.metadata)
    try:
        _check_names(others, twice, names, beside=bool(names.words or known.keys() & names.asking))
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

    Third comes the name of a known field that was given in two spellings, if any. A table can't leave a field
    out, so an empty value says that there is none, except where nothing else asks: then it is what is wrong.
    """
    known: dict[str, object] = {}
    others: dict[str, object] = {}
    empty: dict[str, object] = {}
    twice: str | None = None
    for spelling, value in given.items():
        name = names.by_spelling.get(spelling)
        if name is None or (spelling in names.words and name != "metadata"):
            others[spelling] = value
        if name is None or value is None:
            continue
        if name not in _MEANT_EMPTY and value in _EMPTY:
            empty[name] = value
            continue
        if name in known:
            twice = name
        known[name] = value
    for spelling in [spelling for spelling in others if spelling not in names.by_spelling]:
        name = names.by_plain_name.get(plain_name(spelling))
        if name is None or spelling in names.words or not _is_meant(name, given[spelling], known, names):
            continue
        known[name] = others.pop(spelling)
    if names.asking.isdisjoint(known):
        known = {name: value for name, value in empty.items() if name in names.asking} | known
    if names.words or known.keys() & (names.asking - names.asking_last):
        others |= {name: known.pop(name) for name in names.asking_last if name in known}
    return known, others, twice


_EMPTY: tuple[object, ...] = ("", [])
_MEANT_EMPTY = frozenset({"grounding_sources", "grounding_spec"})
"""An empty list of sources replaces those of the request defaults."""


def _is_meant(name: str, value: object, known: Mapping[str, object], names: Names) -> bool:
    """Whether a field whose name differs in spelling alone is the known one. Its own spelling goes before."""
    if value is None or value in _EMPTY or name in known:
        return False
    if name == "id":
        return _id_text(value) is not None
    return name not in names.asking or not (names.words or known.keys() & names.asking)


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


def _check_names(others: Mapping[str, object], twice: str | None, names: Names, *, beside: bool) -> None:
    if twice is not None:
        raise RuleError("DUPLICATE_FIELD", f"{twice} is given in camelCase and snake_case: keep one of them")
    for name, value in others.items():
        if name in names.words or len(name) > _LONGEST_MISS:
            continue
        if beside and _is_ordinary(name, value, names):
            continue
        meant = near_miss(name, names.known)
        if meant is not None:
            raise RuleError(
                "NEAR_MISS",
                f"the field {quoted(name)} was surely meant to be {quoted(meant)}: rename it, or put it "
                "inside `metadata` to keep it",
            )


def _is_ordinary(name: str, value: object, names: Names) -> bool:
    """Whether a field beside a question is a column of the archive's own rather than a slip of the pen."""
    plain = plain_name(name)
    if plain in names.by_plain_name:  # another spelling of a field that is there
        return True
    return plain in ORDINARY_BESIDE_A_QUESTION and not isinstance(value, list)


def _id_text(value: object) -> str | None:
    """The record's own id as text; None when it has none, or none that can be used."""
    if isinstance(value, float) and value.is_integer():  # as tables write whole numbers beside gaps
        value = int(value)
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
