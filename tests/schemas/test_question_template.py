import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import RecordError
from schemas.question import Question, RecordSettings, parse_question
from schemas.record import Record
from schemas.template import check_template


def ask(fields: dict[str, Any], template: str) -> Question:
    record = Record(json.dumps(fields).encode(), "x")
    return parse_question(record, RecordSettings(question_template=template))


def refused(fields: dict[str, Any], template: str) -> RecordError:
    with pytest.raises(RecordError) as caught:
        ask(fields, template)
    return caught.value


def test_fields_fill_the_template_and_stay_in_metadata() -> None:
    question = ask({"company": "Æ Ltd", "country": "Norway"}, "Adverse news about {company} in {country}?")
    assert question.turns == ("Adverse news about Æ Ltd in Norway?",)
    assert json.loads(question.metadata or "") == {"company": "Æ Ltd", "country": "Norway"}


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (17, "17"), (1.5, "1.5"), (True, "true"), (False, "false"), (0, "0"), (2**80, str(2**80))],
)
def test_scalars(value: object, text: str) -> None:
    assert ask({"a": value}, "<{a}>").turns == (f"<{text}>",)


@settings(deadline=None)
@given(st.text().filter(str.strip))
def test_data_is_never_a_template(text: str) -> None:
    assert ask({"a": text, "b": "B"}, "{{{a}}} {b}").turns == ("{" + text + "} B",)


def test_a_field_of_any_name_can_be_used() -> None:
    fields = {"Company Name": "A", "fact": "B", "id": 7, "質問": "C"}
    question = ask(fields, "{Company Name} {fact} {id} {質問}")
    assert question.turns == ("A B 7 C",)
    assert question.question_id == "7"
    assert json.loads(question.metadata or "") == fields


def test_the_question_field_itself_can_be_used() -> None:
    question = ask({"question": "Why?"}, "Briefly: {question}")
    assert question.turns == ("Briefly: Why?",)
    assert json.loads(question.metadata or "") == {"question": "Why?"}


@pytest.mark.parametrize("value", [None, "", "  ", ["a"], {"b": 1}])
def test_a_field_without_text_fails(value: object) -> None:
    error = refused({"a": value, "b": 1}, "{a}{b}")
    assert error.code == "TEMPLATE_FIELD"
    assert "`a`" in error.message


def test_a_missing_field_fails() -> None:
    error = refused({"b": 1}, "{a}{b}")
    assert (error.code, error.stage) == ("TEMPLATE_FIELD", "validate")
    assert error.message.startswith("the field `a` of the question template is missing")


@pytest.mark.parametrize(
    "extra", [{"question": "Why?"}, {"turns": ["Why?"]}, {"contents": [{"parts": {"text": "a"}}]}]
)
def test_a_record_that_asks_by_itself_too_is_refused(extra: dict[str, Any]) -> None:
    assert refused({"a": 1, **extra}, "{a}").code == "TWO_QUESTIONS"


def test_other_fields_still_shape_the_request() -> None:
    assert refused({"a": 1, "facts": []}, "{a}").code == "EMPTY_SOURCE"
    assert refused({"a": 1, "qestion": 2}, "{a}").code == "NEAR_MISS"


@pytest.mark.parametrize(
    "template",
    [
        "",
        "no fields",
        "{{a}}",
        "{}",
        "{ }",
        "{a",
        "a}",
        "{a.b}",
        "{a[0]}",
        "{a!r}",
        "{a:>10}",
        "{a:{b}}",
        "{0.x}",
        "{a} \ud83d",
    ],
)
def test_broken_templates_are_refused_before_the_first_record(template: str) -> None:
    with pytest.raises(ValueError, match="question template"):
        check_template(template)
    with pytest.raises(ValueError, match="question template"):
        RecordSettings(question_template=template)


@pytest.mark.parametrize("template", ["{a}", "{{{a}}}", "{a}{b}", "{a b}", "x {a} {{y}}"])
def test_good_templates(template: str) -> None:
    check_template(template)
