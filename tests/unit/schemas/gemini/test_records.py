"""Records as requests of Gemini: what maps, what is refused, and what lies under what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.errors import RecordError
from groundrows.schemas.service import GEMINI, service_of
from groundrows.transforms.generate.calling.conversation import request_after
from tests.support.gemini import AGENT, MODEL, question_of, sent

PLACE = {"api_version": "v1", "location": AGENT}
ENGINE = "projects/p/locations/global/collections/default_collection/engines/e"
STORE = "projects/p/locations/global/collections/default_collection/dataStores/d"


def asked(**fields: Any) -> dict[str, Any]:
    return {"id": "q", "question": "When?", **fields}


def test_a_question_is_one_turn_of_the_model_in_the_path() -> None:
    assert sent() == {
        "contents": [{"role": "user", "parts": [{"text": "When does tin melt?"}]}],
        "model": f"models/{MODEL}",
    }
    assert sent(**PLACE)["model"] == f"{AGENT}/publishers/google/models/{MODEL}"


def test_a_later_turn_says_everything_again() -> None:
    question = question_of(
        {
            "id": "q",
            "turns": ["When?", {"text": "Why?", "system_instruction": "Be short."}],
            "system_instruction": "Be kind.",
            "facts": ["Tin melts."],
        }
    )
    first = json.loads(request_after(question, [], ""))
    assert first["systemInstruction"] == {"parts": [{"text": "Be kind."}]}
    [content] = first["contents"]
    assert [part["text"] for part in content["parts"]][1:] == ["When?"]
    second = json.loads(request_after(question, ["At 232."], ""))
    assert second["systemInstruction"] == {"parts": [{"text": "Be short."}]}
    assert [content["role"] for content in second["contents"]] == ["user", "model", "user"]
    assert second["contents"][0]["parts"] == [{"text": "When?"}]
    assert second["contents"][1]["parts"] == [{"text": "At 232."}]
    assert "[1] Tin melts." in second["contents"][2]["parts"][0]["text"]
    assert second["contents"][2]["parts"][1] == {"text": "Why?"}


def test_contents_in_either_spelling_and_chat_messages() -> None:
    history = [
        {"role": "user", "parts": {"text": "Hi."}},
        {"role": "model", "parts": [{"text": "Hello."}]},
        {"role": "user", "parts": [{"text": "When?"}]},
    ]
    expected = [{**history[0], "parts": [{"text": "Hi."}]}, *history[1:]]
    assert sent({"id": "q", "contents": history})["contents"] == expected
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "When?"}]
    body = sent({"id": "q", "messages": chat})
    assert body["contents"] == [{"role": "user", "parts": [{"text": "When?"}]}]
    assert body["systemInstruction"] == {"parts": [{"text": "Be kind."}]}


def test_the_generation_spec_becomes_the_configuration() -> None:
    spec = {
        "modelId": "models/gemini-3-pro",
        "temperature": "0.5",
        "top_p": 0.9,
        "topK": 40,
        "seed": 7.0,
        "max_output_tokens": 100,
        "frequency_penalty": 0.1,
        "presencePenalty": 0.2,
    }
    body = sent(asked(generation_spec=spec))
    assert body["model"] == "models/gemini-3-pro"
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "seed": 7,
        "maxOutputTokens": 100,
        "frequencyPenalty": 0.1,
        "presencePenalty": 0.2,
    }


def test_bought_throughput_is_a_header() -> None:
    spec = {"provisioned_throughput_setting": "PROVISIONED_THROUGHPUT_ONLY"}
    assert sent(asked(generation_spec=spec), **PLACE)["headers"] == {
        "X-Vertex-AI-LLM-Request-Type": "dedicated"
    }
    spec = {"provisioned_throughput_setting": "PAY_AS_YOU_GO_ONLY"}
    assert sent(asked(generation_spec=spec), **PLACE)["headers"] == {"X-Vertex-AI-LLM-Request-Type": "shared"}


def test_every_source_is_a_tool_and_several_may_stand_together() -> None:
    sources = [
        {
            "google_search_source": {
                "exclude_domains": ["a.example"],
                "blockingConfidence": "BLOCK_LOW_AND_ABOVE",
            }
        },
        {"enterpriseWebRetrievalSource": {}},
        {
            "search_source": {
                "serving_config": f"{ENGINE}/servingConfigs/s",
                "filter": "x",
                "max_result_count": 3,
            }
        },
        {"search_source": {"servingConfig": f"{STORE}/servingConfigs/s"}},
    ]
    body = sent(asked(grounding_sources=sources, user_labels={"team": "a"}), **PLACE)
    assert body["tools"] == [
        {"googleSearch": {"excludeDomains": ["a.example"], "blockingConfidence": "BLOCK_LOW_AND_ABOVE"}},
        {"enterpriseWebSearch": {}},
        {"retrieval": {"vertexAiSearch": {"engine": ENGINE, "filter": "x", "maxResults": 3}}},
        {"retrieval": {"vertexAiSearch": {"datastore": STORE}}},
    ]
    assert body["labels"] == {"team": "a"}
    spec = {"grounding_sources": [{"google_search_source": {}}]}
    assert sent(asked(grounding_spec=spec))["tools"] == [{"googleSearch": {}}]


def test_facts_are_numbered_under_an_instruction_that_stands_in_the_request() -> None:
    facts = ["Tin melts.", {"fact_text": "Lead, too.", "attributes": {"title": "Metals"}}]
    inline = {"inline_source": {"groundingFacts": ["Iron."], "attributes": {"title": "Iron"}}}
    body = sent(asked(facts=facts, grounding_sources=[inline]), facts_instruction="Use these:")
    [block, question] = body["contents"][-1]["parts"]
    assert block["text"] == "Use these:\n\n[1] Tin melts.\n[2] Metals: Lead, too.\n[3] Iron: Iron.\n\n"
    assert question == {"text": "When?"}
    service = service_of(GEMINI, "v1beta")
    question_sent = question_of(asked(facts=facts), facts_instruction="Use these:")
    request = request_after(question_sent, [], "")
    assert "Use these:" in service.asked(request).request_json
    assert service.text_characters(request, "generate") == service.text_characters(
        question_sent.request, "generate"
    )


def test_what_gemini_alone_has() -> None:
    own = {
        "googleMaps": {},
        "url_context": {},
        "rag_store": {"ragResources": [{"ragCorpus": "c"}]},
        "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "thinking": {"include_thoughts": True, "budget": 0, "level": "low"},
        "place": {"latitude": 47.4, "longitude": 8.5},
        "language": "de",
        "traffic": "flex",
        "candidate_count": 2,
        "stop_sequences": ["END"],
        "cached_content": "projects/p/cachedContents/1",
    }
    body = sent(asked(gemini=own), **PLACE)
    assert body["tools"] == [
        {"googleMaps": {}},
        {"retrieval": {"vertexRagStore": {"ragResources": [{"ragCorpus": "c"}]}}},
        {"urlContext": {}},
    ]
    assert body["safetySettings"] == own["safety_settings"]
    assert body["generationConfig"] == {
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 0, "thinkingLevel": "LOW"},
        "candidateCount": 2,
        "stopSequences": ["END"],
    }
    assert body["toolConfig"] == {"retrievalConfig": {"latLng": own["place"], "languageCode": "de"}}
    assert body["headers"] == {
        "X-Vertex-AI-LLM-Request-Type": "shared",
        "X-Vertex-AI-LLM-Shared-Request-Type": "flex",
    }
    assert body["cachedContent"] == own["cached_content"]
    assert sent(asked(gemini={"traffic": "flex"}))["serviceTier"] == "flex"


SEARCH = {"google_search_source": {}}


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"generation_spec": {"language_code": "de"}}, "NO_COUNTERPART", "system instruction"),
        ({"user_context": {"languageCode": "de"}}, "NO_COUNTERPART", "under gemini"),
        (
            {"grounding_sources": [{"google_search_source": {"dynamic_retrieval_config": {}}}]},
            "NO_COUNTERPART",
            "take",
        ),
        ({"user_labels": {"a": "b"}}, "NEEDS_AGENT_PLATFORM", "--location"),
        (
            {"grounding_sources": [{"enterprise_web_retrieval_source": {}}]},
            "NEEDS_AGENT_PLATFORM",
            "--location",
        ),
        (
            {"grounding_sources": [{"google_search_source": {"exclude_domains": ["a"]}}]},
            "NEEDS_AGENT_PLATFORM",
            "exclude_domains",
        ),
        (
            {"grounding_sources": [{"search_source": {"serving_config": ENGINE}}]},
            "NEEDS_AGENT_PLATFORM",
            "--location",
        ),
        ({"gemini": {"rag_store": {}}}, "NEEDS_AGENT_PLATFORM", "rag_store"),
        ({"gemini": {"function_declarations": []}}, "NOT_TAKEN", "take it out"),
        ({"gemini": {"code_execution": {}}}, "NOT_TAKEN", "take it out"),
        ({"gemini": {"external_api": {}}}, "NOT_TAKEN", "key"),
        ({"gemini": {"google_maps": {"authConfig": {"apiKeyConfig": {}}}}}, "KEY_IN_RECORD", "take it out"),
        ({"gemini": {"url_context": {"a": [{"api_key": "s"}]}}}, "KEY_IN_RECORD", "api_key"),
        ({"gemini": {"thinkng": {}}}, "UNKNOWN_FIELD", "did you mean thinking?"),
        ({"generation_spec": {"response_schema": {}}}, "UNKNOWN_FIELD", "it takes"),
        ({"gemini": {"place": {"latitude": 91, "longitude": 0}}}, "OUT_OF_RANGE", "-90 to 90"),
        ({"gemini": {"place": {"latitude": 1}}}, "MISSING_FIELD", "longitude"),
        ({"gemini": {"safety_settings": [{"category": "X"}]}}, "INVALID_ENUM", "HARM_CATEGORY"),
        ({"gemini": 7}, "WRONG_TYPE", "an object"),
        ({"generation_spec": {"temperature": "warm"}}, "WRONG_TYPE", "a number"),
        ({"generation_spec": {"max_output_tokens": 0}}, "OUT_OF_RANGE", "1"),
        ({"generation_spec": {"seed": 2**40}}, "OUT_OF_RANGE", "32 bits"),
        ({"generation_spec": {"model_id": "a/b"}}, "INVALID_MODEL", "gemini-2.5-flash"),
        ({"generation_spec": {"topP": 1, "top_p": 1}}, "DUPLICATE_FIELD", "top_p"),
        ({"grounding_sources": [SEARCH] * 11}, "TOO_MANY_SOURCES", "10"),
        ({"grounding_sources": [{}]}, "EMPTY_SOURCE", "inline_source"),
        (
            {"grounding_sources": [{**SEARCH, "inline_source": {"grounding_facts": ["x"]}}]},
            "ONEOF_CONFLICT",
            "split",
        ),
        ({"grounding_sources": [{"inline_source": {"grounding_facts": []}}]}, "EMPTY_SOURCE", "at least one"),
        ({"facts": [" "]}, "EMPTY_FACT", "facts[0]"),
        ({"facts": [{"fact_text": "x", "attributes": {"a": 1}}]}, "WRONG_TYPE", "attributes"),
        ({"grounding_sources": [], "grounding_spec": {}}, "TWO_GROUNDINGS", "keep one"),
        ({"system_instruction": " "}, "BLANK_SYSTEM_INSTRUCTION", "blank"),
        ({"system_instruction": 7}, "WRONG_TYPE", "a string or an object"),
    ],
)
def test_what_can_not_be_asked_is_refused_with_a_way_out(
    fields: dict[str, Any], code: str, says: str
) -> None:
    with pytest.raises(RecordError) as refused:
        question_of(asked(**fields))
    assert refused.value.code == code
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("contents", "code"),
    [
        ([], "NO_QUESTION"),
        ([{"role": "model", "parts": [{"text": "x"}]}], "LAST_NOT_USER"),
        ([{"parts": [{"text": "x"}]}, {"role": "user", "parts": [{"text": "y"}]}], "INVALID_ROLE"),
        ([{"role": "tool", "parts": [{"text": "x"}]}], "INVALID_ROLE"),
        ([{"role": "user", "parts": []}], "NO_TEXT"),
        ([{"role": "user", "parts": [{}]}], "NO_TEXT"),
        ([{"role": "user", "parts": [{"inlineData": {}}]}], "UNKNOWN_FIELD"),
        ([{"role": "user", "parts": [{"text": " "}]}], "BLANK_QUESTION"),
        ("When?", "WRONG_TYPE"),
    ],
)
def test_contents_that_can_not_be_asked(contents: object, code: str) -> None:
    record = {"id": "q", "contents": contents}
    with pytest.raises(RecordError) as refused:
        question_of(record)
    assert refused.value.code == code


def test_of_a_search_engine_only_what_maps_is_taken() -> None:
    for config, code in ((f"{ENGINE}/x/y", "INVALID_SERVING_CONFIG"), ("", "MISSING_SERVING_CONFIG")):
        with pytest.raises(RecordError) as refused:
            question_of(
                asked(grounding_sources=[{"search_source": {"serving_config": config}}]), api_version="v1"
            )
        assert refused.value.code == code
    safe = {"serving_config": ENGINE, "safe_search": True}
    with pytest.raises(RecordError, match="safe_search"):
        question_of(asked(grounding_sources=[{"search_source": safe}]), api_version="v1")


def defaults(**fields: Any) -> Any:
    return load_defaults(json.dumps(fields), "v1beta", GEMINI)


def test_a_record_goes_before_the_defaults_and_these_before_the_flag() -> None:
    below = defaults(
        generation_spec={"model_id": "gemini-from-defaults", "temperature": 1, "seed": 3},
        system_instruction="Be kind.",
        facts=["A fact."],
        gemini={"language": "de", "google_maps": {}},
    )
    body = sent(defaults=below, model="gemini-from-flag")
    assert body["model"] == "models/gemini-from-defaults"
    assert "[1] A fact." in body["contents"][0]["parts"][0]["text"]
    record = asked(
        generation_spec={"model_id": "gemini-from-record", "temperature": 0},
        system_instruction="Be short.",
        grounding_sources=[{"google_search_source": {}}],
        gemini={"google_maps": {"groundingTypes": {}}, "place": {"latitude": 1, "longitude": 2}},
    )
    body = sent(record, defaults=below, model="gemini-from-flag")
    assert body["model"] == "models/gemini-from-record"
    assert body["generationConfig"] == {"temperature": 0, "seed": 3}
    assert body["systemInstruction"] == {"parts": [{"text": "Be short."}]}
    assert body["contents"][0]["parts"] == [{"text": "When?"}]
    assert body["tools"] == [{"googleSearch": {}}, {"googleMaps": {"groundingTypes": {}}}]
    assert body["toolConfig"]["retrievalConfig"] == {
        "languageCode": "de",
        "latLng": {"latitude": 1, "longitude": 2},
    }
    assert "tools" not in sent(asked(grounding_sources=[]), defaults=defaults(grounding_sources=[SEARCH]))


def test_without_a_model_nothing_is_asked() -> None:
    with pytest.raises(ValueError, match="give --model=NAME"):
        question_of(model=None)
    named = defaults(generation_spec={"model_id": MODEL})
    assert sent(model=None, defaults=named)["model"] == f"models/{MODEL}"


def test_defaults_say_where_a_field_belongs() -> None:
    with pytest.raises(ValueError, match="belongs inside gemini"):
        defaults(thinking={})
    with pytest.raises(ValueError, match="belongs inside generation_spec"):
        defaults(temperature=1)


def test_the_same_record_is_the_same_request_whatever_the_order_of_its_keys() -> None:
    fields = asked(gemini={"language": "de", "traffic": "flex"}, generation_spec={"seed": 1, "top_p": 0.5})
    turned = dict(reversed(fields.items()))
    assert question_of(fields).request == question_of(turned).request
