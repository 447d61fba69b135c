"""Answers on their way to being checked, and what the emulator's checks of them become."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from groundrows.schemas.discoveryengine.messages import request_class, response_class
from groundrows.schemas.outcome import Failure, Outcome
from groundrows.transforms.check import AnswerCheck, CheckAnswers, checks_of
from groundrows.transforms.rows.flatten import FlattenSettings, flatten
from tests.support.checked_answers import IRON, TIN, answered, asked, candidate_of, response_with
from tests.support.engines import make_settings


def only_check(outcome: Outcome, threshold: float | None = None) -> AnswerCheck:
    (check,) = checks_of(outcome, threshold)
    assert isinstance(check, AnswerCheck)
    return check


def facts_of(check: AnswerCheck) -> list[tuple[str, dict[str, str]]]:
    message: Any = request_class(check.api_version, "check").FromString(check.request)
    return [(fact.fact_text, dict(fact.attributes)) for fact in message.facts]


def test_an_answer_is_checked_against_its_chunks_in_their_order() -> None:
    check = only_check(answered(response_with()), 0.75)
    assert (check.method, check.turns) == ("check", (f"{TIN} {IRON}",))
    message: Any = request_class("v1", "check").FromString(check.request)
    assert message.answer_candidate == f"{TIN} {IRON}"
    assert facts_of(check) == [(TIN, {}), (IRON, {})]
    assert message.grounding_spec.citation_threshold == 0.75
    assert message.grounding_spec.enable_claim_level_score
    assert check.chunk_indices == (0, 1)


def test_of_a_delivered_answer_only_what_is_unchecked_is_checked() -> None:
    message = response_with()
    candidate_of(message, text=TIN).index = 1
    new = answered(message, response_with())
    ids = [check.question_id for check in checks_of(new, None) if isinstance(check, AnswerCheck)]
    assert len(set(ids)) == 3
    for wanted in (set(), {ids[0]}, {ids[1]}, set(ids[:2]), {ids[2], "another"}):
        first, second = new.answers
        delivered = dataclasses.replace(first, unchecked=frozenset(wanted))
        outcome = dataclasses.replace(new, answers=(delivered, second))
        checks = list(checks_of(outcome, None))
        assert [check.question_id for check in checks if isinstance(check, AnswerCheck)] == [
            *(each for each in ids[:2] if each in wanted),
            ids[2],
        ]
        assert None not in checks  # nothing to check is not counted anew


def test_a_check_knows_the_answer_and_the_record_it_belongs_to() -> None:
    outcome = answered(response_with(), response_with(text=TIN))
    first, second = checks_of(outcome, None)
    assert isinstance(first, AnswerCheck)
    assert isinstance(second, AnswerCheck)
    rows = flatten(outcome, FlattenSettings("run")).answers
    assert [check.question_id for check in (first, second)] == [row.answer_id for row in rows]
    assert [(check.answered_id, check.answered_turn) for check in (first, second)] == [("q1", 0), ("q1", 1)]
    question = outcome.question
    for check in (first, second):
        assert (check.record, check.origin, check.metadata, check.history, check.api_version) == (
            question.record,
            question.origin,
            question.metadata,
            question.history,
            "v1",
        )


def test_a_check_is_the_same_after_a_journey_between_workers() -> None:
    check = only_check(answered(response_with()))
    again = pickle.loads(pickle.dumps(check))
    assert again == check
    assert (again.answered_id, again.chunk_indices) == ("q1", (0, 1))


def test_every_candidate_is_checked_under_its_own_id_and_index() -> None:
    message = response_class("v1")()
    for index, text in ((1, IRON), (0, TIN)):
        candidate_of(message, text).index = index
    checks = [check for check in checks_of(answered(message), None) if isinstance(check, AnswerCheck)]
    assert [(check.candidate_index, check.turns) for check in checks] == [(1, (IRON,)), (0, (TIN,))]
    rows = flatten(answered(message), FlattenSettings("run")).answers
    assert [check.question_id for check in checks] == [row.answer_id for row in rows]


def test_what_is_known_of_a_chunk_goes_along() -> None:
    message = response_with(chunks=())
    chunks = message.candidates[0].grounding_metadata.support_chunks
    chunks.add(chunk_text=TIN, uri="https://tin.test", title="Tin", domain="tin.test", source="0")
    chunks.add(chunk_text=IRON, uri="https://iron.test", source_metadata={"author": "A", "uri": "gs://iron"})
    assert facts_of(only_check(answered(message))) == [
        (TIN, {"uri": "https://tin.test", "title": "Tin", "domain": "tin.test"}),
        (IRON, {"author": "A", "uri": "gs://iron"}),
    ]


def test_chunks_without_a_text_are_no_facts_and_the_others_keep_their_places() -> None:
    check = only_check(answered(response_with(chunks=("", TIN, " \n", IRON))))
    assert [text for text, _ in facts_of(check)] == [TIN, IRON]
    assert check.chunk_indices == (1, 3)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_answer_without_a_text_is_not_checked(text: str) -> None:
    assert list(checks_of(answered(response_with(text=text)), None)) == [None]


@pytest.mark.parametrize("chunks", [(), ("",), ("", " ")])
def test_an_answer_without_a_chunk_that_says_anything_is_not_checked(chunks: tuple[str, ...]) -> None:
    assert list(checks_of(answered(response_with(chunks=chunks)), None)) == [None]


def test_what_breaks_a_rule_of_the_service_is_refused_before_it_is_asked() -> None:
    (refused,) = checks_of(answered(response_with(chunks=(TIN, "x" * 10_001))), None)
    assert isinstance(refused, Outcome)
    assert (refused.answers, refused.skip, refused.calls) == ((), None, 0)
    failure = refused.failure
    assert failure is not None
    assert (failure.stage, failure.code, failure.retryable) == ("check", "FACT_TOO_LONG", False)
    assert failure.message.startswith("candidate 0 of turn 0 can't be checked: ")
    assert (failure.question_id, failure.record) == ("q1", asked().record)


def test_more_chunks_than_the_service_takes_are_refused() -> None:
    (refused,) = checks_of(answered(response_with(chunks=(TIN,) * 201)), None)
    assert isinstance(refused, Outcome)
    assert refused.failure is not None
    assert refused.failure.code == "TOO_MANY_FACTS"
    assert isinstance(only_check(answered(response_with(chunks=(TIN,) * 200))), AnswerCheck)


def test_the_turns_that_were_answered_are_checked_though_a_later_one_failed() -> None:
    failure = Failure("q1", 1, "generate", "UNAVAILABLE", "Away.", True, 5, "o", b"", None)
    assert only_check(answered(response_with(), failure=failure)).answered_turn == 0


@pytest.mark.parametrize("received", [b"\xff\xff", b""], ids=["undecodable", "no candidates"])
def test_a_response_that_is_no_answer_is_not_checked(received: bytes) -> None:
    assert list(checks_of(answered(received), None)) == []


def test_what_was_skipped_is_not_checked() -> None:
    assert list(checks_of(Outcome(asked(), (), None, "duplicate", (), 0), None)) == []


def test_settings_of_another_method_are_refused() -> None:
    with pytest.raises(ValueError, match="generate: to check answers it must be check"):
        CheckAnswers(make_settings())
