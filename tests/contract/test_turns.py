"""Conversations on the wire: each turn says everything again, and under the right system instruction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.transforms.generate.calling.conversation import request_after

LOCATION = "projects/p/locations/global"


def ask(fields: dict[str, Any], **settings: Any) -> Question:
    return parse_question(Record(json.dumps(fields).encode(), ""), RecordSettings(**settings))


def turns(question: Question) -> list[Any]:
    """The message of every turn, when the model answers the nth with `answer n`."""
    said = [f"answer {turn}" for turn in range(len(question.turns))]
    message = request_class(question.api_version)
    return [
        message.FromString(request_after(question, said[:turn], LOCATION))
        for turn in range(len(question.turns))
    ]


def instructions(question: Question) -> list[str | None]:
    return [
        "".join(part.text for part in message.system_instruction.parts)
        if message.HasField("system_instruction")
        else None
        for message in turns(question)
    ]


def spoken(message: Any) -> list[tuple[str, str]]:
    return [(content.role, "".join(part.text for part in content.parts)) for content in message.contents]


RHYME = {"text": "How?", "system_instruction": "Rhyme."}


def test_the_instruction_is_said_in_every_turn() -> None:
    assert (
        instructions(ask({"turns": ["Who?", "How?"], "system_instruction": "Be brief."})) == ["Be brief."] * 2
    )
    defaults = load_defaults('{"systemInstruction": "Be brief."}', "v1")
    assert instructions(ask({"turns": ["Who?", "How?"]}, defaults=defaults)) == ["Be brief."] * 2
    assert instructions(ask({"turns": ["Who?", "How?"]})) == [None, None]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["Who?", RHYME, "Why?"], ["Be brief.", "Rhyme.", "Be brief."]),
        ([RHYME, "Who?", "Why?"], ["Rhyme.", "Be brief.", "Be brief."]),
        (["Who?", "Why?", RHYME], ["Be brief.", "Be brief.", "Rhyme."]),
        ([RHYME, RHYME], ["Rhyme.", "Rhyme."]),
    ],
)
def test_a_turn_with_its_own_instruction(given: list[Any], expected: list[str]) -> None:
    question = ask({"turns": given, "system_instruction": "Be brief."})
    assert instructions(question) == expected
    defaults = load_defaults('{"system_instruction": "Be brief."}', "v1")
    assert instructions(ask({"turns": given}, defaults=defaults)) == expected
    alone = [None if each == "Be brief." else each for each in expected]
    assert instructions(ask({"turns": given})) == alone


def test_an_instruction_changes_nothing_else_of_a_turn() -> None:
    fields: dict[str, Any] = {
        "facts": ["f"],
        "generation_spec": {"temperature": 0, "language_code": "fr"},
        "user_labels": {"a": "b"},
    }
    with_own = turns(ask({"turns": ["Who?", RHYME, "Why?"], "system_instruction": "Be brief.", **fields}))
    without = turns(ask({"turns": ["Who?", "How?", "Why?"], "system_instruction": "Be brief.", **fields}))
    assert spoken(with_own[2]) == [
        ("user", "Who?"),
        ("model", "answer 0"),
        ("user", "How?"),
        ("model", "answer 1"),
        ("user", "Why?"),
    ]
    with_own[1].system_instruction.parts[0].text = "Be brief."
    assert with_own == without


def test_an_instruction_in_the_apis_form_keeps_its_role_and_parts() -> None:
    own = {"role": "user", "parts": [{"text": "Rhy"}, {"text": "me."}]}
    question = ask({"turns": [{"text": "Who?", "systemInstruction": own}], "system_instruction": "Be brief."})
    (message,) = turns(question)
    assert message.system_instruction.role == "user"
    assert [part.text for part in message.system_instruction.parts] == ["Rhy", "me."]


def test_templates_are_turns_too() -> None:
    question = ask(
        {"metal": "tin", "system_instruction": "Be brief."},
        question_templates=("What is {metal}?", "Who found {metal}?"),
    )
    assert spoken(turns(question)[1]) == [
        ("user", "What is tin?"),
        ("model", "answer 0"),
        ("user", "Who found tin?"),
    ]
    assert instructions(question) == ["Be brief."] * 2


def test_a_history_goes_out_as_it_came() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "Who?"}]},
        {"role": "model", "parts": [{"text": "A"}, {"text": "da."}]},
        {"role": "user", "parts": [{"text": "When, "}, {"text": "and where?"}]},
    ]
    question = ask({"contents": contents, "system_instruction": "Be brief."})
    (message,) = turns(question)
    assert [(c.role, [p.text for p in c.parts]) for c in message.contents] == [
        ("user", ["Who?"]),
        ("model", ["A", "da."]),
        ("user", ["When, ", "and where?"]),
    ]
    assert instructions(question) == ["Be brief."]


@pytest.mark.parametrize("role", ["user", "model"])
def test_a_history_may_repeat_a_role(role: str) -> None:
    contents = [{"role": role, "parts": {"text": "a"}}] * 2 + [{"role": "user", "parts": {"text": "b"}}]
    (message,) = turns(ask({"contents": contents}))
    assert spoken(message) == [(role, "a"), (role, "a"), ("user", "b")]


@pytest.mark.parametrize(
    ("contents", "code"),
    [
        (
            [{"role": "user", "parts": {"text": "a"}}, {"role": "model", "parts": {"text": "b"}}],
            "LAST_NOT_USER",
        ),
        ([{"parts": {"text": "a"}}, {"role": "user", "parts": {"text": "b"}}], "INVALID_ROLE"),
        ([{"role": "user", "parts": []}, {"role": "user", "parts": {"text": "b"}}], "NO_TEXT"),
        ([{"role": "system", "parts": {"text": "a"}}], "INVALID_ROLE"),
        ([], "NO_QUESTION"),
    ],
)
def test_a_history_has_rules_of_its_own(contents: list[Any], code: str) -> None:
    with pytest.raises(RecordError, match=code):
        ask({"contents": contents})
