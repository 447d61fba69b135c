"""Which failures are replayed: every one found is either chosen or left out for one reason."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.pipeline.sources.failed import FailedRecords, FailureFilter
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES
from tests.unit.pipeline.sources.formats.test_failure_rows import ROW

ALL = FailureFilter(only_retryable=False, codes=None, max_generations=5)
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def failure(name: str, **fields: Any) -> dict[str, Any]:
    """A failure of a record called `name`, at noon unless `hour` says otherwise."""
    hour = fields.pop("hour", 0)
    generation = fields.pop("generation", 0)
    return {
        **ROW,
        "question_id": name,
        "failure_id": f"failure of {name}",
        "origin": f"{name}.jsonl:1",
        "record": name.encode(),
        "failed_at": NOON + timedelta(hours=hour),
        "generation": generation,
        "history": ["before"] * generation,
        **fields,
    }


def answer(question_id: str, hour: float, run_id: str = "later", turn_index: int = 0) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "question_id": question_id,
        "turn_index": turn_index,
        "answered_at": NOON + timedelta(hours=hour),
    }


ANSWERS = {
    "type": "record",
    "name": "groundrows.answers",
    "fields": [
        field
        for field in TABLES["answers"].schema["fields"]
        if field["name"] in ("run_id", "question_id", "turn_index", "answered_at")
    ],
}
CHECKS = {
    "type": "record",
    "name": "groundrows.grounding_checks",
    "fields": [
        field
        for field in TABLES["grounding_checks"].schema["fields"]
        if field["name"] in ("run_id", "question_id", "turn_index", "checked_at")
    ],
}


def check(question_id: str, hour: float, run_id: str = "later", turn_index: int = 0) -> dict[str, Any]:
    row = answer(question_id, hour, run_id, turn_index)
    return {**row, "checked_at": row.pop("answered_at")}


def failed_check(name: str, **fields: Any) -> dict[str, Any]:
    return failure(name, **{"stage": "check", "failure_id": f"failed check of {name}", **fields})


def written(path: Path, schema: Any, rows: Sequence[dict[str, Any]]) -> str:
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows)
    return str(path)


def chosen(
    directory: Path,
    *files: Sequence[dict[str, Any]],
    answers: Sequence[dict[str, Any]] = (),
    checks: Sequence[dict[str, Any]] = (),
    wanted: FailureFilter = ALL,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The rows chosen from these files of failures, and what was left out, zeros apart."""
    paths = [
        written(directory / f"{n}.avro", TABLES["failures"].schema, rows) for n, rows in enumerate(files)
    ]
    answered = [written(directory / "answers.avro", ANSWERS, answers)]
    checked = [written(directory / "checks.avro", CHECKS, checks)]
    with closing(FailedRecords(paths, answered, checked, wanted)) as failed:
        failed.write(str(directory / "chosen.avro"))
        with (directory / "chosen.avro").open("rb") as file:
            rows = list(fastavro.reader(file))
        assert failed.found == sum(map(len, files))
        assert failed.chosen == len(rows) == failed.found - sum(failed.left_out.values())
        return rows, {reason: count for reason, count in failed.left_out.items() if count}


def test_rows_come_as_they_are_and_in_their_order(tmp_path: Path) -> None:
    first = [failure("c", hour=3), failure("a", generation=2)]
    second = [failure("b", hour=1, metadata='{"n": 1}')]
    assert chosen(tmp_path, first, second) == ([*first, *second], {})


def test_a_row_without_a_whole_record_is_left_out(tmp_path: Path) -> None:
    none = [
        failure("a", record=b"", stage="read", code="UNREADABLE_FILE"),
        failure("b", stage="read", code="TOO_LARGE"),
        failure("c", record=b"", stage="parse"),
    ]
    parsed = failure("d", stage="parse", code="INVALID_JSON")
    assert chosen(tmp_path, [*none, parsed]) == ([parsed], {"no_record": 3})


def test_a_record_is_replayed_once_by_the_failure_with_the_most_history(tmp_path: Path) -> None:
    first = failure("a", hour=9)
    again = failure("a", hour=2, generation=1, code="INTERNAL", failure_id="another")
    assert chosen(tmp_path, [first, again]) == ([again], {"older": 1})
    assert chosen(tmp_path, [again], [first]) == ([again], {"older": 1})
    # With as much history, the later one.
    later = {**first, "failed_at": NOON + timedelta(hours=10), "message": "later"}
    assert chosen(tmp_path, [first, later, first]) == ([later], {"older": 2})


def test_the_same_failure_counts_once_even_when_the_record_was_edited(tmp_path: Path) -> None:
    edited = failure("a", record=b"edited", hour=1)
    assert chosen(tmp_path, [failure("a"), edited]) == ([edited], {"older": 1})
    # The same bytes from elsewhere are another record.
    elsewhere = failure("a", failure_id="another", origin="b.jsonl:1")
    assert chosen(tmp_path, [failure("a"), elsewhere])[1] == {}


def test_what_a_later_run_answered_is_left_out(tmp_path: Path) -> None:
    assert chosen(tmp_path, [failure("a"), failure("b")], answers=[answer("a", 1)]) == (
        [failure("b")],
        {"answered_since": 1},
    )


