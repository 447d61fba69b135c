"""Reference answers as archives hold them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record


def ask(record: dict[str, Any], **settings: Any) -> Question:
    given = {"reference_field": "answer"} | settings
    return parse_question(Record(json.dumps(record).encode(), "a.jsonl:1"), RecordSettings(**given))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1972", ("1972",)),
        (["14 December 1972 UTC", "December 1972"], ("14 December 1972 UTC", "December 1972")),
        (["a", "b", "a", None, " "], ("a", "b")),
        (1972, ("1972",)),
        (1972.0, ("1972",)),
        ([1.5, "x"], ("1.5", "x")),
        ('["a", "b"]', ("a", "b")),
        ("[sic] it is", ("[sic] it is",)),
        ('[{"a": 1}]', ('[{"a": 1}]',)),
        (None, ()),
        ("", ()),
        ([], ()),
    ],
)
def test_what_a_field_holds(value: Any, expected: tuple[str, ...]) -> None:
    question = ask({"question": "When?", "answer": value, "team": "x"})
    assert question.references == expected
    assert question.metadata == '{"team":"x"}'


@pytest.mark.parametrize("value", [{"text": ["x"]}, [["x"]], True, [{"text": "x"}]])
def test_anything_else_is_refused_before_it_costs_anything(value: Any) -> None:
    with pytest.raises(
        RecordError, match=r"INVALID_REFERENCE: `answer`.*correct it or name another"
    ) as caught:
        ask({"question": "When?", "answer": value})
    assert caught.value.stage == "validate"


@pytest.mark.parametrize("name", ["Answer", "ANSWER", "_answer", "an swer"])
def test_another_spelling_is_the_field(name: str) -> None:
    assert ask({"question": "When?", name: ["1972"]}).references == ("1972",)


def test_its_own_spelling_goes_before_others() -> None:
    question = ask({"question": "When?", "Answer": "no", "answer": "1972"})
    assert (question.references, question.metadata) == (("1972",), '{"Answer":"no"}')


def test_references_are_never_sent_and_change_no_request() -> None:
    record = {"question": "When?", "id": "7", "answer": ["1972"]}
    with_them, without = ask(record), ask(record, reference_field=None)
    assert with_them.request == without.request
    assert with_them.question_id == without.question_id
    assert without.references == ()
    assert without.metadata == '{"answer":["1972"]}'


def test_a_column_of_a_like_name_is_no_slip_for_it() -> None:
    assert ask({"question": "When?", "answers": ["1972"]}).references == ()


def test_a_word_of_the_template_can_be_the_reference_too() -> None:
    question = ask({"answer": "1972"}, question_templates=("Is it {answer}?",))
    assert (question.turns, question.references) == (("Is it 1972?",), ("1972",))


@pytest.mark.parametrize("name", ["question", "id", "facts", "contents", "generationSpec"])
def test_a_field_with_a_meaning_of_its_own_can_not_be_it(name: str) -> None:
    with pytest.raises(ValueError, match="must differ from every other field"):
        RecordSettings(reference_field=name)
