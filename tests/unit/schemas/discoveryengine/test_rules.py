"""Each rule of the service at its very edge: the last value that passes, and the first that does not."""

import json
from typing import Any

import pytest

from groundrows.schemas.discoveryengine import rules
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record

CONFIG = {"serving_config": "projects/p/locations/global/collections/c/engines/e/servingConfigs/s"}
SEARCH = {"search_source": CONFIG}


def ask(**fields: Any) -> Question:
    return parse_question(Record(json.dumps({"question": "Why?", **fields}).encode(), ""), RecordSettings())


def code(**fields: Any) -> str | None:
    try:
        ask(**fields)
    except RecordError as error:
        return error.code
    return None


def inline(count: int, text: str = "f") -> dict[str, Any]:
    return {"inline_source": {"grounding_facts": [{"fact_text": text}] * count}}


def google(threshold: object) -> dict[str, Any]:
    return {"google_search_source": {"dynamic_retrieval_config": {"predictor": {"threshold": threshold}}}}


@pytest.mark.parametrize(
    ("passes", "fails", "expected"),
    [
        ({"grounding_sources": [SEARCH] * 10}, {"grounding_sources": [SEARCH] * 11}, "TOO_MANY_SOURCES"),
        (
            {"facts": ["f"], "grounding_sources": [SEARCH] * 9},
            {"facts": ["f"], "grounding_sources": [SEARCH] * 10},
            "TOO_MANY_SOURCES",
        ),
        ({"facts": ["f"] * 100}, {"facts": ["f"] * 101}, "TOO_MANY_FACTS"),
        ({"grounding_sources": [inline(100)] * 10}, {"grounding_sources": [inline(101)]}, "TOO_MANY_FACTS"),
        ({"facts": ["😀" * 10_000]}, {"facts": ["😀" * 10_001]}, "FACT_TOO_LONG"),
        ({"grounding_sources": [google(0)]}, {"grounding_sources": [google(-1e-9)]}, "OUT_OF_RANGE"),
        ({"grounding_sources": [google(1)]}, {"grounding_sources": [google(1.000001)]}, "OUT_OF_RANGE"),
        (
            {"grounding_sources": [{"search_source": CONFIG | {"max_result_count": 1}}]},
            {"grounding_sources": [{"search_source": CONFIG | {"max_result_count": 0}}]},
            "OUT_OF_RANGE",
        ),
        (
            {"grounding_sources": [{"search_source": CONFIG | {"max_result_count": 10}}]},
            {"grounding_sources": [{"search_source": CONFIG | {"max_result_count": 11}}]},
            "OUT_OF_RANGE",
        ),
        ({"generation_spec": {"seed": 2**31 - 1}}, {"generation_spec": {"seed": 2**31}}, "OUT_OF_RANGE"),
        (
            {"generation_spec": {"top_k": -(2**31)}},
            {"generation_spec": {"top_k": -(2**31) - 1}},
            "OUT_OF_RANGE",
        ),
        ({"generation_spec": {"top_p": 3.4e38}}, {"generation_spec": {"top_p": 3.5e38}}, "OUT_OF_RANGE"),
        (
            {"user_labels": {f"k{i}": "" for i in range(64)}},
            {"user_labels": {f"k{i}": "" for i in range(65)}},
            "TOO_MANY_LABELS",
        ),
        ({"user_labels": {"k" * 63: "v" * 63}}, {"user_labels": {"k" * 64: "v"}}, "INVALID_LABEL"),
        ({"user_labels": {"k": "é" * 63}}, {"user_labels": {"k": "é" * 64}}, "INVALID_LABEL"),
        ({"id": "x" * 1000}, {"id": "x" * 1001}, "INVALID_ID"),
    ],
)
def test_limits(passes: dict[str, Any], fails: dict[str, Any], expected: str) -> None:
    assert code(**passes) is None
    assert code(**fails) == expected


def test_the_largest_record_the_rules_allow_is_no_larger_than_what_is_read() -> None:
    fields = {"question": "Why?", "grounding_sources": [inline(100, "😀" * 9_990)] * 10}
    body = json.dumps(fields, ensure_ascii=False).encode()
    question = parse_question(Record(body, ""), RecordSettings())
    assert len(question.request) > 39_960_000


@pytest.mark.parametrize("key", ["a", "a-b_c9", "é", "ж1", "部門", "हिन्दी", "ªa"])
def test_label_keys_that_pass(key: str) -> None:
    assert code(user_labels={key: key}) is None


@pytest.mark.parametrize(
    "key", ["", "A", "9a", "_a", "-a", "Ж", "a.b", "a b", "a/b", "a\u0000", "😀", "aǅ", "\u0301a"]
)
def test_label_keys_that_fail(key: str) -> None:
    assert code(user_labels={key: ""}) == "INVALID_LABEL"


@pytest.mark.parametrize("value", ["", "9a", "_a", "-", "é", "٣"])
def test_label_values_that_pass(value: str) -> None:
    assert code(user_labels={"k": value}) is None


@pytest.mark.parametrize("value", ["A", "a.b", "a b", "É", "😀", "\n", "a\n", None, 1, True, ["a"]])
def test_label_values_that_fail(value: object) -> None:
    assert code(user_labels={"k": value}) == "INVALID_LABEL"


@pytest.mark.parametrize(
    "sources", [[SEARCH, inline(1)], [{"enterprise_web_retrieval_source": {}}, SEARCH], [SEARCH] * 3]
)
def test_other_sources_mix(sources: list[Any]) -> None:
    assert code(grounding_sources=sources) is None


def test_google_search_stands_alone_wherever_it_stands() -> None:
    for sources in ([google(1), SEARCH], [SEARCH, google(1)], [inline(1), SEARCH, google(1)]):
        assert code(grounding_sources=sources) == "GOOGLE_SEARCH_NOT_ALONE"
    assert code(grounding_sources=[google(1)]) is None


def message_types(descriptor: Any) -> dict[str, set[str]]:
    found = {descriptor.name: {field.name for field in descriptor.fields}}
    for field in descriptor.fields:
        if field.message_type is not None:
            found |= message_types(field.message_type)
    return found


def test_what_v1beta_adds_is_what_the_library_says() -> None:
    added = set()
    for method in ("generate", "check"):
        v1, v1beta = (
            message_types(request_class(version, method).DESCRIPTOR) for version in ("v1", "v1beta")
        )
        added |= {(name, field) for name, fields in v1beta.items() for field in fields - v1[name]}
    assert added == rules.V1BETA_ONLY


def test_every_range_belongs_to_one_field_alone() -> None:
    for name in rules.RANGES:
        types = {
            type_name: fields
            for method in ("generate", "check")
            for type_name, fields in message_types(request_class("v1beta", method).DESCRIPTOR).items()
        }
        assert sum(name in fields for fields in types.values()) == 1


def test_what_nobody_documents_is_left_to_the_service() -> None:
    spec = {
        "model_id": "a-model-of-next-year",
        "language_code": "tlh",
        "temperature": 7,
        "max_output_tokens": -1,
    }
    assert code(generation_spec=spec) is None
