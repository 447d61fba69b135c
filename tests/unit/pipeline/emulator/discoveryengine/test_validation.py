from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from groundrows.pipeline.emulator.discoveryengine.messages import CheckRequest, Origin
from groundrows.pipeline.emulator.discoveryengine.validation import MAX_ANSWER_CHARACTERS, violations

LOCATION = "projects/p/locations/global"
ROUTING = f"location={LOCATION}"
CONFIG = f"{LOCATION}/groundingConfigs/c"
UNARY = Origin("GenerateGroundedContent", "v1", "grpc")
STREAM = Origin("StreamGenerateGroundedContent", "v1beta", "grpc")
REST = Origin("GenerateGroundedContent", "v1alpha", "rest")
CHECK = Origin("CheckGrounding", "v1", "grpc")


@pytest.mark.parametrize(
    "routing", [ROUTING, f"location={quote(LOCATION, safe='')}", f"other=1&{ROUTING}", f"{ROUTING}&other="]
)
def test_a_right_request_passes_with_an_encoded_or_plain_routing_header(
    ask: Callable[..., Any], routing: str
) -> None:
    request = ask("First?", "Yes.", "Second?", facts=("A fact.",))
    request.user_labels["team_1-ä"] = ""
    request.user_labels["k" * 63] = "v" * 63
    assert violations(UNARY, request, routing) == []


@pytest.mark.parametrize(
    "routing", [None, "", "location=", "location=projects/q/locations/global", "nonsense"]
)
def test_the_routing_header_must_name_the_location(ask: Callable[..., Any], routing: str | None) -> None:
    [(field, said)] = violations(UNARY, ask("Why?"), routing)
    assert field == "location"
    assert "x-goog-request-params" in said


def change(request: Any, what: str) -> None:
    sources = request.grounding_spec.grounding_sources
    if what == "no location":
        request.ClearField("location")
    elif what == "short location":
        request.location = "projects/p"
    elif what == "long location":
        request.location = "projects/p/locations/global/x"
    elif what == "no contents":
        request.ClearField("contents")
    elif what == "empty text":
        request.contents[0].parts[0].text = " \n"
    elif what == "no parts":
        request.contents[0].ClearField("parts")
    elif what == "odd role":
        request.contents[0].role = "system"
    elif what == "unset role among others":
        request.contents[0].role = ""
        request.contents.add(role="user").parts.add(text="More?")
    elif what == "no user":
        request.contents[0].role = "model"
    elif what == "model last":
        request.contents.add(role="model").parts.add(text="Because.")
    elif what == "user twice":
        request.contents.add(role="user").parts.add(text="Why not?")
    elif what == "eleven sources":
        for _ in range(10):
            sources.add().inline_source.SetInParent()
    elif what == "an unset source":
        sources.add()
    elif what == "google beside another":
        sources.add().google_search_source.SetInParent()
    elif what == "101 facts":
        for _ in range(100):
            sources[0].inline_source.grounding_facts.add(fact_text="x")
    elif what == "a long fact":
        sources[0].inline_source.grounding_facts[0].fact_text = "é" * 10_001
    elif what == "search without a config":
        sources.add().search_source.SetInParent()
    elif what == "eleven results":
        sources.add().search_source.serving_config = "c"
        sources[-1].search_source.max_result_count = 11
    elif what.startswith("threshold "):
        sources[0].google_search_source.dynamic_retrieval_config.predictor.threshold = float(what.split()[1])
    elif what == "65 labels":
        request.user_labels.update({f"k{i}": "" for i in range(65)})
    elif what.startswith("label "):
        request.user_labels[what.removeprefix("label ")] = ""
    elif what.startswith("value "):
        request.user_labels["k"] = what.removeprefix("value ")


@pytest.mark.parametrize(
    ("what", "field"),
    [
        ("no location", "location"),
        ("short location", "location"),
        ("long location", "location"),
        ("no contents", "contents"),
        ("empty text", "contents[0].parts"),
        ("no parts", "contents[0].parts"),
        ("odd role", "contents[0].role"),
        ("unset role among others", "contents[0].role"),
        ("no user", "contents"),
        ("model last", "contents"),
        ("user twice", "contents[1].role"),
        ("eleven sources", "grounding_spec.grounding_sources"),
        ("an unset source", "grounding_spec.grounding_sources[1]"),
        ("google beside another", "grounding_spec.grounding_sources"),
        ("101 facts", "grounding_spec.grounding_sources[0].inline_source.grounding_facts"),
        ("a long fact", "grounding_spec.grounding_sources[0].inline_source.grounding_facts[0].fact_text"),
        ("search without a config", "grounding_spec.grounding_sources[1].search_source.serving_config"),
        ("eleven results", "grounding_spec.grounding_sources[1].search_source.max_result_count"),
        ("threshold -0.1", "threshold"),
        ("threshold 1.1", "threshold"),
        ("threshold nan", "threshold"),
        ("65 labels", "user_labels"),
        ("label " + "k" * 64, "user_labels"),
        ("label ", "user_labels"),
        ("label Team", "user_labels"),
        ("label 1team", "user_labels"),
        ("label te am", "user_labels"),
        ("value A", "user_labels['k']"),
        ("value " + "v" * 64, "user_labels['k']"),
    ],
)
def test_what_the_service_refuses_is_refused_once_and_named(
    ask: Callable[..., Any], what: str, field: str
) -> None:
    request = ask("Why?", facts=("A fact.",))
    assert violations(UNARY, request, ROUTING) == []
    change(request, what)
    found = violations(UNARY, request, ROUTING)
    assert len(found) == 1
    assert field in found[0][0]