@pytest.mark.parametrize(
    "other",
    [
        answer("a", -1),
        answer("a", 1, run_id=ROW["run_id"]),
        answer("a", 1, turn_index=1),
        answer("b", 1),
    ],
    ids=["before it failed", "in the same run", "another turn", "another question"],
)
def test_other_answers_do_not_count(tmp_path: Path, other: dict[str, Any]) -> None:
    assert chosen(tmp_path, [failure("a")], answers=[other]) == ([failure("a")], {})


def test_a_failed_check_is_made_good_by_a_check_and_by_nothing_else(tmp_path: Path) -> None:
    row = failed_check("a")
    assert chosen(tmp_path, [row], answers=[answer("a", 1)]) == ([row], {})
    assert chosen(tmp_path, [row], checks=[check("a", 1)]) == ([], {"answered_since": 1})
    assert chosen(tmp_path, [failure("a")], checks=[check("a", 1)]) == ([failure("a")], {})
    others = [check("a", -1), check("a", 1, run_id=ROW["run_id"]), check("a", 1, turn_index=1), check("b", 1)]
    assert chosen(tmp_path, [row], checks=others) == ([row], {})


@pytest.mark.parametrize("check_failed", ["before", "after"])
def test_a_question_and_its_check_are_open_apart_and_replayed_together(
    tmp_path: Path, check_failed: str
) -> None:
    of_turn = failure("a", turn_index=1)
    of_check = failed_check("a", hour=-1 if check_failed == "before" else 1)
    rows = [of_turn, of_check]
    latest = of_turn if check_failed == "before" else of_check
    assert chosen(tmp_path, rows) == ([latest], {"older": 1})
    # Whichever is made good, the other one is still open, though it be the older one.
    answered, checked = [answer("a", 2, turn_index=1)], [check("a", 2)]
    assert chosen(tmp_path, rows, answers=answered) == ([of_check], {"answered_since": 1})
    assert chosen(tmp_path, rows, checks=checked) == ([of_turn], {"answered_since": 1})
    assert chosen(tmp_path, rows, answers=answered, checks=checked) == ([], {"answered_since": 2})


def test_a_check_that_failed_again_stands_for_those_before_it(tmp_path: Path) -> None:
    again = failed_check("a", hour=2, generation=1, turn_index=1, failure_id="another")
    rows = [failed_check("a"), failed_check("a", turn_index=1, failure_id="another"), again]
    checked = [check("a", 2, run_id=again["run_id"])]
    assert chosen(tmp_path, rows, checks=checked) == ([again], {"older": 2})


def test_a_record_at_the_cap_is_left_out_and_its_older_failure_too(tmp_path: Path) -> None:
    wanted = replace(ALL, max_generations=2)
    rows = [failure("a"), failure("a", generation=2, failure_id="x"), failure("b", generation=1)]
    assert chosen(tmp_path, rows, wanted=wanted) == (rows[2:], {"older": 1, "at_max_generations": 1})


def test_the_filters_look_at_the_latest_failure(tmp_path: Path) -> None:
    rows = [
        failure("a", code="UNAVAILABLE"),
        failure("a", code="INVALID_ARGUMENT", retryable=False, generation=1, failure_id="x"),
        failure("b", code="INTERNAL"),
        failure("c", code="UNAVAILABLE"),
    ]
    retryable = replace(ALL, only_retryable=True)
    assert chosen(tmp_path, rows, wanted=retryable) == (rows[2:], {"older": 1, "not_asked_for": 1})
    by_code = replace(ALL, codes=frozenset({"UNAVAILABLE", "ABORTED"}))
    assert chosen(tmp_path, rows, wanted=by_code) == (rows[3:], {"older": 1, "not_asked_for": 2})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.avro").write_bytes(b"Obj\x01 and no more")
    with pytest.raises(UsageError, match=r"bad\.avro") as raised:
        FailedRecords([str(tmp_path / "bad.avro")], [], [], ALL)
    assert "\n" not in str(raised.value)


_FAILURES = st.builds(
    lambda name, origin, generation, hour, code, stage: failure(
        name,
        origin=origin,
        generation=generation,
        hour=hour,
        code=code,
        stage=stage,
        failure_id=name + origin + code + stage,
    ),
    st.sampled_from("abc"),
    st.sampled_from("xy"),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from(["INTERNAL", "ABORTED"]),
    st.sampled_from(["generate", "read", "check"]),
)


@given(
    files=st.lists(st.lists(_FAILURES, max_size=6), min_size=1, max_size=3),
    answers=st.lists(st.builds(answer, st.sampled_from("abc"), st.integers(-1, 3)), max_size=3),
    limit=st.integers(1, 3),
)
@settings(deadline=None, max_examples=60)
def test_nothing_is_chosen_twice_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[dict[str, Any]]],
    answers: list[dict[str, Any]],
    limit: int,
) -> None:
    directory = tmp_path_factory.mktemp("failed")
    wanted = replace(ALL, max_generations=limit)
    rows, _ = chosen(directory, *files, answers=answers, wanted=wanted)
    assert len({row["failure_id"] for row in rows}) == len(rows)
    assert len({(row["record"], row["origin"]) for row in rows}) == len(rows)
    for row in rows:
        same = [
            other
            for file in files
            for other in file
            if (other["record"], other["origin"]) == (row["record"], row["origin"])
            and other["stage"] != "read"
            and (other["stage"] == "check") is (row["stage"] == "check")
        ]
        assert len(row["history"]) == max(len(other["history"]) for other in same) < limit
