"""The count law: what holds it, and everything that breaks it."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.run.accounting import (
    Account,
    CheckAccount,
    account,
    counters_of,
    rows_on_disk,
    too_many_failed,
)
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.tables import TABLES
from groundrows.transforms.counters import (
    CHECKS,
    RECORDS,
    ROWS,
    THROTTLED_SECONDS,
    failures_by_code,
    retries_by_code,
)
from tests.support.made import answer, failure, write_rows

GOOD = account(
    {
        (RECORDS, "records_read"): 10,
        (RECORDS, "answered"): 4,
        (RECORDS, "failed"): 3,
        (RECORDS, "duplicates"): 2,
        (RECORDS, "already_answered"): 1,
        (RECORDS, "calls"): 9,
        (RECORDS, "retries"): 5,
        (RECORDS, THROTTLED_SECONDS): 7,
        (retries_by_code(RECORDS), "UNAVAILABLE"): 4,
        (retries_by_code(RECORDS), "ABORTED"): 1,
        (failures_by_code(RECORDS), "NO_QUESTION"): 3,
        (ROWS, "answers"): 5,
        (ROWS, "failures"): 3,
        ("somebody else's", "calls"): 99,
    }
)


def test_counters_become_an_account() -> None:
    assert (
        Account(
            records_read=10,
            answered=4,
            failed=3,
            duplicates=2,
            already_answered=1,
            calls=9,
            retries=5,
            retries_by_code={"ABORTED": 1, "UNAVAILABLE": 4},
            failures_by_code={"NO_QUESTION": 3},
            throttled_seconds=7,
            rows={**dict.fromkeys(TABLES, 0), "answers": 5, "failures": 3},
        )
        == GOOD
    )
    assert list(GOOD.retries_by_code) == ["ABORTED", "UNAVAILABLE"]


def test_the_law_holds() -> None:
    assert GOOD.outcomes == 10
    assert GOOD.balanced


def test_a_run_that_counted_nothing_is_balanced() -> None:
    nothing = account({})
    assert nothing.balanced
    assert nothing.records_read == nothing.outcomes == nothing.calls == 0
    assert dict(nothing.rows) == dict.fromkeys(TABLES, 0)


@pytest.mark.parametrize("name", ["records_read", "answered", "failed", "duplicates", "already_answered"])
@pytest.mark.parametrize("by", [-1, 1])
def test_one_too_few_or_too_many_of_anything_breaks_it(name: str, by: int) -> None:
    assert not dataclasses.replace(GOOD, **{name: getattr(GOOD, name) + by}).balanced


@pytest.mark.parametrize("by", [-1, 1])
def test_every_failed_record_has_its_row(by: int) -> None:
    assert not dataclasses.replace(GOOD, rows={**GOOD.rows, "failures": 3 + by}).balanced
    assert not dataclasses.replace(GOOD, rows={"answers": 5}).balanced


def test_two_errors_that_cancel_out_in_the_sum_are_found_by_the_rows() -> None:
    assert not dataclasses.replace(GOOD, failed=4, answered=3).balanced


WITH_CHECKS = {
    (RECORDS, "records_read"): 2,
    (RECORDS, "answered"): 2,
    (RECORDS, "calls"): 2,
    (CHECKS, "calls"): 5,
    (CHECKS, "retries"): 3,
    (CHECKS, "checked"): 1,
    (CHECKS, "failed"): 1,
    (CHECKS, "skipped"): 4,
    (retries_by_code(CHECKS), "ABORTED"): 3,
    (f"{CHECKS}.failures_by_code", "INTERNAL"): 1,
    (ROWS, "failures"): 1,
}


def test_checks_of_answers_are_accounted_for_beside_the_records() -> None:
    found = account(WITH_CHECKS)
    assert found.checks == CheckAccount(
        checked=1, failed=1, skipped=4, calls=5, retries=3, failures_by_code={"INTERNAL": 1}
    )
    assert (found.calls, found.retries, found.failed) == (2, 0, 0)
    assert found.balanced


def test_a_failed_check_has_its_row_too() -> None:
    assert not account({**WITH_CHECKS, (ROWS, "failures"): 0}).balanced
    assert not account({**WITH_CHECKS, (CHECKS, "failed"): 0}).balanced


def test_the_calls_of_checks_alone_are_the_runs() -> None:
    alone = {key: count for key, count in WITH_CHECKS.items() if key != (CHECKS, "failed")}
    found = account({**alone, (ROWS, "failures"): 0, (CHECKS, THROTTLED_SECONDS): 6}, "check")
    assert (found.calls, found.retries, found.retries_by_code) == (5, 3, {"ABORTED": 3})
    assert found.throttled_seconds == 6
    assert found.checks == CheckAccount()
    assert found.balanced


@given(st.lists(st.integers(0, 10**12), min_size=4, max_size=4))
def test_it_holds_for_whatever_adds_up(counts: list[int]) -> None:
    answered, failed, duplicates, already = counts
    assert dataclasses.replace(
        GOOD,
        records_read=sum(counts),
        answered=answered,
        failed=failed,
        duplicates=duplicates,
        already_answered=already,
        rows={"failures": failed},
    ).balanced


@pytest.mark.parametrize(
    ("counts", "share", "too_often"),
    [
        ((10, 0, 0, 0), 1.0, False),
        ((10, 10, 0, 0), 1.0, True),
        ((10, 9, 0, 0), 1.0, False),
        ((10, 8, 2, 0), 1.0, True),  # nothing but failures and what was asked before
        ((10, 8, 0, 2), 1.0, False),  # two were answered, by an earlier run
        ((10, 5, 0, 0), 0.5, False),
        ((10, 6, 0, 0), 0.5, True),
        ((0, 0, 0, 0), 0.0, False),
    ],
)
def test_when_too_many_have_failed(
    counts: tuple[int, int, int, int], share: float, too_often: bool, tmp_path: Path
) -> None:
    read, failed, duplicates, already = counts
    found = account(
        {
            ("groundrows", "records_read"): read,
            ("groundrows", "failed"): failed,
            ("groundrows", "duplicates"): duplicates,
            ("groundrows", "already_answered"): already,
            ("groundrows", "answered"): read - failed - duplicates - already,
        }
    )
    said = too_many_failed(found, share, Output(str(tmp_path), "run", (), datetime.now(UTC)))
    assert (said is not None) is too_often
    if said is not None:
        assert f"{failed} of {read}" in said
        assert str(tmp_path / "failures") in said


class _Count(beam.DoFn):
    def process(self, number: int) -> Any:
        Metrics.counter("space", "name").inc(number)
        Metrics.counter("other space", "name").inc()
        yield number


def test_a_jobs_counters_are_summed_over_its_steps() -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    numbers = pipeline | beam.Create([1, 2, 3])
    _ = numbers | "One" >> beam.ParDo(_Count())
    _ = numbers | "Another" >> beam.ParDo(_Count())
    result = pipeline.run()
    result.wait_until_finish()
    counters = counters_of(result)
    assert counters["space", "name"] == 12
    assert counters["other space", "name"] == 6


@pytest.fixture
def where(tmp_path: Path) -> Output:
    return Output(str(tmp_path / "out[1]"), "run", (), datetime.now(UTC))


def test_rows_on_disk(where: Output) -> None:
    directory = Path(where.path)
    write_rows(directory / "answers" / "a.avro", [answer()] * 3)
    write_rows(directory / "answers" / "b.avro", [answer()] * 5_000)  # several blocks
    write_rows(directory / "failures" / "f.avro", [failure()], "failures")
    write_rows(directory / "claim_supports" / "empty.avro", [], "claim_supports")
    (directory / "answers" / "notes.txt").write_text("no rows")
    assert rows_on_disk(where) == {**dict.fromkeys(TABLES, 0), "answers": 5_003, "failures": 1}


def test_rows_of_earlier_runs_do_not_count(where: Output) -> None:
    directory = Path(where.path)
    old = write_rows(directory / "answers" / "old.avro", [answer()] * 5)
    write_rows(directory / "answers" / "new.avro", [answer()] * 2)
    assert rows_on_disk(dataclasses.replace(where, kept_files=(str(old),)))["answers"] == 2


def test_rows_that_were_not_written_are_missed(where: Output) -> None:
    assert set(rows_on_disk(where).values()) == {0}
    assert rows_on_disk(where) != dict(GOOD.rows)


def test_a_file_that_is_cut_off_is_no_smaller_number(where: Output) -> None:
    path = write_rows(Path(where.path) / "answers" / "a.avro", [answer()] * 1000)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Exception, match=r".+"):
        rows_on_disk(where)
