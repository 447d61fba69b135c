"""What `--append` leaves out before it becomes an element: the same records as later, counted the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from groundrows.pipeline.run.accounting import counters_of
from groundrows.schemas.question import RecordSettings
from groundrows.schemas.record import Record
from groundrows.transforms import unanswered
from groundrows.transforms.counters import ALREADY_ANSWERED, DUPLICATES, RECORDS
from groundrows.transforms.generate.calling.answered import AnsweredTurns, turn_name
from groundrows.transforms.parse import FAILURES, QUESTIONS
from groundrows.transforms.unanswered import ParseUnanswered


@pytest.fixture
def answered(tmp_path: Path) -> Iterator[AnsweredTurns]:
    with closing(AnsweredTurns(str(tmp_path / "answered"))) as turns:
        yield turns


def records(*fields: dict[str, Any] | bytes) -> list[Record]:
    bodies = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in fields]
    return [Record(body, f"a.jsonl:{number}") for number, body in enumerate(bodies, 1)]


def asked(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"q{number}", "question": "Why?", **more}


def noted(numbers: Sequence[int]) -> list[tuple[str, int]]:
    return [(turn_name(f"q{number}", "Why?"), 0) for number in numbers]


def left(path: Path, given: Sequence[Record], expected: Sequence[str], failures: int = 0) -> tuple[int, int]:
    """Run it; returns how many were counted as answered already, and as duplicates."""
    pipeline = beam.Pipeline(runner=FnApiRunner())
    parsed = pipeline | beam.Create(given) | ParseUnanswered(RecordSettings(), str(path / "answered"))
    origins = parsed[QUESTIONS] | "Origins" >> beam.Map(lambda question: question.origin)
    assert_that(origins, equal_to(list(expected)), label="left")
    broken = parsed[FAILURES] | "Codes" >> beam.Map(lambda failure: failure.code)
    assert_that(broken, equal_to(["NO_QUESTION"] * failures), label="failed")
    result = pipeline.run()
    result.wait_until_finish()
    counted = counters_of(result)
    return counted.get((RECORDS, ALREADY_ANSWERED), 0), counted.get((RECORDS, DUPLICATES), 0)


def test_what_is_answered_is_counted_and_what_is_new_comes_out(
    tmp_path: Path, answered: AnsweredTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unanswered, "BATCH_RECORDS", 3)
    answered.add(noted(range(7)))
    given = records(*(asked(number) for number in range(9)), {"id": "none"})
    assert left(tmp_path, given, ["a.jsonl:8", "a.jsonl:9"], failures=1) == (7, 0)


def test_the_same_question_again_is_a_duplicate_and_another_request_is_not(
    tmp_path: Path, answered: AnsweredTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unanswered, "BATCH_RECORDS", 2)
    answered.add(noted([1]))
    given = records(
        asked(1),
        asked(1, title="of the same question"),
        asked(1, facts=["F"]),
        asked(1, facts=["F"]),
        asked(1),
        asked(2),
        asked(2),  # not answered: the ledger tells these
    )
    assert left(tmp_path, given, ["a.jsonl:6", "a.jsonl:7"]) == (2, 3)


def test_another_text_under_the_same_id_is_a_new_question(tmp_path: Path, answered: AnsweredTurns) -> None:
    answered.add(noted([1]))
    given = records({"id": "q1", "question": "Why not?"}, {"id": "q2", "question": "Why?"})
    assert left(tmp_path, given, ["a.jsonl:1", "a.jsonl:2"]) == (0, 0)


def test_conversations_come_out_while_a_turn_is_missing_or_an_answer_unchecked(
    tmp_path: Path, answered: AnsweredTurns
) -> None:
    turns = {"whole": (0, 1), "begun": (0,), "gap": (1,), "unchecked": (0, 1)}
    for name, there in turns.items():
        answered.add((turn_name(name, f"T{turn}"), turn) for turn in there)
    answered.add_unchecked([(turn_name("unchecked", "T1"), 1, "an answer")], ["an answer"], [])
    given = records(*({"id": name, "turns": ["T0", "T1"]} for name in turns))
    assert left(tmp_path, given, ["a.jsonl:2", "a.jsonl:3", "a.jsonl:4"]) == (1, 0)


def test_a_record_that_is_read_again_is_no_duplicate_of_itself(answered: AnsweredTurns) -> None:
    first, second = {b"k1": "a:1", b"k2": "a:2"}, {b"k2": "b:7", b"k3": "b:8"}
    assert answered.claim(first) == first
    assert answered.claim(second) == {b"k2": "a:2", b"k3": "b:8"}
    assert answered.claim(first) == first
    many = {str(number).encode(): f"a:{number}" for number in range(2_000)}
    assert answered.claim(many) == many
    assert Counter(answered.claim(dict.fromkeys(many, "b")).values()) == Counter(many.values())


def test_large_records_do_not_wait_for_many_others(
    tmp_path: Path, answered: AnsweredTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[int] = []
    whole = unanswered.delivered_turns

    def counted(turns: AnsweredTurns | None, questions: Any) -> Any:
        looked_up.append(len(questions))
        return whole(turns, questions)

    monkeypatch.setattr(unanswered, "delivered_turns", counted)
    monkeypatch.setattr(unanswered, "BATCH_BYTES", 10_000)
    answered.add(noted(range(6)))
    given = records(*(asked(number, note="n" * 6_000) for number in range(6)))
    assert left(tmp_path, given, []) == (6, 0)
    assert looked_up[:3] == [2, 2, 2]
