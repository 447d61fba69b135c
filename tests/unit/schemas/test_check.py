import json
import math
import pickle
from typing import Any

import pytest
from google.protobuf import json_format

from groundrows.schemas.check import CheckSettings, parse_check
from groundrows.schemas.discoveryengine.check import check_request
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.discoveryengine.request import with_location
from groundrows.schemas.errors import RecordError, RuleError
from groundrows.schemas.question import Question
from groundrows.schemas.record import Record
from tests.support.bad_checks import BAD_CHECKS, checking
from tests.support.bad_records import PARSE_CODES
from tests.support.request_json import request_json

LOCATION = "projects/p/locations/global"


def check(body: bytes, **settings: Any) -> Question:
    return parse_check(Record(body, "a.jsonl:1", ("before",)), CheckSettings(**settings))


def sent(question: Question) -> dict[str, Any]:
    message = request_class(question.api_version, "check").FromString(question.request)
    return json_format.MessageToDict(message)


def test_an_answer_and_its_facts() -> None:
    body = checking(id=7, facts=["one", {"factText": "two", "attributes": {"uri": "u"}}], question="Why?")
    question = check(body)
    assert sent(question) == {
        "answerCandidate": "Tin melts early.",
        "facts": [{"factText": "one"}, {"factText": "two", "attributes": {"uri": "u"}}],
        "groundingSpec": {"enableClaimLevelScore": True},
    }
    assert question == Question(
        question_id="7",
        turns=("Tin melts early.",),
        request=question.request,
        api_version="v1",
        user_context=None,
        metadata='{"question":"Why?"}',
        record=body,
        origin="a.jsonl:1",
        history=("before",),
        method="check",
    )


def test_the_api_s_own_form_asks_the_same() -> None:
    plain = check(checking(citation_threshold=0.4, user_labels={"team": "a"}))
    for spec in ({"citation_threshold": 0.4}, {"citationThreshold": 0.4, "enableClaimLevelScore": True}):
        fields = {"answer": ..., "answerCandidate": "Tin melts early.", "userLabels": {"team": "a"}}
        assert check(checking(**fields, groundingSpec=spec)).request == plain.request


@pytest.mark.parametrize(
    ("fields", "settings", "spec"),
    [
        ({}, {}, {"enableClaimLevelScore": True}),
        ({}, {"claim_scores": False}, {"enableClaimLevelScore": False}),
        ({}, {"citation_threshold": 0.9}, {"citationThreshold": 0.9, "enableClaimLevelScore": True}),
        (
            {"citation_threshold": 0},
            {"citation_threshold": 0.9},
            {"citationThreshold": 0.0, "enableClaimLevelScore": True},
        ),
        (
            {"grounding_spec": {"enable_claim_level_score": False}},
            {"citation_threshold": 0.9},
            {"citationThreshold": 0.9, "enableClaimLevelScore": False},
        ),
        (
            {"grounding_spec": {"enable_claim_level_score": True, "citation_threshold": 1}},
            {"citation_threshold": 0.9, "claim_scores": False},
            {"citationThreshold": 1.0, "enableClaimLevelScore": True},
        ),
    ],
)
def test_a_record_goes_before_the_settings(
    fields: dict[str, Any], settings: dict[str, Any], spec: dict[str, Any]
) -> None:
    assert sent(check(checking(**fields), **settings))["groundingSpec"] == spec


def test_what_asks_a_question_elsewhere_is_metadata_here() -> None:
    others = {"question": "Why?", "turns": ["a"], "contents": [], "system_instruction": "x", "model": "m"}
    question = check(checking(**others, metadata={"a": 1}))
    assert json.loads(question.metadata or "") == {"a": 1, **others}
    assert question.request == check(checking()).request


