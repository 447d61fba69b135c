import json
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from groundrows.schemas.check import CheckSettings, parse_check
from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.outcome import Failure
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.transforms import parse
from groundrows.transforms.parse import FAILURES, QUESTIONS, ParseChecks, ParseQuestions, parse_record
from tests.support.bad_checks import BAD_CHECKS
from tests.support.bad_records import BAD_RECORDS

GOOD = Record(b'{"id": "q-1", "question": "Why?", "title": "T"}', "a.jsonl:1")
BAD = Record(b'{"id": "q-2", "title": "T"}', "a.jsonl:2")


def test_a_question_comes_back_as_parsed() -> None:
    assert parse_record(GOOD, RecordSettings()) == parse_question(GOOD, RecordSettings())


def test_a_failure_holds_all_that_a_row_needs() -> None:
    failure = parse_record(BAD, RecordSettings())
    assert isinstance(failure, Failure)
    assert failure.message
    assert failure == Failure(
        question_id="q-2",
        turn_index=0,
        stage="validate",
        code="NO_QUESTION",
        message=failure.message,
        retryable=False,
        attempts=0,
        origin="a.jsonl:2",
        record=BAD.body,
        metadata='{"title":"T"}',
    )


def test_what_failed_before_stays_with_the_record() -> None:
    history = ("2026-11-29T20:00:00Z validate NO_QUESTION after 0 attempts",)
    for record in (GOOD, BAD):
        assert parse_record(record, RecordSettings()).history == ()
        assert parse_record(replace(record, history=history), RecordSettings()).history == history


def test_a_bug_in_the_parser_costs_one_row_and_shows_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(record: Record, settings: RecordSettings) -> Question:
        raise KeyError(record.body.decode())

    monkeypatch.setattr(parse, "parse_question", broken)
    failure = parse_record(GOOD, RecordSettings())
    assert isinstance(failure, Failure)
    assert (failure.code, failure.stage, failure.record) == ("INTERNAL_PARSE_ERROR", "parse", GOOD.body)
    assert "KeyError" in failure.message
    assert "Why?" not in failure.message
    assert len(failure.question_id) == 32


def test_every_record_comes_out_once_on_one_of_the_two_sides() -> None:
    good = [Record(json.dumps({"id": i, "question": f"Why {i}?"}).encode(), f"a:{i}") for i in range(20)]
    bad = [Record(body, name) for name, body, _ in BAD_RECORDS if len(body) < 100_000]
    settings = RecordSettings(
        defaults=load_defaults('{"grounding_sources": [{"google_search_source": {}}]}', "v1")
    )
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        parsed = pipeline | beam.Create(good + bad, reshuffle=False) | ParseQuestions(settings)
        questions = parsed[QUESTIONS] | "texts" >> beam.Map(lambda q: (q.question_id, q.turns, q.origin))
        failures = parsed[FAILURES] | "codes" >> beam.Map(lambda f: (f.origin, f.code))
        assert_that(
            questions, equal_to([(str(i), (f"Why {i}?",), f"a:{i}") for i in range(20)]), label="questions"
        )
        codes = [(name, code) for name, body, code in BAD_RECORDS if len(body) < 100_000]
        assert_that(failures, equal_to(codes), label="failures")


def test_the_main_output_is_the_questions() -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        questions, failures = pipeline | beam.Create([GOOD, BAD]) | ParseQuestions(RecordSettings())
        assert_that(questions, equal_to([parse_question(GOOD, RecordSettings())]), label="questions")
        assert_that(failures, equal_to([parse_record(BAD, RecordSettings())]), label="failures")


def test_answers_to_be_checked_come_out_once_on_one_of_the_two_sides() -> None:
    fields = [{"id": i, "answer": f"Tin {i}.", "facts": ["Tin melts."]} for i in range(20)]
    good = [Record(json.dumps(each).encode(), f"a:{i}") for i, each in enumerate(fields)]
    bad = [Record(body, name) for name, body, _ in BAD_CHECKS]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        parsed = pipeline | beam.Create(good + bad, reshuffle=False) | ParseChecks(CheckSettings())
        checks = parsed[QUESTIONS] | "texts" >> beam.Map(
            lambda q: (q.question_id, q.method, q.turns, q.origin)
        )
        failures = parsed[FAILURES] | "codes" >> beam.Map(lambda f: (f.origin, f.code))
        expected = [(str(i), "check", (f"Tin {i}.",), f"a:{i}") for i in range(20)]
        assert_that(checks, equal_to(expected), label="checks")
        assert_that(failures, equal_to([(name, code) for name, _, code in BAD_CHECKS]), label="failures")


def test_the_settings_say_what_a_record_is() -> None:
    both = Record(b'{"question": "Why?", "answer": "So.", "facts": ["f"]}', "")
    assert parse_record(both, RecordSettings()) == parse_question(both, RecordSettings())
    assert parse_record(both, CheckSettings()) == parse_check(both, CheckSettings())
