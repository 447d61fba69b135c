"""A record that holds an answer, to be checked against the facts beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from groundrows.schemas.errors import RuleError
from groundrows.schemas.fields import Names, read_fields, spellings
from groundrows.schemas.question import Question
from groundrows.schemas.record import Record
from groundrows.schemas.service import DISCOVERY_ENGINE, CheckService, check_service_of
from groundrows.schemas.wording import quoted

_FIXED = ("answer_candidate", "metadata")


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How records of answers are read; it travels to the workers.

    Attributes:
        id_field: The field that takes the place of `id`.
        answer_field: The field that takes the place of `answer`.
        citation_threshold: From which score on a fact is cited, for records that say none; None leaves it
            to the service, whose default is 0.6.
        claim_scores: Whether each claim is scored too, for records that do not say.
        api_version: The version of the service's API, whose messages are built.
        service: Which service checks: a name of `SERVICES`.

    Raises:
        ValueError: one sentence, when a setting can't be used.
    """

    id_field: str = "id"
    answer_field: str = "answer"
    citation_threshold: float | None = None
    claim_scores: bool = True
    api_version: str = "v1"
    service: str = DISCOVERY_ENGINE

    def __post_init__(self) -> None:
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
    try:
        answer, path = _answer(fields.known, settings.answer_field)
        built = _service(settings).build_check(
            answer, path, fields.known, settings.citation_threshold, settings.claim_scores
        )
    except RuleError as broken:
        raise fields.refused(broken) from None
    return Question(
        question_id=fields.question_id,
        turns=(built.text,),
        request=built.request,
        api_version=settings.api_version,
        user_context=built.user_context,
        metadata=fields.metadata,
        record=record.body,
        origin=record.origin,
        history=record.history,
        method="check",
        service=settings.service,
    )


def _service(settings: CheckSettings) -> CheckService:
    return check_service_of(settings.service, settings.api_version)


def _fixed(settings: CheckSettings) -> tuple[str, ...]:
    return (*_FIXED, *_service(settings).check_fields)


def _spellings(settings: CheckSettings) -> dict[str, str]:
    return spellings({settings.answer_field: "answer", settings.id_field: "id"}, _fixed(settings))


@lru_cache(maxsize=16)
def _names(settings: CheckSettings) -> Names:
    return Names(
        by_spelling=_spellings(settings),
        known=frozenset({settings.answer_field, settings.id_field, *_fixed(settings)}),
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
