"""Grounding sources from records and from the defaults: what goes out is what was written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.transforms.generate.calling.conversation import turn_request

LOCATION = "projects/p/locations/global"
ENGINES = "projects/p/locations/global/collections/c/engines"


def wire(fields: dict[str, Any], defaults: dict[str, Any] | None = None, api_version: Any = "v1") -> Any:
    """The message that goes out for a record with these fields."""
    loaded = None if defaults is None else load_defaults(json.dumps(defaults), api_version)
    settings = RecordSettings(defaults=loaded, api_version=api_version, transport="rest")
    question = parse_question(Record(json.dumps({"question": "Why?", **fields}).encode(), ""), settings)
    return request_class(api_version).FromString(turn_request(question, (), LOCATION))


def both_ways(sources: list[Any], api_version: Any = "v1") -> list[Any]:
    """The sources that go out, the same from a record, from its grounding spec and from the defaults."""
    sent = wire({"grounding_sources": sources}, None, api_version).grounding_spec
    assert wire({"groundingSpec": {"groundingSources": sources}}, None, api_version).grounding_spec == sent
    assert wire({}, {"grounding_sources": sources}, api_version).grounding_spec == sent
    assert wire({}, {"grounding_spec": {"groundingSources": sources}}, api_version).grounding_spec == sent
    return list(sent.grounding_sources)


def inline(*texts: str) -> dict[str, Any]:
    return {"inline_source": {"grounding_facts": [{"fact_text": text} for text in texts]}}


def search(engine: str, **fields: Any) -> dict[str, Any]:
    return {"search_source": {"serving_config": f"{ENGINES}/{engine}/servingConfigs/s", **fields}}


def names(sources: list[Any]) -> list[str]:
    """What each source is, in few words."""
    return [
        "+".join(fact.fact_text for fact in source.inline_source.grounding_facts)
        if source.WhichOneof("source") == "inline_source"
        else source.search_source.serving_config.split("/")[-3]
        for source in sources
    ]


def test_sources_keep_their_order() -> None:
    mixed = [inline("a", "b"), search("x"), inline("c"), search("y"), search("x")]
    assert names(both_ways(mixed)) == ["a+b", "x", "c", "y", "x"]
    # `facts` are the first source, and count as one.
    assert names(list(wire({"facts": ["f"], "grounding_sources": mixed}).grounding_spec.grounding_sources)) == [
        "f", "a+b", "x", "c", "y", "x",
    ]  # fmt: skip


def test_ten_sources_in_the_order_of_the_guide() -> None:
    sources = [
        *(inline(*[f"{number}"] * 100) for number in range(3)),
        *(search(f"e{n}") for n in range(6)),
        inline("last"),
    ]
    sent = both_ways(sources)
    assert [source.WhichOneof("source") for source in sent] == [
        *["inline_source"] * 3,
        *["search_source"] * 6,
        "inline_source",
    ]
    assert [len(source.inline_source.grounding_facts) for source in sent] == [100] * 3 + [0] * 6 + [1]
    for one_more in (inline("more"), search("more")):
        with pytest.raises(RecordError, match="TOO_MANY_SOURCES"):
            wire({"grounding_sources": [*sources, one_more]})
        with pytest.raises(ValueError, match="11 sources"):
            wire({}, {"grounding_sources": [*sources, one_more]})


def test_attributes_on_facts_and_on_the_source() -> None:
    fact = {"fact_text": "f", "attributes": {"title": "T", "uri": "u", "author": "A", "any_Key": ""}}
    (source,) = both_ways(
        [{"inline_source": {"grounding_facts": [fact, {"fact_text": "g"}], "attributes": {"source": "S"}}}]
    )
    assert dict(source.inline_source.attributes) == {"source": "S"}
    first, second = source.inline_source.grounding_facts
    assert dict(first.attributes) == fact["attributes"]
    assert not second.attributes


def test_a_search_as_written() -> None:
    sent = both_ways(
        [
            search("x"),
            search("y", max_result_count=1, filter='a: ANY("b")', safe_search=True),
            search("z", maxResultCount=10, safeSearch=False),
        ]
    )
    assert [
        (s.search_source.max_result_count, s.search_source.filter, s.search_source.safe_search) for s in sent
    ] == [(0, "", False), (1, 'a: ANY("b")', True), (10, "", False)]


def test_dynamic_retrieval_is_sent_as_written() -> None:
    """Without a config every answer is grounded, without a threshold the service's own holds, 0 grounds all."""

    def google(given: dict[str, Any], **defaults: Any) -> tuple[bool, bool, float | None, bytes]:
        (source,) = both_ways([{"google_search_source": given}])
        assert source.WhichOneof("source") == "google_search_source"
        search_source = source.google_search_source
        config = search_source.dynamic_retrieval_config
        predictor = config.predictor
        return (
            search_source.HasField("dynamic_retrieval_config"),
            config.HasField("predictor"),
            predictor.threshold if predictor.HasField("threshold") else None,
            source.SerializeToString(),
        )

    absent = google({})
    empty = google({"dynamic_retrieval_config": {}})
    no_threshold = google({"dynamic_retrieval_config": {"predictor": {}}})
    zero = google({"dynamicRetrievalConfig": {"predictor": {"threshold": 0}}})
    some = google({"dynamicRetrievalConfig": {"predictor": {"threshold": 0.5, "version": "V1_INDEPENDENT"}}})
    assert [each[:3] for each in (absent, empty, no_threshold, zero, some)] == [
        (False, False, None),
        (True, False, None),
        (True, True, None),
        (True, True, 0.0),
        (True, True, 0.5),
    ]
    assert len({each[3] for each in (absent, empty, no_threshold, zero, some)}) == 5
    assert google({"dynamic_retrieval_config": None}) == absent


