from datetime import UTC, datetime

import pytest

from groundrows.schemas.discoveryengine.messages import request_class, response_class
from groundrows.schemas.outcome import Answer
from groundrows.transforms.generate.calling.conversation import answer_text, is_over, turn_request
from groundrows.transforms.generate.clients.discoveryengine.merge import merge
from tests.support.engines import LOCATION, make_question, response

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def answer(turn_index, body):
    return Answer(turn_index, b"", body, "v1", False, 1, 1.0, NOW, NOW, False)


def spoken(request):
    return [
        (content.role, "".join(part.text for part in content.parts))
        for content in request_class("v1").FromString(request).contents
    ]


def test_the_first_turn_is_the_question_addressed_to_the_location():
    question = make_question(["one", "two"], system_instruction="be brief")
    request = turn_request(question, (), LOCATION)
    assert request_class("v1").FromString(request).location == LOCATION
    assert spoken(request) == [("user", "one")]
    assert turn_request(question, (), LOCATION + "x") != request


def test_a_later_turn_says_everything_again():
    question = make_question(["one", "two", "three"], system_instruction="be brief", facts=["a fact"])
    answers = (answer(0, response("eins")), answer(1, response("zwei")))
    request = turn_request(question, answers, LOCATION)
    assert spoken(request) == [
        ("user", "one"),
        ("model", "eins"),
        ("user", "two"),
        ("model", "zwei"),
        ("user", "three"),
    ]
    message = request_class("v1").FromString(request)
    assert message.system_instruction.parts[0].text == "be brief"
    assert message.grounding_spec.grounding_sources[0].inline_source.grounding_facts[0].fact_text == "a fact"


def test_other_answers_make_another_request():
    question = make_question(["one", "two"])
    assert turn_request(question, (answer(0, response("a")),), LOCATION) != turn_request(
        question, (answer(0, response("b")),), LOCATION
    )


def test_an_answer_of_several_parts_is_one_in_the_history_and_only_the_first_candidate_is():
    message = response_class("v1")()
    for text in ("one ", "answer"):
        candidate = message.candidates[0] if message.candidates else message.candidates.add()
        candidate.content.parts.add(text=text)
    message.candidates.add().content.parts.add(text="the other candidate")
    request = turn_request(make_question(["q", "r"]), (answer(0, message.SerializeToString()),), LOCATION)
    assert spoken(request)[1] == ("model", "one answer")


def candidates_of(*indexed):
    message = response_class("v1")()
    for index, text in indexed:
        message.candidates.add(index=index).content.parts.add(text=text)
    return message


@pytest.mark.parametrize(
    ("indexed", "expected"),
    [
        ([(0, "one"), (1, "other")], "one"),
        ([(1, "other"), (0, "one")], "one"),
        ([(2, "last"), (0, "one"), (1, "other")], "one"),
        ([(0, "one"), (0, "other")], "one"),  # numbered by place, as their indices don't tell them apart
        ([(3, "one"), (5, "other")], "one"),
        ([(7, "one")], "one"),
        ([], ""),
    ],
)
def test_the_history_holds_the_candidate_that_rows_number_0(indexed, expected):
    assert answer_text(answer(0, candidates_of(*indexed).SerializeToString())) == expected


def test_the_history_is_the_same_whether_the_answer_was_streamed_or_not():
    whole = candidates_of((1, "the other one"), (0, "the one"))
    parts = [candidates_of(each) for each in ((1, "the other "), (0, "the "), (1, "one"), (0, "one"))]
    streamed = merge(parts, response_class("v1"))
    question = make_question(["q", "r"])
    first, second = (
        turn_request(question, (answer(0, message.SerializeToString()),), LOCATION)
        for message in (whole, streamed)
    )
    assert first == second
    assert spoken(first)[1] == ("model", "the one")


def test_it_is_over_when_every_turn_is_answered():
    question = make_question(["one", "two"])
    assert not is_over(question, ())
    assert not is_over(question, (answer(0, response("eins")),))
    assert is_over(question, (answer(0, response("eins")), answer(1, response("zwei"))))


def test_it_is_over_when_a_response_answers_nothing():
    assert is_over(make_question(["one", "two"]), (answer(0, response_class("v1")().SerializeToString()),))
