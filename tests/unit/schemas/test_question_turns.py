"""Turns with system instructions of their own."""

import json
from typing import Any

import pytest

from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record


def ask(turns: list[Any], settings: RecordSettings | None = None, **fields: Any) -> Question:
    body = json.dumps({"turns": turns, **fields}).encode()
    return parse_question(Record(body, ""), settings or RecordSettings())


def said(instruction: bytes | None) -> str | None:
    if instruction is None:
        return None
    content = request_class("v1")().system_instruction
    content.ParseFromString(instruction)
    return "".join(part.text for part in content.parts)


def own_of(request: bytes) -> str:
    message = request_class("v1").FromString(request)
    return "".join(part.text for part in message.system_instruction.parts)


def test_a_turn_may_be_a_string_or_an_object() -> None:
    question = ask(["Who?", {"text": "When?"}, {"text": "Where?", "system_instruction": None}])
    assert question.turns == ("Who?", "When?", "Where?")
    assert question.instructions == ()
    assert question == ask(["Who?", {"text": "When?"}, {"text": "Where?", "system_instruction": None}])


@pytest.mark.parametrize(
    "instruction",
    [
        {"system_instruction": "Rhyme."},
        {"systemInstruction": "Rhyme."},
        {"system_instruction": {"parts": {"text": "Rhyme."}}},
        {"systemInstruction": {"role": "user", "parts": [{"text": "Rh"}, {"text": "yme."}]}},
    ],
)
def test_a_turns_own_instruction_in_every_form(instruction: dict[str, Any]) -> None:
    question = ask(["Who?", {"text": "When?", **instruction}])
    assert [said(each) for each in question.instructions] == [None, "Rhyme."]


def test_the_request_keeps_the_records_own_for_the_turns_that_have_none() -> None:
    question = ask(
        [{"text": "Who?", "system_instruction": "Rhyme."}, "When?"], system_instruction="Be brief."
    )
    assert own_of(question.request) == "Be brief."
    assert [said(each) for each in question.instructions] == ["Rhyme.", None]


def test_the_defaults_instruction_is_for_the_turns_that_have_none_too() -> None:
    settings = RecordSettings(defaults=load_defaults('{"system_instruction": "Be brief."}', "v1"))
    question = ask(["Who?", {"text": "When?", "system_instruction": "Rhyme."}], settings)
    assert own_of(question.request) == "Be brief."
    assert [said(each) for each in question.instructions] == [None, "Rhyme."]


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (
            {"text": "Q?", "system_instruction": {"parts": []}},
            r"turns[1].system_instruction.parts is empty: ",
        ),
        ({"text": "Q?", "system_instruction": ["x"]}, "turns[1].system_instruction is a list: "),
        (
            {"text": "Q?", "system_instruction": {"part": []}},
            "turns[1].system_instruction has a field `part` ",
        ),
        ({"text": "Q?", "systemInstructoin": "x"}, "did you mean system_instruction?"),
        ({"text": "Q?", "zzz": "x"}, "it takes text and system_instruction"),
        ({}, "turns[1].text is missing: "),
        (7, "turns[1] is a whole number: it must be a string or an object with text"),
    ],
)
def test_messages_say_which_turn(turn: object, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        ask(["Who?", turn])
    assert message in caught.value.message
