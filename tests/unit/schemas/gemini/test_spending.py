import json

import pytest

from groundrows.schemas.codes import EMPTY_ANSWER
from groundrows.schemas.gemini.reading import judged
from groundrows.schemas.service import DISCOVERY_ENGINE, GEMINI, access_of, service_of
from groundrows.schemas.spending import Need, Spent
from groundrows.transforms.generate.calling.conversation import turn_request
from tests.support.engines import make_question
from tests.support.gemini import AGENT, MODEL, question_of, response

USAGE = {
    "promptTokenCount": 10,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 30,
    "toolUsePromptTokenCount": 40,
    "totalTokenCount": 100,
}


def test_a_response_says_what_it_took_and_equal_queries_are_one_search():
    body = {**response("Tin.", webSearchQueries=["tin", "tin", " ", "melting"]), "usageMetadata": USAGE}
    spent = Spent(10, 4, 20, 30, 40, 100, searches=2, searched_calls=1)
    assert judged(body) == (None, spent)
    assert judged([body]) == (None, spent)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "PROMPT_BLOCKED"),
        ({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]}, "TRUNCATED"),
        ({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}, EMPTY_ANSWER),
    ],
)
def test_what_answers_nothing_is_paid_for_too(body, code):
    unanswered, spent = judged({**body, "usageMetadata": {"promptTokenCount": 11, "totalTokenCount": 11}})
    assert unanswered is not None
    assert unanswered.code == code
    assert spent == Spent(prompt=11, total=11)


def test_without_a_total_the_kinds_are_added_up():
    said = {**USAGE, "totalTokenCount": "x"}
    assert judged({**response("Tin."), "usageMetadata": said})[1] == Spent(10, 4, 20, 30, 40, 100)


@pytest.mark.parametrize("said", [None, {}, [], {"totalTokenCount": 0}, {"totalTokenCount": -1}, "x"])
def test_a_response_that_says_nothing_of_it_took_nobody_knows_what(said):
    assert judged({**response("Tin."), "usageMetadata": said})[1] is None


def need_of(record, **settings):
    request = turn_request(question_of(record, **settings), (), AGENT)
    return service_of(GEMINI, "v1").need(request)


def test_a_request_says_what_it_may_need():
    assert need_of({"question": "When does tin melt?"}) == Need(MODEL, 5, None, may_search=False)
    asked = {
        "question": "When does tin melt?",
        "system_instruction": "x" * 400,
        "generation_spec": {"max_output_tokens": 77},
        "grounding_sources": [{"google_search_source": {}}],
    }
    assert need_of(asked) == Need(MODEL, 105, 77, may_search=True)
    assert need_of({"question": "Why?", "facts": ["y" * 4_000]}).prompt > 1_000


def test_the_old_service_reports_nothing():
    request = turn_request(make_question("q"), (), AGENT)
    assert service_of(DISCOVERY_ENGINE, "v1").need(request) is None
    assert not access_of(DISCOVERY_ENGINE, AGENT).reports_usage
    assert access_of(GEMINI, "").reports_usage
    assert access_of(GEMINI, AGENT).reports_usage


def test_a_usage_is_json_as_it_came():
    body = json.dumps({**response("Tin."), "usageMetadata": {"totalTokenCount": "12"}})
    assert judged(json.loads(body))[1] == Spent(total=12)
