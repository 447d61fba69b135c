import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.schemas.template import template_parts


def ask(fields: dict[str, Any], *templates: str) -> Question:
    record = Record(json.dumps(fields).encode(), "x")
    return parse_question(record, RecordSettings(question_templates=templates))


def refused(fields: dict[str, Any], *templates: str) -> RecordError:
    with pytest.raises(RecordError) as caught:
        ask(fields, *templates)
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
    assert refused({"a": 1, "facts": [""]}, "{a}").code == "EMPTY_FACT"
    assert refused({"a": 1, "qestion": 2}, "{a}").code == "NEAR_MISS"


def test_several_templates_are_turns_filled_from_the_same_record() -> None:
    question = ask(
        {"metal": "{tin}", "year": 1824},
        "What is {metal}?",
        "Who first melted it?",
        "Was {metal} known in {year}?",
    )
    assert question.turns == ("What is {tin}?", "Who first melted it?", "Was {tin} known in 1824?")
    assert question.instructions == ()
    assert json.loads(question.metadata or "") == {"metal": "{tin}", "year": 1824}


def test_a_field_that_only_a_later_turn_lacks_fails_the_record() -> None:
    error = refused({"a": 1}, "{a}?", "{b}?")
    assert (error.code, error.stage) == ("TEMPLATE_FIELD", "validate")
    assert "`b`" in error.message


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{address.city}", "Rome"),
        ("{address.geo.lat}", "41.9"),
        ("{authors.0}", "Ada"),
        ("{authors.1.name}", "Bo"),
        ("{ref.id}", "flat"),
        ("{address.a.b}", "dotted outside"),
        ("{metadata.k}", "v"),
        ("{facts.0}", "a fact"),
    ],
)
def test_fields_inside_fields(template: str, text: str) -> None:
    fields = {
        "address": {"city": "Rome", "geo": {"lat": 41.9}, "a": {"b": "inside"}},
        "address.a.b": "dotted outside",
        "authors": ["Ada", {"name": "Bo"}],
        "ref.id": "flat",
        "ref": {"id": "nested"},
        "metadata": {"k": "v"},
        "facts": ["a fact"],
    }
    assert ask(fields, template).turns == (text,)


@pytest.mark.parametrize(
    "template",
    [
        "{a.c}", "{a.b.c}", "{l.2}", "{l.-1}", "{l.x}", "{l.0.y}", "{s.0}", "{n.real}", "{a}", "{l}", "{a.n}", "{l.٠}",
        "{l." + "9" * 5_000 + "}",
    ],
)  # fmt: skip
def test_what_is_not_inside_a_field_is_missing(template: str) -> None:
    fields = {"a": {"b": "x", "n": None}, "l": ["p", "q"], "s": "text", "n": 7}
    assert refused(fields, template).code == "TEMPLATE_FIELD"


def test_the_first_step_of_a_nested_field_is_no_slip_of_the_pen() -> None:
    assert ask({"fact": {"text": "x"}}, "{fact.text}?").turns == ("x?",)
    assert ask({"question": {"text": "x"}}, "{question.text}?").turns == ("x?",)


BROKEN = [
    "",
    "no fields",
    "{{a}}",
    "{}",
    "{ }",
    "{a",
    "a}",
    "{a.}",
    "{.a}",
    "{a..b}",
    "{a[0]}",
    "{a!r}",
    "{a:>10}",
    "{a:{b}}",
    "{a} \ud83d",
]


@pytest.mark.parametrize("template", BROKEN)
def test_broken_templates_are_refused_before_the_first_record(template: str) -> None:
    with pytest.raises(ValueError, match="question template") as caught:
        RecordSettings(question_templates=(template,))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("template", [each for each in BROKEN if each not in ("no fields", "{{a}}")])
def test_of_several_templates_the_broken_one_is_named(template: str) -> None:
    with pytest.raises(ValueError, match="question template 2 "):
        RecordSettings(question_templates=("{a}?", template))


def test_one_of_several_templates_must_name_a_field() -> None:
    with pytest.raises(ValueError, match="the question templates name no field"):
        RecordSettings(question_templates=("Why?", "And {{then}}?"))
    assert ask({"a": 1}, "Why?", "And {a}?").turns == ("Why?", "And 1?")


@pytest.mark.parametrize("template", ["{a}", "{{{a}}}", "{a}{b}", "{a b}", "x {a} {{y}}", "{a.b}", "{0.x}"])
def test_good_templates(template: str) -> None:
    assert template_parts((template,))
