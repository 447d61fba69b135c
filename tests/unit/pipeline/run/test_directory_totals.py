"""How a directory stands after several runs, by its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from groundrows.pipeline.run.accounting import Account
from groundrows.pipeline.run.directory_totals import Totals, totals_after
from groundrows.pipeline.storage import output, summaries
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.errors import UsageError
from groundrows.schemas.rows import Row
from tests.support.made import NOON, answer, failure, write_rows

EMPTY = Account(0, 0, 0, 0, 0, 0, 0, {}, {}, 0, {})
LATER, LATEST = NOON + timedelta(hours=1), NOON + timedelta(hours=2)


def totals(directory: Path, rows: Sequence[Row], account: Account | None = None) -> Totals:
    """Of a directory that holds these rows, most of them kept ones, when a run ends."""
    kept = []
    for table in ("answers", "failures"):
        path = directory / table / f"{table}.avro"
        kept.append(str(write_rows(path, [row for row in rows if table == row.TABLE], table)))
    where = Output(str(directory), "new", tuple(kept), datetime.now(UTC))
    return totals_after(where, account or replace(EMPTY, rows={"answers": 1}))


def test_the_first_run_alone_needs_no_rows(tmp_path: Path) -> None:
    where = Output(str(tmp_path), "new", (), datetime.now(UTC))
    assert totals_after(where, replace(EMPTY, answered=5, failed=2)) == Totals(5, 2, 0, 1)


def test_a_failure_is_open_until_its_turn_is_answered_later(tmp_path: Path) -> None:
    rows = [
        failure(question_id="open", failed_at=NOON),
        failure(question_id="good", failed_at=NOON),
        answer(question_id="good", answered_at=LATER),
        answer(question_id="fine"),
        # Asked with another model, it failed after all.
        answer(question_id="again", answered_at=NOON),
        failure(question_id="again", failed_at=LATER),
    ]
    assert totals(tmp_path, rows) == Totals(answered=3, failed_open=2, made_good=1, runs=1)


def test_a_conversation_is_answered_when_all_of_it_is(tmp_path: Path) -> None:
    begun = [
        answer(question_id="talk", turn_index=0, answered_at=NOON),
        failure(question_id="talk", turn_index=1, failed_at=NOON),
    ]
    assert totals(tmp_path / "a", begun) == Totals(0, 1, 0, 1)
    further = [
        *begun,
        answer(question_id="talk", turn_index=1, answered_at=LATER),
        failure(question_id="talk", turn_index=2, failed_at=LATER),
    ]
    assert totals(tmp_path / "b", further) == Totals(0, 1, 0, 1)
    whole = [*further, answer(question_id="talk", turn_index=2, answered_at=LATEST)]
    assert totals(tmp_path / "c", whole) == Totals(1, 0, 1, 1)


def test_a_record_that_fails_in_every_run_is_one(tmp_path: Path) -> None:
    broken = {"stage": "parse", "code": "INVALID_JSON", "retryable": False, "question_id": "bytes"}
    rows = [
        failure(question_id="q", code="UNAVAILABLE", failed_at=NOON),
        failure(question_id="q", code="ABORTED", failed_at=LATER, origin="elsewhere:1"),
        failure(**broken, origin="a.jsonl:7", failed_at=NOON),
        failure(**broken, origin="a.jsonl:7", failed_at=LATER),
        # The same bytes on another line are another record.
        failure(**broken, origin="a.jsonl:8", failed_at=NOON),
    ]
    assert totals(tmp_path, rows) == Totals(0, 3, 0, 1)


def test_candidates_and_repeated_answers_are_one_question(tmp_path: Path) -> None:
    rows = [
        answer(question_id="q", candidate_index=0),
        answer(question_id="q", candidate_index=1),
        answer(question_id="q", answered_at=LATER),
    ]
    assert totals(tmp_path, rows) == Totals(1, 0, 0, 1)


def test_two_questions_under_one_id_are_two(tmp_path: Path) -> None:
    rows = [answer(question_id="q", question="Why?"), answer(question_id="q", question="How?")]
    assert totals(tmp_path, rows) == Totals(2, 0, 0, 1)


def test_a_check_that_failed_is_no_record(tmp_path: Path) -> None:
    rows = [answer(question_id="q"), failure(question_id="q", stage="check", failed_at=LATER)]
    assert totals(tmp_path, rows) == Totals(1, 0, 0, 1)


def before(directory: Path, standing: object) -> Output:
    """A run that appends to a directory of which the last summary said this."""
    with output.claimed(str(directory), overwrite=False, append=False) as first:
        write_rows(directory / "answers" / "a.avro", [answer()])
        output.finish(first, {"run_id": first.run_id, "directory": standing})
    with output.claimed(str(directory), overwrite=False, append=True) as claimed:
        return claimed


BEFORE = {"answered": 10, "failed_open": 3, "made_good": 2, "runs": 1}


def test_a_run_that_wrote_no_row_leaves_it_as_it_was(tmp_path: Path) -> None:
    where = before(tmp_path, BEFORE)
    (tmp_path / "answers" / "a.avro").write_bytes(b"not looked at")
    nothing = replace(EMPTY, records_read=10, already_answered=10, rows={"answers": 0})
    assert totals_after(where, nothing) == Totals(10, 3, 2, 2)


def test_a_worker_adds_to_what_was_there(tmp_path: Path) -> None:
    account = replace(EMPTY, answered=4, failed=1, rows={"answers": 4, "failures": 1})
    assert totals_after(before(tmp_path, BEFORE), account, rows_are_many=True) == Totals(14, 4, 2, 2)


@pytest.mark.parametrize("said", [None, [], {"answered": 1}, {**BEFORE, "more": 1}], ids=repr)
def test_what_an_older_summary_does_not_say_is_counted(tmp_path: Path, said: object) -> None:
    assert totals_after(before(tmp_path, said), EMPTY) == Totals(1, 0, 0, 2)


def test_rows_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    where = before(tmp_path, None)
    (tmp_path / "answers" / "a.avro").write_bytes(b"no rows")
    with pytest.raises(UsageError, match=r"answers/a\.avro can't be read"):
        totals_after(where, EMPTY)
    assert summaries.count(str(tmp_path)) == 1
