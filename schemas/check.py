"""An answer to be checked against facts: `CheckGrounding`'s own records, and requests built from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from groundrows.schemas.discoveryengine import rules
from groundrows.schemas.discoveryengine.build import add_facts, lay_labels
from groundrows.schemas.discoveryengine.fill import fill, wrong_type
from groundrows.schemas.discoveryengine.messages import ApiVersion, Pb, message_version, request_class
from groundrows.schemas.errors import RuleError
from groundrows.schemas.fields import Names, read_fields, spellings
from groundrows.schemas.question import Question
from groundrows.schemas.record import Record
from groundrows.schemas.wording import quoted

_FIXED = ("answer_candidate", "facts", "grounding_spec", "citation_threshold", "user_labels", "metadata")
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How records of answers are read; it travels to the workers.

    Attributes:
        id_field: The field that takes the place of `id`.
        answer_field: The field that takes the place of `answer`.
        citation_threshold: From which score on a fact is cited, for records that say none; None leaves it
            to the service, whose default is 0.6.
        claim_scores: Whether each claim is scored too, for records that do not say.
        api_version: Whose messages are built.

    Raises:
        ValueError: one sentence, when a setting can't be used.
    """

    id_field: str = "id"
    answer_field: str = "answer"
    citation_threshold: float | None = None
    claim_scores: bool = True
    api_version: ApiVersion = "v1"

    def __post_init__(self) -> None:
        message_version(self.api_version)
        names = _spellings(self)
        if names.get(self.answer_field) != "answer" or names.get(self.id_field) != "id":
            raise ValueError(
                f"the answer field {quoted(self.answer_field)} and the id field {quoted(self.id_field)} "
                "must differ, and be no other field of a record: name others"
            )
        if self.citation_threshold is not None and not 0 <= self.citation_threshold <= 1:
            raise ValueError(
                f"the citation threshold is {self.citation_threshold:g}: give a number from 0 to 1"
            )


def check_request(
    api_version: str,
    answer_text: str,
    facts: Sequence[tuple[str, Mapping[str, str]]],
    citation_threshold: float | None,
    user_labels: Mapping[str, str] = _NO_LABELS,
) -> bytes:
    """The request that checks an answer, claim by claim; nothing is cut to fit.

    Args:
        api_version: Whose message to build.
        answer_text: The answer.
        facts: What to check it against, at least one: texts with attributes.
        citation_threshold: From which score on a fact is cited, in [0, 1]; None for the service's own.
        user_labels: Labels for the request.

    Returns:
        A serialized `CheckGroundingRequest` without its grounding config, which is made of the location;
        map fields in a deterministic order.

    Raises:
        RuleError: `BLANK_ANSWER`, `NO_FACTS`, `TOO_MANY_FACTS`, `FACT_TOO_LONG`, `EMPTY_FACT`,
            `OUT_OF_RANGE`, `INVALID_LABEL`, `TOO_MANY_LABELS` or `LONE_SURROGATE`.
    """
    given: list[object] = [{"fact_text": text, "attributes": dict(attributes)} for text, attributes in facts]
    spec = {"citation_threshold": citation_threshold, "enable_claim_level_score": True}
    message = request_class(api_version, "check")()
    try:
        _lay_check(message, answer_text, "answer", given)
        fill(message.grounding_spec, spec, "grounding_spec")
        lay_labels(message, user_labels)
        return _serialized(message)
    except UnicodeEncodeError:
        raise RuleError(
            "LONE_SURROGATE",
            "the check holds half of a surrogate pair, which no UTF-8 text can: write the whole character",
        ) from None


def parse_check(record: Record, settings: CheckSettings) -> Question:
    """Read, check and build what one record wants checked: the answer is the question's one turn.

    A record holds `answer`, a string, and `facts`, as in a question's record; beside them, all optional,
    `id`, `citation_threshold`, `user_labels` and `metadata`. The API's own `answer_candidate` and
    `grounding_spec` are taken too. Any other field, the question that was answered included, is kept in the
    metadata.

    Raises:
        RecordError: the record can't be checked; the error says why.
    """
    fields = read_fields(record, _names(settings))
    message = request_class(settings.api_version, "check")()
    try:
        answer = _answer(fields.known, settings.answer_field)
        _lay_check(message, *answer, fields.known.get("facts"))
        _lay_spec(message.grounding_spec, fields.known, settings)
        if "user_labels" in fields.known:
            lay_labels(message, fields.known["user_labels"])
    except RuleError as broken:
        raise fields.refused(broken) from None
    return Question(
        question_id=fields.question_id,
        turns=(message.answer_candidate,),
        request=_serialized(message),
        api_version=settings.api_version,
        user_context=None,
        metadata=fields.metadata,
        record=record.body,
        origin=record.origin,
        history=record.history,
        method="check",
    )


def _spellings(settings: CheckSettings) -> dict[str, str]:
    return spellings({settings.answer_field: "answer", settings.id_field: "id"}, _FIXED)


@lru_cache(maxsize=16)
def _names(settings: CheckSettings) -> Names:
    return Names(
        by_spelling=_spellings(settings),
        known=frozenset({settings.answer_field, settings.id_field, *_FIXED}),
        id_field=settings.id_field,
        asking=frozenset({"answer", "answer_candidate"}),
    )


def _answer(known: Mapping[str, object], answer_field: str) -> tuple[object, str]:
    """The answer as it came, and the name it came by."""
    shown = {"answer": answer_field, "answer_candidate": "answer_candidate"}
    found = [(known[name], path) for name, path in shown.items() if name in known]
    if not found:
        raise RuleError("NO_ANSWER", f"the record holds no answer: give {quoted(answer_field)} and `facts`")
    if len(found) > 1:
        raise RuleError(
            "TWO_ANSWERS", f"the record has {quoted(answer_field)} and answer_candidate: keep one"
        )
    return found[0]


def _lay_check(message: Pb, answer: object, path: str, facts: object) -> None:
    if not isinstance(answer, str):
        raise wrong_type(path, "a string", answer)
    if not answer.strip():
        raise RuleError("BLANK_ANSWER", f"{path} is blank: it must say something that can be checked")
    message.answer_candidate = answer
    if facts is None:
        raise RuleError("NO_FACTS", "the record holds no facts: give `facts` to check the answer against")
    add_facts(message.facts, facts, rules.check_checked_fact_count)


def _lay_spec(spec: Pb, known: Mapping[str, object], settings: CheckSettings) -> None:
    """The settings under the record's own, which may stand in the API's form or, the threshold, alone."""
    spec.enable_claim_level_score = settings.claim_scores
    if settings.citation_threshold is not None:
        spec.citation_threshold = settings.citation_threshold
    if "grounding_spec" in known:
        if "citation_threshold" in known:
            raise RuleError(
                "TWO_THRESHOLDS", "the record has grounding_spec and citation_threshold: keep one of them"
            )
        fill(spec, known["grounding_spec"], "grounding_spec")
    elif "citation_threshold" in known:
        fill(spec, {"citation_threshold": known["citation_threshold"]})


def _serialized(message: Pb) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data
