"""Answers on their way to being checked, and what the emulator's checks of them become."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.util import assert_that

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.schemas.rows import FailureRow, GroundingCheckRow
from groundrows.transforms.check import CHECKED, REFUSED, CheckAnswers
from groundrows.transforms.rows.flatten import FlattenSettings
from groundrows.transforms.rows.flatten_checks import FlattenChecks
from tests.support.checked_answers import IRON, TIN, answered, asked, candidate_of, response_with
from tests.support.engines import make_settings


def counted(result: Any) -> dict[str, int]:
    counters = result.metrics().query(MetricsFilter())["counters"]
    found = {f"{c.key.metric.namespace}/{c.key.metric.name}": c.committed for c in counters}
    return {name: count for name, count in found.items() if count}


def check_of_rows(rows: list[Any]) -> None:
    checks = [row for row in rows if isinstance(row, GroundingCheckRow)]
    failures = [row for row in rows if isinstance(row, FailureRow)]
    by_place = {
        (row.question_id, row.turn_index, row.candidate_index, row.claim_index): row for row in checks
    }
    assert len(by_place) == len(checks)
    assert {place for place in by_place if place[3] is not None} == {
        ("q1", 0, 0, 0), ("q1", 0, 0, 1), ("q1", 1, 0, 0), ("q2", 0, 0, 0), ("q2", 0, 1, 0)
    }  # fmt: skip
    assert [cited.chunk_index for cited in by_place["q1", 0, 0, 1].citations] == [2]
    assert by_place["q2", 0, 1, 0].claim_text == IRON
    assert {row.support_score for row in checks} == {1.0}
    assert [(row.question_id, row.stage, row.code) for row in failures] == [("q3", "check", "FACT_TOO_LONG")]


@pytest.mark.parametrize(
    "how",
    [{}, {"rate_limiter": "sharded", "pacing_shards": 2, "requests_per_minute": 1e6}],
    ids=["local", "sharded"],
)
def test_answers_become_rows_of_checks_and_all_of_them_are_counted(how: dict[str, Any]) -> None:
    two = response_class("v1")()
    for index, text in enumerate((TIN, IRON)):
        candidate_of(two, text).index = index
    outcomes = [
        answered(response_with(chunks=(TIN, "", IRON)), response_with(text=TIN)),
        answered(two, question=asked("q2")),
        answered(response_with(chunks=("x" * 10_001,)), question=asked("q3")),
        answered(response_with(chunks=()), question=asked("q4")),
    ]
    with running_emulator("--port=0") as emulator:
        pipeline = beam.Pipeline()
        checks = (
            pipeline
            | beam.Create(outcomes)
            | CheckAnswers(make_settings(emulator.address, method="check", **how), 0.9)
        )
        rows = [
            checks[name] | f"Flatten {name}" >> FlattenChecks(FlattenSettings("run"), alone=False)
            for name in (CHECKED, REFUSED)
        ]
        together = rows | beam.Flatten() | beam.FlatMap(lambda group: list(group))
        assert_that(together, check_of_rows)
        result = pipeline.run()
        result.wait_until_finish()
    assert counted(result) == {
        "groundrows.checks/calls": 4,
        "groundrows.checks/checked": 4,
        "groundrows.checks/failed": 1,
        "groundrows.checks/skipped": 1,
        "groundrows.checks.failures_by_code/FACT_TOO_LONG": 1,
    }