def test_the_defaults_config_gives_way_to_a_record_without_one() -> None:
    configured = {"google_search_source": {"dynamic_retrieval_config": {"predictor": {"threshold": 0.5}}}}
    sent = wire({"grounding_sources": [{"google_search_source": {}}]}, {"grounding_sources": [configured]})
    (source,) = sent.grounding_spec.grounding_sources
    assert not source.google_search_source.HasField("dynamic_retrieval_config")


@pytest.mark.parametrize("spelling", ["enterprise_web_retrieval_source", "enterpriseWebRetrievalSource"])
@pytest.mark.parametrize("api_version", ["v1", "v1beta", "v1alpha"])
def test_enterprise_web_retrieval(spelling: str, api_version: str) -> None:
    (source,) = both_ways([{spelling: {}}], api_version)
    assert source.WhichOneof("source") == "enterprise_web_retrieval_source"


V1BETA = {
    "exclude_domains of Google": {"google_search_source": {"exclude_domains": ["a.org", "b.net"]}},
    "blocking_confidence of Google": {
        "googleSearchSource": {"blockingConfidence": "BLOCK_ONLY_EXTREMELY_HIGH"}
    },
    "exclude_domains of the web": {"enterpriseWebRetrievalSource": {"excludeDomains": ["a.org"]}},
    "blocking_confidence of the web": {"enterprise_web_retrieval_source": {"blocking_confidence": 40}},
}


def test_v1beta_fields_go_out_on_v1beta() -> None:
    def sent(name: str) -> Any:
        (source,) = both_ways([V1BETA[name]], "v1beta")
        return getattr(source, source.WhichOneof("source"))

    assert list(sent("exclude_domains of Google").exclude_domains) == ["a.org", "b.net"]
    assert sent("blocking_confidence of Google").blocking_confidence == 100
    assert list(sent("exclude_domains of the web").exclude_domains) == ["a.org"]
    assert sent("blocking_confidence of the web").blocking_confidence == 40
    spec = {"generation_spec": {"provisioned_throughput_setting": "PROVISIONED_THROUGHPUT_ONLY"}}
    assert wire(spec, None, "v1beta").generation_spec.provisioned_throughput_setting == 1
    assert wire({}, spec, "v1beta").generation_spec.provisioned_throughput_setting == 1


@pytest.mark.parametrize("api_version", ["v1", "v1alpha"])
@pytest.mark.parametrize(
    "fields",
    [
        *({"grounding_sources": [source]} for source in V1BETA.values()),
        {"generationSpec": {"provisionedThroughputSetting": 2}},
        {"generation_spec": {"provisioned_throughput_setting": 0}},
    ],
)
def test_v1beta_fields_fail_elsewhere(fields: dict[str, Any], api_version: str) -> None:
    with pytest.raises(RecordError, match=r"NEEDS_V1BETA: .*give --api_version=v1beta"):
        wire(fields, None, api_version)
    with pytest.raises(ValueError, match="give --api_version=v1beta"):
        wire({}, fields, api_version)


def test_v1alpha_sends_v1s_message() -> None:
    fields = {"facts": ["f"], "generation_spec": {"seed": 0}, "user_labels": {"a": "b"}}
    assert wire(fields, None, "v1alpha") == wire(fields)
