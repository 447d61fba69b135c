from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.util import assert_that, equal_to

from groundrows.schemas.outcome import Failure, Outcome
from groundrows.schemas.rows import FailureRow, GroundingCheckRow, encode
from groundrows.transforms.rows.flatten import FlattenSettings
from groundrows.transforms.rows.flatten_checks import CheckRows, FlattenChecks, flatten_check
from tests.contract.flattened import answer_to, of_an_answer, question_of, response_of

LATER = datetime(2025, 3, 1, 13, tzinfo=UTC)
SETTINGS = FlattenSettings("run-1", now=lambda: LATER)

ALONE = dataclasses.replace(
    question_of("v1", "check"), metadata='{"team": "metals"}', history=("yesterday: UNAVAILABLE",)
)
AFTER = dataclasses.replace(of_an_answer(ALONE), answered_turn=2, candidate_index=1)


def failure(code: str = "UNAVAILABLE") -> Failure:
    """As the calling makes it, which knows of no record but the question asked."""
    return Failure(
        question_id="a1",
        turn_index=0,
        stage="generate",
        code=code,
        message="The service was away; ask again later.",
        retryable=True,
        attempts=5,
        origin=ALONE.origin,
        record=ALONE.record,
        metadata=ALONE.metadata,
        history=ALONE.history,
    )


def checked(question: Any, response: Any = None) -> Outcome:
    message = response_of("v1", "check") if response is None else response
    return Outcome(question, (answer_to(question, message),), None, None, (), 1)


def rows_of(outcome: Outcome) -> CheckRows:
    rows = flatten_check(outcome, SETTINGS)
    for row in rows:
        encode(row)
    return rows


def only_check(outcome: Outcome) -> GroundingCheckRow:
    (row,) = rows_of(outcome).grounding_checks
    return row


def only_failure(outcome: Outcome) -> FailureRow:
    rows = rows_of(outcome)
    assert not rows.checked
    (row,) = rows.failures
    return row


def test_a_check_that_follows_an_answer_bears_the_ids_of_both() -> None:
    row = only_check(checked(AFTER))
    assert (row.run_id, row.question_id, row.turn_index) == ("run-1", "q1", 2)
    assert (row.answer_id, row.candidate_index) == ("a1", 1)
    assert row.metadata == '{"team": "metals"}'


def test_a_check_alone_bears_an_id_made_of_the_record_and_the_request() -> None:
    row = only_check(checked(ALONE))
    assert (row.question_id, row.turn_index, row.candidate_index) == ("q1", 0, 0)
    other = dataclasses.replace(ALONE, question_id="q2")
    another = dataclasses.replace(question_of("v1", "check", "Tin melts."))
    ids = {
        (found.answer_id, found.check_id) for found in map(only_check, map(checked, (ALONE, other, another)))
    }
    assert len({answer for answer, _ in ids}) == len({check for _, check in ids}) == 3
    assert {len(each) for pair in ids for each in pair} == {32}


def test_the_same_check_has_the_same_ids_in_every_run() -> None:
    once = only_check(checked(AFTER))
    (again,) = flatten_check(checked(AFTER), FlattenSettings("run-2")).grounding_checks
    assert once.check_id == again.check_id
    assert again.run_id == "run-2"


def test_a_failed_check_is_a_failure_of_the_record_whose_answer_it_is() -> None:
    row = only_failure(Outcome(AFTER, (), failure(), None, (), 5))
    assert (row.stage, row.code, row.question_id, row.turn_index) == ("check", "UNAVAILABLE", "q1", 2)
    assert (row.record, row.origin, row.metadata) == (ALONE.record, ALONE.origin, ALONE.metadata)
    assert (row.retryable, row.attempts, row.failed_at) == (True, 5, LATER)
    assert (row.generation, row.history) == (1, ALONE.history)


def test_two_candidates_that_fail_alike_are_two_failures() -> None:
    other = dataclasses.replace(AFTER, question_id="a2", candidate_index=0)
    rows = [only_failure(Outcome(question, (), failure(), None, (), 5)) for question in (AFTER, other)]
    assert len({row.failure_id for row in rows}) == 2
    assert {row.question_id for row in rows} == {"q1"}


def test_a_check_alone_that_failed_is_of_stage_check() -> None:
    row = only_failure(Outcome(ALONE, (), dataclasses.replace(failure(), question_id="q1"), None, (), 5))
    assert (row.stage, row.question_id, row.turn_index) == ("check", "q1", 0)


@pytest.mark.parametrize("question", [ALONE, AFTER], ids=["alone", "after"])
def test_a_response_that_does_not_decode_is_a_failure(question: Any) -> None:
    row = only_failure(checked(question, b"\xff\xff"))
    assert (row.stage, row.code, row.retryable) == ("check", "UNDECODABLE_RESPONSE", False)
    assert row.question_id == "q1"


@pytest.mark.parametrize("skip", ["duplicate", "already_answered"])
def test_a_skipped_check_has_no_rows(skip: Any) -> None:
    rows = rows_of(Outcome(ALONE, (), None, skip, (), 0))
    assert (list(rows), rows.checked) == ([], False)


# The transform


def counted(result: Any) -> dict[str, int]:
    counters = result.metrics().query(MetricsFilter())["counters"]
    return {f"{c.key.metric.namespace}/{c.key.metric.name}": c.committed for c in counters}


def run(outcomes: list[Outcome], *, alone: bool) -> dict[str, int]:
    pipeline = beam.Pipeline()
    groups = pipeline | beam.Create(outcomes) | FlattenChecks(SETTINGS, alone=alone)
    assert_that(groups, equal_to([flatten_check(outcome, SETTINGS) for outcome in outcomes]))
    result = pipeline.run()
    result.wait_until_finish()
    return counted(result)


def outcomes_of(question: Any) -> list[Outcome]:
    return [
        checked(question),
        checked(question),
        Outcome(question, (), failure(), None, (), 5),
        checked(question, b"\xff\xff"),
        Outcome(question, (), None, "duplicate", (), 0),
        Outcome(question, (), None, "already_answered", (), 0),
    ]


def test_checks_that_are_records_count_as_records() -> None:
    assert run(outcomes_of(ALONE), alone=True) == {
        "groundrows/answered": 2,
        "groundrows/failed": 2,
        "groundrows/duplicates": 1,
        "groundrows/already_answered": 1,
        "groundrows.failures_by_code/UNAVAILABLE": 1,
        "groundrows.failures_by_code/UNDECODABLE_RESPONSE": 1,
    }


def test_checks_that_follow_an_answer_count_apart() -> None:
    assert run(outcomes_of(AFTER), alone=False) == {
        "groundrows.checks/checked": 2,
        "groundrows.checks/failed": 2,
        "groundrows.checks/duplicates": 1,
        "groundrows.checks/already_answered": 1,
        "groundrows.checks.failures_by_code/UNAVAILABLE": 1,
        "groundrows.checks.failures_by_code/UNDECODABLE_RESPONSE": 1,
    }
