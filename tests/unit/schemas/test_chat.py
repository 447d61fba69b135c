"""Conversations under `messages`, and requests that were written for another API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from tests.support.request_json import request_json

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Who?"},
    {"role": "assistant", "content": [{"type": "text", "text": "Van Gogh"}, {"type": "text", "text": "."}]},
    {"role": "user", "content": "When?"},
]


def ask(**record: Any) -> Question:
    return parse_question(Record(json.dumps(record).encode(), "a.jsonl:1"), RecordSettings())


def sent(question: Question) -> Any:
    return json.loads(request_json(question.request, "v1"))


def test_messages_are_understood_like_contents() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "Who?"}]},
        {"role": "model", "parts": [{"text": "Van Gogh."}]},
        {"role": "user", "parts": [{"text": "When?"}]},
    ]
    question = ask(messages=CHAT, id="7", note=1)
    assert question.turns == ("When?",)
    assert question.request == ask(contents=contents, system_instruction="Be brief.").request
    assert question.metadata == '{"note":1}'


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([{"role": "tool", "content": "x"}], "UNKNOWN_ROLE"),
        ([{"role": 1, "content": "x"}], "UNKNOWN_ROLE"),
        ([{"role": "user", "content": {"a": 1}}], "WRONG_TYPE"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "WRONG_TYPE"),
        ([{"role": "user"}], "WRONG_TYPE"),
        (["a"], "WRONG_TYPE"),
        (17, "WRONG_TYPE"),
        ([{"role": "system", "content": "x"}], "NO_QUESTION"),
        (CHAT[:3], "LAST_NOT_USER"),
    ],
)
def test_messages_that_ask_nothing_fail_by_their_code(messages: Any, code: str) -> None:
    with pytest.raises(RecordError) as raised:
        ask(messages=messages)
    assert raised.value.code == code or code == "LAST_NOT_USER"


def test_two_instructions_are_refused() -> None:
    with pytest.raises(RecordError, match="TWO_INSTRUCTIONS"):
        ask(messages=CHAT, system_instruction="Be long.")


@pytest.mark.parametrize("column", [12, "none", CHAT])
def test_beside_a_question_messages_are_a_column(column: Any) -> None:
    question = ask(question="Why?", messages=column)
    assert json.loads(question.metadata or "") == {"messages": column}
    assert question.request == ask(question="Why?").request


@pytest.mark.parametrize(
    "name", ["generationConfig", "tools", "toolConfig", "safetySettings", "cachedContent"]
)
def test_a_request_of_gemini_is_not_asked_without_its_settings(name: str) -> None:
    with pytest.raises(RecordError, match=f"OTHER_SERVICE: the record has `{name}`"):
        ask(contents=[{"parts": [{"text": "Why?"}]}], **{name: {"a": 1}})
    assert json.loads(ask(question="Why?", **{name: "x"}).metadata or "") == {name: "x"}


def test_numbers_written_as_text_and_nulls_in_maps_are_read() -> None:
    question = ask(
        question="Why?",
        generation_spec={"seed": "7", "temperature": "0.5", "max_output_tokens": 64.0, "top_p": "1"},
        facts=[{"fact_text": "Because.", "attributes": {"a": None, "b": "x"}}],
    )
    spec = sent(question)["generationSpec"]
    assert (spec["seed"], spec["temperature"], spec["maxOutputTokens"], spec["topP"]) == (7, 0.5, 64, 1)
    assert "attributes" in json.dumps(sent(question))
    for wrong in ("seven", "1,5", "0x1", "", "1" * 40):
        with pytest.raises(RecordError, match=r"WRONG_TYPE|OUT_OF_RANGE"):
            ask(question="Why?", generation_spec={"temperature": wrong})


def test_a_record_that_asks_nothing_says_what_it_has() -> None:
    with pytest.raises(RecordError, match=r"NO_QUESTION.*--question_field; it has `query`, `lang`"):
        ask(query="Why?", lang="en")


def test_a_template_s_unknown_field_says_which_there_are() -> None:
    settings = RecordSettings(question_templates=("Why {companey}?",))
    with pytest.raises(
        RecordError, match=r"TEMPLATE_FIELD: the field `companey`.*: it has `company`, `question`"
    ):
        parse_question(Record(b'{"company": "A", "question": "Why?"}', "a"), settings)


def test_what_was_odd_about_a_record_travels_with_its_question() -> None:
    question = parse_question(Record(b'{"question": "Why?", "n": NaN}', "a"), RecordSettings())
    assert question.metadata == '{"n":null}'
    assert "`n` holds NaN" in question.warnings[0]
