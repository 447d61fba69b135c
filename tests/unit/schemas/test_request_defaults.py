import json
from typing import Any

import pytest

from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import RecordSettings, parse_question
from groundrows.schemas.record import Record
from tests.support.request_json import request_json

SEARCH = {"searchSource": {"servingConfig": "s"}}
GOOGLE = {"googleSearchSource": {}}


def sent(fields: dict[str, Any], defaults: dict[str, Any], **given: Any) -> dict[str, Any]:
    loaded = load_defaults(json.dumps(defaults), given.get("api_version", "v1"))
    settings = RecordSettings(defaults=loaded, **given)
    question = parse_question(Record(json.dumps({"question": "Why?", **fields}).encode(), ""), settings)
    request = json.loads(request_json(question.request, question.api_version))
    assert request.pop("contents") == [{"role": "user", "parts": [{"text": "Why?"}]}]
    return request


def test_defaults_lie_under_every_record() -> None:
    defaults = {
        "systemInstruction": {"parts": {"text": "Be brief."}},
        "generationSpec": {"modelId": "m", "temperature": 0.0},
        "groundingSpec": {"groundingSources": [GOOGLE]},
        "userLabels": {"team": "a"},
    }
    expected = defaults | {"systemInstruction": {"parts": [{"text": "Be brief."}]}}
    assert sent({}, defaults) == expected
    assert sent({}, {}) == {}


def test_generation_specs_merge_field_by_field() -> None:
    defaults = {"generation_spec": {"model_id": "m", "temperature": 0.5, "seed": 7}}
    merged = sent({"generation_spec": {"temperature": 0, "topK": 3, "seed": None}}, defaults)
    assert merged == {"generationSpec": {"modelId": "m", "temperature": 0.0, "topK": 3, "seed": 7}}


@pytest.mark.parametrize("defaults", [{"grounding_sources": [GOOGLE]}, {"facts": ["old"]}])
@pytest.mark.parametrize(
    ("fields", "sources"),
    [
        ({"facts": ["new"]}, [{"inlineSource": {"groundingFacts": [{"factText": "new"}]}}]),
        ({"grounding_sources": [SEARCH, SEARCH]}, [SEARCH, SEARCH]),
        ({"groundingSpec": {"groundingSources": [SEARCH]}}, [SEARCH]),
        (
            {"facts": ["new"], "grounding_sources": [SEARCH]},
            [{"inlineSource": {"groundingFacts": [{"factText": "new"}]}}, SEARCH],
        ),
    ],
)
def test_sources_of_a_record_replace_those_of_the_defaults(
    defaults: dict[str, Any], fields: dict[str, Any], sources: list[Any]
) -> None:
    assert sent(fields, defaults) == {"groundingSpec": {"groundingSources": sources}}


def test_an_empty_list_of_sources_asks_without_any() -> None:
    defaults = {"grounding_sources": [GOOGLE]}
    assert sent({"grounding_sources": []}, defaults) == {"groundingSpec": {}}
    assert sent({"grounding_spec": {"grounding_sources": []}}, defaults) == {"groundingSpec": {}}


def test_a_grounding_spec_that_names_no_sources_keeps_those_of_the_defaults() -> None:
    assert sent({"grounding_spec": {}}, {"grounding_sources": [GOOGLE]}) == {
        "groundingSpec": {"groundingSources": [GOOGLE]}
    }


def test_labels_merge_by_key() -> None:
    merged = sent({"user_labels": {"b": "new", "c": ""}}, {"user_labels": {"a": "1", "b": "old"}})
    assert merged == {"userLabels": {"a": "1", "b": "new", "c": ""}}


def test_labels_are_counted_together() -> None:
    defaults = {"user_labels": {f"a{i}": "" for i in range(60)}}
    assert len(sent({"user_labels": {f"b{i}": "" for i in range(4)}}, defaults)["userLabels"]) == 64
    with pytest.raises(RecordError, match="TOO_MANY_LABELS"):
        sent({"user_labels": {f"b{i}": "" for i in range(5)}}, defaults)


def test_a_system_instruction_replaces() -> None:
    defaults = {"system_instruction": {"role": "user", "parts": [{"text": "Be brief."}]}}
    assert sent({"system_instruction": "Be long."}, defaults) == {
        "systemInstruction": {"parts": [{"text": "Be long."}]}
    }


def test_one_record_leaves_the_next_alone() -> None:
    settings = RecordSettings(
        defaults=load_defaults('{"generation_spec": {"seed": 1}, "user_labels": {"a": "b"}}', "v1")
    )
    plain = Record(b'{"question": "Why?"}', "")
    before = parse_question(plain, settings)
    parse_question(
        Record(
            b'{"question": "q", "generation_spec": {"seed": 2}, "user_labels": {"a": "c"}, "facts": ["f"]}',
            "",
        ),
        settings,
    )
    assert parse_question(plain, settings) == before


def test_the_user_context_of_the_defaults() -> None:
    defaults = load_defaults('{"user_context": {"languageCode": "fr"}}', "v1")
    with pytest.raises(ValueError, match="--transport=rest"):
        RecordSettings(defaults=defaults)
    settings = RecordSettings(defaults=defaults, transport="rest")
    assert parse_question(Record(b'{"question": "q"}', ""), settings).user_context == '{"languageCode":"fr"}'
    own = Record(b'{"question": "q", "user_context": {"a": 1}}', "")
    assert parse_question(own, settings).user_context == '{"a":1}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("[]", "a list"),
        ("{", "valid JSON"),
        ('{"generation_spec": {}, "generation_spec": {}}', "twice"),
        (json.dumps({"grounding_sources": [SEARCH] * 11}), "11 sources"),
        ('{"facts": []}', "facts is empty"),
        (json.dumps({"facts": ["a"] * 101}), "101 facts"),
        ('{"facts": ["a"], "grounding_sources": [{"google_search_source": {}}]}', "only source"),
        (
            '{"groundingSpec": {"groundingSources": [{"googleSearchSource": {"dynamicRetrievalConfig": {"predictor": {"threshold": 2}}}}]}}',
            r"threshold is 2: .* 0 to 1",
        ),
        ('{"generationSpec": {"temperature": "hot"}}', "generation_spec.temperature is a string"),
        ('{"user_labels": {"A": "b"}}', "`A`"),
        ('{"user_context": 1}', "user_context is a whole number"),
        ('{"system_instruction": ""}', "blank"),
        (r'{"system_instruction": "\ud83d"}', "surrogate"),
        ('{"system_instruction": "\ud83d"}', "UTF-8"),
        ('{"question": "Why?"}', "`question` belongs in each record"),
        ('{"location": "projects/p/locations/l"}', "--location"),
        ('{"model_id": "m"}', "inside generation_spec"),
        ('{"topK": 1}', "inside generation_spec"),
        ('{"generationspecs": {}}', "did you mean generation_spec"),
        ('{"zzz": {}}', "it takes facts, generation_spec"),
        ('{"userLabels": {}, "user_labels": {}}', "keep one"),
        ('{"generation_spec": {"provisioned_throughput_setting": 1}}', "v1beta"),
    ],
)
def test_defaults_that_no_record_could_use_are_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        load_defaults(text, "v1")
    assert str(caught.value).startswith("--request_defaults can't be used: ")
    assert "\n" not in str(caught.value)
    assert "record is" not in str(caught.value)


def test_defaults_of_v1beta_know_its_fields() -> None:
    source = {"googleSearchSource": {"excludeDomains": ["a.org"]}}
    assert sent({}, {"grounding_sources": [source]}, api_version="v1beta") == {
        "groundingSpec": {"groundingSources": [source]}
    }