def test_renamed_fields() -> None:
    body = checking(answer="kept", id="kept too", summary="Tin melts.", key="k")
    question = check(body, answer_field="summary", id_field="key")
    assert (question.turns, question.question_id) == (("Tin melts.",), "k")
    assert json.loads(question.metadata or "") == {"answer": "kept", "id": "kept too"}
    with pytest.raises(RecordError, match="`summary`"):
        check(checking(), answer_field="summary")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"answer_field": "facts"}, "name others"),
        ({"answer_field": "id"}, "name others"),
        ({"id_field": "userLabels"}, "name others"),
        ({"citation_threshold": 1.5}, "is 1.5"),
        ({"citation_threshold": -1}, "from 0 to 1"),
        ({"citation_threshold": math.nan}, "from 0 to 1"),
        ({"api_version": "v2"}, "v2"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CheckSettings(**settings)


def test_the_limits_themselves_pass() -> None:
    labels = {f"l{i}": "" for i in range(64)}
    question = check(checking(facts=["é" * 10_000] * 200, citation_threshold=1, user_labels=labels))
    assert len(sent(question)["facts"]) == 200


@pytest.mark.parametrize("api_version", ["v1", "v1beta", "v1alpha"])
def test_every_version_has_the_method(api_version: Any) -> None:
    question = check(checking(), api_version=api_version)
    assert question.api_version == api_version
    assert question.request == check(checking()).request


@pytest.mark.parametrize(("body", "code"), [pytest.param(b, c, id=n) for n, b, c in BAD_CHECKS])
def test_a_bad_check_fails_by_its_code(body: bytes, code: str) -> None:
    with pytest.raises(RecordError) as caught:
        check(body)
    error = caught.value
    assert error.code == code
    assert error.stage == ("parse" if code in PARSE_CODES else "validate")
    assert len(error.message) < 400
    assert "\n" not in error.message
    assert "Tin melts" not in error.message


def test_a_failure_keeps_id_and_metadata() -> None:
    with pytest.raises(RecordError) as caught:
        check(checking(id="a-1", answer="", question="Why?"))
    assert (caught.value.question_id, caught.value.metadata) == ("a-1", '{"question":"Why?"}')


def test_settings_travel_to_workers() -> None:
    settings = CheckSettings(citation_threshold=0.3, api_version="v1beta")
    assert pickle.loads(pickle.dumps(settings)) == settings


# -- check_request


def test_a_request_made_of_an_answer_and_its_chunks() -> None:
    facts = [("one", {"uri": "u", "title": "t"}), ("two", {})]
    request = check_request("v1beta", "Tin melts.", facts, 0.25, {"team": "a"})
    assert json.loads(request_json(request, "v1beta", "check")) == {
        "answerCandidate": "Tin melts.",
        "facts": [{"factText": "one", "attributes": {"uri": "u", "title": "t"}}, {"factText": "two"}],
        "groundingSpec": {"citationThreshold": 0.25, "enableClaimLevelScore": True},
        "userLabels": {"team": "a"},
    }
    backwards = [("one", {"title": "t", "uri": "u"}), ("two", {})]
    assert check_request("v1beta", "Tin melts.", backwards, 0.25, {"team": "a"}) == request


def test_a_request_without_threshold_leaves_it_to_the_service() -> None:
    message = request_class("v1", "check").FromString(check_request("v1", "a", [("f", {})], None))
    assert not message.grounding_spec.HasField("citation_threshold")
    assert message.grounding_spec.enable_claim_level_score
    message = request_class("v1", "check").FromString(check_request("v1", "a", [("f", {})], 0.0))
    assert message.grounding_spec.HasField("citation_threshold")


@pytest.mark.parametrize(
    ("answer", "facts", "threshold", "labels", "code"),
    [
        (" ", [("f", {})], None, {}, "BLANK_ANSWER"),
        ("a", [], None, {}, "NO_FACTS"),
        ("a", [("f", {})] * 201, None, {}, "TOO_MANY_FACTS"),
        ("a", [("f" * 10_001, {})], None, {}, "FACT_TOO_LONG"),
        ("a", [("", {})], None, {}, "EMPTY_FACT"),
        ("a", [("f", {})], 1.5, {}, "OUT_OF_RANGE"),
        ("a", [("f", {})], math.nan, {}, "OUT_OF_RANGE"),
        ("a", [("f", {})], None, {"A": "b"}, "INVALID_LABEL"),
        ("a\ud83d", [("f", {})], None, {}, "LONE_SURROGATE"),
        ("a", [("f\ud83d", {})], None, {}, "LONE_SURROGATE"),
    ],
)
def test_what_breaks_a_rule_is_not_cut_to_fit(
    answer: str, facts: list[tuple[str, dict[str, str]]], threshold: float | None, labels: Any, code: str
) -> None:
    with pytest.raises(RuleError) as caught:
        check_request("v1", answer, facts, threshold, labels)
    assert caught.value.code == code


def test_a_check_is_addressed_to_the_default_config_of_the_location() -> None:
    placed = with_location(check(checking()).request, "v1", LOCATION, "check")
    message = request_class("v1", "check").FromString(placed)
    assert message.grounding_config == f"{LOCATION}/groundingConfigs/default_grounding_config"
    message.ClearField("grounding_config")
    assert message.SerializeToString(deterministic=True) == check(checking()).request