def test_the_edges_are_accepted(ask: Callable[..., Any]) -> None:
    request = ask("Why?", facts=("é" * 10_000,) + ("x",) * 99)
    for _ in range(9):
        request.grounding_spec.grounding_sources.add().inline_source.SetInParent()
    request.user_labels.update({f"k{i}": "" for i in range(64)})
    assert violations(UNARY, request, ROUTING) == []
    for threshold in (0.0, 1.0):
        request = ask("Why?")
        source = request.grounding_spec.grounding_sources.add().google_search_source
        source.dynamic_retrieval_config.predictor.threshold = threshold
        assert violations(UNARY, request, ROUTING) == []
    request = ask("Why?")
    request.contents[0].role = ""
    assert violations(UNARY, request, ROUTING) == []


def test_every_fault_of_a_request_is_told_at_once(ask: Callable[..., Any]) -> None:
    request = ask("")
    request.location = "here"
    request.user_labels["A"] = "B"
    assert [field for field, _ in violations(UNARY, request, None)] == [
        "location",
        "contents[0].parts",
        "user_labels['A']",
        "user_labels['A']",
    ]


@pytest.mark.parametrize("routing", [None, "", "location=", "other=1"])
def test_a_stream_and_rest_need_no_routing_header(ask: Callable[..., Any], routing: str | None) -> None:
    assert violations(STREAM, ask("Why?"), routing) == []
    assert violations(REST, ask("Why?"), routing) == []


def test_a_streams_routing_header_must_not_lead_elsewhere(ask: Callable[..., Any]) -> None:
    [(field, _)] = violations(STREAM, ask("Why?"), "location=projects/q/locations/global")
    assert field == "location"
    assert violations(STREAM, ask("Why?"), ROUTING) == []


def check_request(**fields: Any) -> Any:
    return CheckRequest(**{"grounding_config": CONFIG, "answer_candidate": "It is so.", **fields})


def spec(**fields: Any) -> dict[str, Any]:
    return {"grounding_spec": fields}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"facts": [{"fact_text": "é" * 10_000}] * 200},
        {"answer_candidate": "word " * 4096},
        {"answer_candidate": "x" * MAX_ANSWER_CHARACTERS},
        spec(citation_threshold=0.0),
        spec(citation_threshold=1.0),
    ],
)
def test_the_edges_of_a_check_are_accepted(fields: dict[str, Any]) -> None:
    assert violations(CHECK, check_request(**fields), f"grounding_config={CONFIG}") == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"grounding_config": ""}, "grounding_config"),
        ({"grounding_config": LOCATION}, "grounding_config"),
        ({"grounding_config": f"{CONFIG}/x"}, "grounding_config"),
        ({"answer_candidate": " \n"}, "answer_candidate"),
        ({"answer_candidate": "word " * 4097}, "answer_candidate"),
        ({"answer_candidate": "山" * 4097}, "answer_candidate"),
        # A single word by count, but nothing so long is counted.
        ({"answer_candidate": "x" * (MAX_ANSWER_CHARACTERS + 1)}, "answer_candidate"),
        ({"facts": [{"fact_text": "x"}] * 201}, "facts"),
        ({"facts": [{"fact_text": "x"}, {"fact_text": "é" * 10_001}]}, "facts[1].fact_text"),
        (spec(citation_threshold=-0.1), "grounding_spec.citation_threshold"),
        (spec(citation_threshold=1.1), "grounding_spec.citation_threshold"),
        (spec(citation_threshold=float("nan")), "grounding_spec.citation_threshold"),
        ({"user_labels": {"A": ""}}, "user_labels['A']"),
    ],
)
def test_what_is_wrong_with_a_check_is_named(fields: dict[str, Any], field: str) -> None:
    request = check_request(**fields)
    [(named, _)] = violations(CHECK, request, f"grounding_config={request.grounding_config}")
    assert named == field


@pytest.mark.parametrize(
    "routing", [None, "", ROUTING, f"grounding_config={LOCATION}/groundingConfigs/other"]
)
def test_a_checks_routing_header_must_name_its_config(routing: str | None) -> None:
    [(field, said)] = violations(CHECK, check_request(), routing)
    assert field == "grounding_config"
    assert "x-goog-request-params" in said
