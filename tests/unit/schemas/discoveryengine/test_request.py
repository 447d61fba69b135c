import json
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.discoveryengine.request import described, next_turn_request, with_location
from groundrows.schemas.jsontext import ordered_json
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.schemas.service import Asked
from tests.support.request_json import request_json

LOCATION = "projects/p/locations/eu"


def ask(fields: dict[str, Any], **given: Any) -> Question:
    return parse_question(Record(json.dumps(fields).encode(), ""), RecordSettings(**given))


def sent(fields: dict[str, Any], **given: Any) -> dict[str, Any]:
    question = ask(fields, **given)
    return json.loads(request_json(question.request, question.api_version))


def test_every_field_arrives() -> None:
    fields = {
        "question": "Why?",
        "system_instruction": "Be brief.",
        "generation_spec": {
            "model_id": "m", "language_code": "fr", "temperature": 0.25, "top_p": 1, "top_k": 40,
            "frequency_penalty": -0.5, "presence_penalty": 0, "max_output_tokens": 100, "seed": 0,
        },
        "facts": ["one", {"fact_text": "two", "attributes": {"title": "T", "snake_key": "kept"}}],
        "grounding_sources": [
            {"search_source": {"serving_config": "s", "max_result_count": 5, "filter": "f", "safe_search": True}},
            {"enterprise_web_retrieval_source": {}},
            {"inline_source": {"grounding_facts": [{"fact_text": "three"}], "attributes": {"author": "A"}}},
        ],
        "user_labels": {"team": "search", "équipe": "", "部門": "a-1_b"},
    }  # fmt: skip
    assert sent(fields) == {
        "contents": [{"role": "user", "parts": [{"text": "Why?"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationSpec": {
            "modelId": "m", "languageCode": "fr", "temperature": 0.25, "topP": 1.0, "topK": 40,
            "frequencyPenalty": -0.5, "presencePenalty": 0.0, "maxOutputTokens": 100, "seed": 0,
        },
        "groundingSpec": {
            "groundingSources": [
                {
                    "inlineSource": {
                        "groundingFacts": [
                            {"factText": "one"},
                            {"factText": "two", "attributes": {"title": "T", "snake_key": "kept"}},
                        ]
                    }
                },
                {"searchSource": {"servingConfig": "s", "maxResultCount": 5, "filter": "f", "safeSearch": True}},
                {"enterpriseWebRetrievalSource": {}},
                {"inlineSource": {"groundingFacts": [{"factText": "three"}], "attributes": {"author": "A"}}},
            ]
        },
        "userLabels": {"team": "search", "équipe": "", "部門": "a-1_b"},
    }  # fmt: skip


def test_v1beta_fields_arrive_on_v1beta() -> None:
    source = {
        "googleSearchSource": {"excludeDomains": ["a.org"], "blockingConfidence": "BLOCK_LOW_AND_ABOVE"}
    }
    spec = {"provisionedThroughputSetting": 2}
    request = sent(
        {"question": "Why?", "grounding_sources": [source], "generation_spec": spec}, api_version="v1beta"
    )
    assert request["groundingSpec"] == {"groundingSources": [source]}
    assert request["generationSpec"] == {"provisionedThroughputSetting": "PAY_AS_YOU_GO_ONLY"}


@pytest.mark.parametrize(
    "google",
    [
        {},
        {"dynamicRetrievalConfig": {}},
        {"dynamicRetrievalConfig": {"predictor": {}}},
        {"dynamicRetrievalConfig": {"predictor": {"threshold": 0.0}}},
        {"dynamicRetrievalConfig": {"predictor": {"version": "V1_INDEPENDENT", "threshold": 1.0}}},
    ],
)
def test_each_meaning_of_dynamic_retrieval_is_sent_as_written(google: dict[str, Any]) -> None:
    source = {"googleSearchSource": google}
    assert sent({"question": "Why?", "groundingSources": [source]})["groundingSpec"] == {
        "groundingSources": [source]
    }


def test_an_enum_may_be_a_name_or_a_number() -> None:
    def version(value: object) -> object:
        source = {"google_search_source": {"dynamic_retrieval_config": {"predictor": {"version": value}}}}
        return sent({"question": "Why?", "grounding_sources": [source]})["groundingSpec"]

    assert version(1) == version("V1_INDEPENDENT")


def test_nulls_are_not_sent() -> None:
    fields = {
        "question": "Why?",
        "facts": None,
        "generation_spec": {"temperature": None},
        "user_labels": None,
    }
    assert sent(fields) == {"contents": [{"role": "user", "parts": [{"text": "Why?"}]}], "generationSpec": {}}


def test_map_order_does_not_change_the_bytes() -> None:
    labels = {f"k{i}": "v" for i in range(30)}
    backwards = dict(reversed(labels.items()))
    assert (
        ask({"question": "q", "user_labels": labels}).request
        == ask({"question": "q", "user_labels": backwards}).request
    )


def test_v1alpha_speaks_v1s_messages() -> None:
    fields = {"question": "Why?", "generation_spec": {"seed": 1}}
    question = ask(fields, api_version="v1alpha", transport="rest")
    assert question.api_version == "v1alpha"
    assert question.request == ask(fields).request


# -- with_location, next_turn_request, request_json


def test_with_location() -> None:
    question = ask({"question": "Why?", "user_labels": {f"k{i}": "v" for i in range(30)}})
    placed = with_location(question.request, "v1", LOCATION)
    message = request_class("v1").FromString(placed)
    assert message.location == LOCATION
    message.ClearField("location")
    assert message.SerializeToString(deterministic=True) == question.request
    assert with_location(placed, "v1", LOCATION) == placed


def test_the_next_turn_says_everything_again() -> None:
    question = ask(
        {
            "turns": ["Who?", "When?", "Where?"],
            "system_instruction": "Be brief.",
            "facts": ["f"],
            "user_labels": {"a": "b"},
        }
    )
    first = with_location(question.request, "v1", LOCATION)
    third = next_turn_request(first, "v1", [("Who?", "Ada."), ("When?", "")], "Where?")
    before, after = json.loads(request_json(first, "v1")), json.loads(request_json(third, "v1"))
    assert [(c["role"], c["parts"]) for c in after["contents"]] == [
        ("user", [{"text": "Who?"}]),
        ("model", [{"text": "Ada."}]),
        ("user", [{"text": "When?"}]),
        ("model", [{"text": ""}]),
        ("user", [{"text": "Where?"}]),
    ]
    del before["contents"], after["contents"]
    assert after == before
    assert after["systemInstruction"]


def test_a_history_that_the_record_brought_stays_before_the_turns() -> None:
    contents = [
        {"role": "user", "parts": {"text": "a"}},
        {"role": "model", "parts": {"text": "b"}},
        {"role": "user", "parts": {"text": "c"}},
    ]
    following = next_turn_request(ask({"contents": contents}).request, "v1", [("c", "d")], "e")
    texts = [c.parts[0].text for c in request_class("v1").FromString(following).contents]
    assert texts == ["a", "b", "c", "d", "e"]


def test_request_json_of_a_newer_message_leaves_out_what_it_does_not_know() -> None:
    source = {"google_search_source": {"exclude_domains": ["a.org"]}}
    question = ask({"question": "Où?", "grounding_sources": [source]}, api_version="v1beta")
    text = request_json(question.request, "v1")
    assert text == (
        '{"contents":[{"parts":[{"text":"Où?"}],"role":"user"}],'
        '"groundingSpec":{"groundingSources":[{"googleSearchSource":{}}]}}'
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"question": "Why?"},
        {"question": "Why?", "facts": ["x" * 9_000], "user_labels": {"b": "2", "a": "1"}},
        {"contents": [{"parts": [{"text": "alone, without a role"}]}]},
        {
            "contents": [
                {"role": "user", "parts": [{"text": "one"}, {"text": "two"}]},
                {"role": "model", "parts": {"text": "seen"}},
                {"role": "user", "parts": {"text": "three"}},
            ],
            "system_instruction": "Be brief.",
            "generation_spec": {"temperature": 0},
        },
    ],
)
def test_request_json_is_protobufs_own(fields: dict[str, Any]) -> None:
    request = with_location(ask(fields).request, "v1", LOCATION)
    expected = ordered_json(json_format.MessageToDict(request_class("v1").FromString(request)))
    for _ in range(2):  # described anew, and then from memory
        assert request_json(request, "v1") == expected


PARTS = [
    lambda content: None,
    lambda content: content.parts.add(),
    lambda content: content.parts.add(text=""),
    lambda content: content.parts.add(text='"\\ \n\0\u2028 река 🙂 </script>'),
]


@pytest.mark.parametrize("api_version", ["v1", "v1beta", "v1alpha"])
@pytest.mark.parametrize("settings", [b"", b"\x0a\x01p"])
def test_request_json_of_any_contents_is_protobufs_own(api_version: str, settings: bytes) -> None:
    message = request_class(api_version).FromString(settings)
    for role in ("", "user", 'a "role" \t é'):
        for first in PARTS:
            for second in PARTS:
                content = message.contents.add(role=role)
                first(content)
                second(content)
    assert len(message.contents) == 48
    expected = ordered_json(json_format.MessageToDict(message))
    assert request_json(message.SerializeToString(), api_version) == expected


def test_a_request_without_contents_has_a_list_of_none() -> None:
    assert request_json(b"", "v1") == '{"contents":[]}'


@pytest.mark.parametrize(
    ("fields", "model_id", "asks_google"),
    [
        ({}, None, False),
        ({"generation_spec": {"model_id": "m"}}, "m", False),
        ({"generation_spec": {"model_id": "n"}, "facts": ["x" * 9_000]}, "n", False),
        ({"grounding_sources": [{"google_search_source": {}}]}, None, True),
        ({"grounding_sources": [{"search_source": {"serving_config": "s"}}]}, None, False),
    ],
)
def test_what_rows_say_of_a_request(fields: dict[str, Any], model_id: str | None, asks_google: bool) -> None:
    for text in ("one", "two"):  # described anew, and then from memory
        request = ask({"question": text, **fields}).request
        assert described(request, "v1") == Asked(request_json(request, "v1"), model_id, asks_google)


def test_what_is_no_request_is_not_described() -> None:
    with pytest.raises(DecodeError):
        described(b"\xff\xff", "v1")
