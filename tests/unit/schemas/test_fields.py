"""Fields as tables write them: other spellings, values that can't be left out, numbers as they come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundrows.schemas.check import CheckSettings, parse_check
from groundrows.schemas.errors import RecordError
from groundrows.schemas.fields import Names, read_fields, spellings
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record


def ask(record: dict[str, Any] | bytes, **settings: Any) -> Question:
    body = record if isinstance(record, bytes) else json.dumps(record).encode()
    return parse_question(Record(body, "a.jsonl:1"), RecordSettings(**settings))


def metadata(question: Question) -> Any:
    return json.loads(question.metadata or "{}")


@pytest.mark.parametrize("name", ["Question", "QUESTION", "question ", "_question", "ques-tion"])
def test_another_spelling_of_the_question_is_the_question(name: str) -> None:
    question = ask({name: "Why?", "ID": "7", "Meta Data": {"a": 1}, "System-Instruction": "Be brief."})
    same = ask({"question": "Why?", "id": "7", "metadata": {"a": 1}, "system_instruction": "Be brief."})
    assert (question.turns, question.question_id, question.metadata) == (("Why?",), "7", '{"a":1}')
    assert question.request == same.request


def test_renamed_fields_have_other_spellings_too() -> None:
    question = ask(
        {"Query Text": "Why?", "Question ID": 7}, question_field="query_text", id_field="question_id"
    )
    assert (question.turns, question.question_id, question.metadata) == (("Why?",), "7", None)


def test_its_own_spelling_goes_before_others_which_stay_readable() -> None:
    question = ask({"QUESTION": "Who?", "ID": "8", "question": "Why?", "id": "7", "_id": {"$oid": "9"}})
    assert (question.turns, question.question_id) == (("Why?",), "7")
    assert metadata(question) == {"QUESTION": "Who?", "ID": "8", "_id": {"$oid": "9"}}


def test_an_id_of_another_spelling_that_can_not_be_one_is_metadata() -> None:
    assert metadata(ask({"question": "Why?", "_id": {"$oid": "9"}})) == {"_id": {"$oid": "9"}}
    assert ask({"question": "Why?", "_id": "9"}).question_id == "9"


@pytest.mark.parametrize(
    "column",
    [
        {"content": "a page"}, {"turn": 3}, {"fact": "x"}, {"questions": 12}, {"Turns": 4}, {"Contents": "toc"},
        {"questions": ["a", "b"]},
    ],
)  # fmt: skip
def test_ordinary_columns_beside_a_question_are_metadata(column: dict[str, Any]) -> None:
    if column == {"questions": ["a", "b"]}:
        with pytest.raises(RecordError, match="NEAR_MISS"):
            ask({"question": "Why?", **column})
        return
    assert metadata(ask({"question": "Why?", **column})) == column
    assert metadata(ask({"a": "Why", **column}, question_templates=("{a}?",))) == {"a": "Why", **column}


@pytest.mark.parametrize("name", ["content", "turn", "questions", "qestion"])
def test_alone_they_are_what_was_meant(name: str) -> None:
    with pytest.raises(RecordError, match="NEAR_MISS"):
        ask({name: "Why?"})


def test_a_value_that_a_table_can_not_leave_out_is_absent() -> None:
    plain = ask({"question": "Why?", "id": "7"})
    columns = {"turns": [], "contents": [], "facts": [], "system_instruction": "", "user_labels": None}
    assert ask({"question": "Why?", "id": "7", **columns}).request == plain.request
    assert ask({"question": "", "turns": ["Why?"], "id": ""}).turns == ("Why?",)
    assert ask({"question": "Why?", "id": ""}).question_id == ask({"question": "Why?", "id": ""}).question_id
    assert metadata(ask({"question": "Why?", **columns})) == {}


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"question": ""}, "BLANK_QUESTION"),
        ({"turns": []}, "NO_QUESTION"),
        ({"question": None}, "NO_QUESTION"),
    ],
)
def test_nothing_but_an_empty_value_is_what_is_wrong(record: dict[str, Any], code: str) -> None:
    with pytest.raises(RecordError, match=code):
        ask(record)


def test_an_empty_list_of_sources_is_meant() -> None:
    assert ask({"question": "Why?", "grounding_sources": []}).request != ask({"question": "Why?"}).request


def test_whole_numbers_written_as_fractions_are_ids() -> None:
    assert ask({"question": "Why?", "id": 1.0}).question_id == "1"
    with pytest.raises(RecordError, match="INVALID_ID"):
        ask({"question": "Why?", "id": 1.5})


NAMES = Names(
    by_spelling=spellings({"question": "question", "id": "id"}, ("facts", "metadata")),
    known=frozenset({"question", "id", "facts", "metadata"}),
    id_field="id",
    asking=frozenset({"question"}),
)


def test_what_json_can_not_say_is_null_outside_the_api_s_fields_and_told() -> None:
    body = (
        b'{"question": "Is NaN a number?", "n": [NaN, {"x": -Infinity}], "metadata": {"m": Infinity}, "k": 1}'
    )
    fields = read_fields(Record(body, "a"), NAMES)
    assert json.loads(fields.metadata or "") == {"m": None, "n": [None, {"x": None}], "k": 1}
    assert [warning.split("`")[1] for warning in fields.warnings] == ["metadata", "n"]
    assert all("NaN or an infinity" in warning for warning in fields.warnings)
    in_text = read_fields(Record(b'{"question": "Is NaN a number?"}', "a"), NAMES)
    assert in_text.warnings == ()


def test_within_the_api_s_fields_it_is_refused() -> None:
    with pytest.raises(RecordError, match=r"NOT_FINITE: `facts` holds NaN"):
        read_fields(Record(b'{"question": "Why?", "facts": [NaN], "n": NaN}', "a"), NAMES)


def test_checks_have_the_same_latitude() -> None:
    body = b'{"Answer": "Tin melts.", "Facts": ["Tin melts."], "id": "", "content": "x", "user_labels": []}'
    check = parse_check(Record(body, "a"), CheckSettings())
    assert (check.turns, check.metadata) == (("Tin melts.",), '{"content":"x"}')
