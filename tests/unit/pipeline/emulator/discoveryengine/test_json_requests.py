from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.emulator.calls import Received, Refusal
from groundrows.pipeline.emulator.discoveryengine.json_requests import read_json
from groundrows.pipeline.emulator.discoveryengine.messages import Origin
from tests.support.emulator_clients import CONFIG, LOCATION, body_of

BETA = Origin("GenerateGroundedContent", "v1beta", "rest")
V1 = Origin("GenerateGroundedContent", "v1", "rest")
ALPHA = Origin("GenerateGroundedContent", "v1alpha", "rest")
STREAM = Origin("StreamGenerateGroundedContent", "v1", "rest")
CHECK = Origin("CheckGrounding", "v1", "rest")


def read(origin: Origin, body: object) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    bound = {"grounding_config": CONFIG} if origin is CHECK else {"location": LOCATION}
    received = read_json(origin, data, bound)
    return received if isinstance(received, Refusal) else received.request


def violations_of(origin: Origin, body: object) -> list[tuple[str, str]]:
    refusal = read(origin, body)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "INVALID_ARGUMENT"
    details = error_details_pb2.BadRequest()
    [packed] = status_pb2.Status.FromString(refusal.details).details
    assert packed.Unpack(details)
    assert all(entry.description in refusal.message for entry in details.field_violations)
    return [(entry.field, entry.description) for entry in details.field_violations]


def test_reads_what_the_library_reads_and_adds_the_path() -> None:
    body = body_of(
        "Why?",
        systemInstruction={"parts": [{"text": "Be brief."}]},
        generation_spec={"modelId": "default", "temperature": 0.5, "top_k": "40", "seed": 7.0},
        userLabels={"team": "research"},
    )
    wanted = json_format.ParseDict(body | {"location": LOCATION}, BETA.request_class())
    assert read(BETA, body) == wanted
    assert read(V1, body).generation_spec.top_k == 40
    assert type(read(V1, body)) is type(read(ALPHA, body)) is not type(read(BETA, body))


def test_nothing_given_is_an_empty_request() -> None:
    assert read(V1, {}) == V1.request_class(location=LOCATION)
    assert read(V1, {"contents": None, "groundingSpec": None}) == V1.request_class(location=LOCATION)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b'"x"', b"null", b"{} {}", b'{"contents": NaN}', b'{"contents": [Infinity]}'),
        *(b"\xff", b"\xef\xbb\xbf{}", b'{"a": "\xc3\x28"}', b"[" * 100_000, b'{"a":' * 100_000, b"[{}, {}]"),
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    for origin in (V1, STREAM, CHECK):
        if (origin, body) == (STREAM, b"[{}]"):
            continue
        refusal = read(origin, body)
        assert isinstance(refusal, Refusal)
        assert refusal.code == "INVALID_ARGUMENT"


def test_a_stream_takes_one_request_in_a_list_or_alone() -> None:
    body = body_of("Why?")
    assert read(STREAM, body) == read(STREAM, [body]) == read(V1, body)
    for many in ([], [body, body], [[body]]):
        assert isinstance(read(STREAM, many), Refusal)
    assert isinstance(read(V1, [body]), Refusal)


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"question": "Why?"}, "", '"question"'),
        ({"contents": [{"text": "Why?"}]}, "contents[0]", '"text"'),
        ({"contents": [{"parts": [{"text": "a"}, {"txt": "b"}]}]}, "contents[0].parts[1]", '"txt"'),
        ({"systemInstruction": {"parts": {"text": "x"}}}, "systemInstruction.parts", "a list, not an object"),
        ({"contents": {"parts": []}}, "contents", "a list"),
        ({"contents": ["Why?"]}, "contents[0]", "an object, not a string"),
        ({"contents": [None]}, "contents[0]", "an object, not null"),
        ({"contents": [{"parts": [{"text": 7}]}]}, "contents[0].parts[0].text", "a string, not a number"),
        ({"contents": [{"parts": [{"text": True}]}]}, "contents[0].parts[0].text", "not a truth value"),
        ({"contents": [{"parts": [{"text": "\ud83d"}]}]}, "contents[0].parts[0].text", "surrogate"),
        ({"generationSpec": {"topK": "many"}}, "generationSpec.topK", "32 bits"),
        ({"generationSpec": {"topK": 1.5}}, "generationSpec.topK", "32 bits"),
        ({"generationSpec": {"seed": 2**31}}, "generationSpec.seed", "32 bits"),
        ({"generationSpec": {"temperature": "warm"}}, "generationSpec.temperature", "a number"),
        ({"generationSpec": {"temperature": []}}, "generationSpec.temperature", "a number"),
        ({"generationSpec": 5}, "generationSpec", "an object, not a number"),
        ({"userLabels": ["a"]}, "userLabels", "an object, not a list"),
        ({"userLabels": {"a": 1}}, 'userLabels["a"]', "a string"),
        ({"generationSpec": {"modelId": "a", "model_id": "b"}}, "generationSpec.model_id", "one of"),
        ({"groundingSpec": {"groundingSources": [{"searchSource": {"safeSearch": "yes"}}]}},
         "groundingSpec.groundingSources[0].searchSource.safeSearch", "true or false"),
        ({"groundingSpec": {"groundingSources": [{"searchSource": {}, "googleSearchSource": {}}]}},
         "groundingSpec.groundingSources[0].googleSearchSource", "one of"),
        ({"location": "projects/q/locations/us"}, "location", "path"),
    ],
)  # fmt: skip
def test_what_the_messages_have_no_place_for_is_refused_and_named(
    body: dict[str, Any], field: str, said: str
) -> None:
    for origin in (V1, BETA):
        [(named, description)] = violations_of(origin, body)
        assert named == field
        assert said in description


def test_an_unknown_name_is_told_with_its_place_and_cut_when_it_is_long() -> None:
    [(_, said)] = violations_of(V1, {"contents": [{"x" * 10_000: 1}]})
    assert "contents[0]" in said
    assert len(said) < 200


def test_everything_wrong_is_told_at_once_but_only_so_much_of_it() -> None:
    body = {"a": 1, "contents": [{"b": 2, "role": 3}]}
    assert [field for field, _ in violations_of(V1, body)] == ["", "contents[0]", "contents[0].role"]
    assert len(violations_of(V1, {f"name {i}": 1 for i in range(1000)})) == 10


WEB = {"exclude_domains": ["a.example"]}, {"blockingConfidence": "BLOCK_LOW_AND_ABOVE"}


@pytest.mark.parametrize("kind", ["googleSearchSource", "enterpriseWebRetrievalSource"])
@pytest.mark.parametrize("fields", WEB)
def test_v1_and_v1alpha_refuse_the_fields_of_v1beta(kind: str, fields: dict[str, object]) -> None:
    body = {"groundingSpec": {"groundingSources": [{kind: fields}]}}
    assert not isinstance(read(BETA, body), Refusal)
    for origin in (V1, ALPHA):
        [(field, said)] = violations_of(origin, body)
        assert field == f"groundingSpec.groundingSources[0].{kind}"
        assert next(iter(fields)) in said


def test_enums_come_by_name_or_number() -> None:
    def blocking(value: object) -> object:
        source = {"googleSearchSource": {"blockingConfidence": value}}
        read_back = read(BETA, {"groundingSpec": {"groundingSources": [source]}})
        if isinstance(read_back, Refusal):
            return read_back.code
        return read_back.grounding_spec.grounding_sources[0].google_search_source.blocking_confidence

    assert blocking("BLOCK_HIGH_AND_ABOVE") == blocking(50) == 50
    for wrong in ("BLOCK_SOME", [], {}, True, 2**40, 50.5):
        assert blocking(wrong) == "INVALID_ARGUMENT"


def test_a_user_context_is_accepted_with_a_question_and_not_with_a_check() -> None:
    context = {"languageCode": "de", "latLng": {"latitude": 47.1, "longitude": 8.5}}
    for name in ("userContext", "user_context"):
        received = read_json(V1, json.dumps(body_of("Why?", **{name: context})).encode(), {})
        assert isinstance(received, Received)
        assert received.user_context == context
        assert read(V1, body_of("Why?", **{name: context})) == read(V1, body_of("Why?"))
        assert read(STREAM, [body_of("Why?", **{name: context})]) == read(V1, body_of("Why?"))
        [(field, said)] = violations_of(CHECK, {"answerCandidate": "x", name: context})
        assert (field, name in said) == ("", True)
    [(field, _)] = violations_of(V1, body_of("Why?", userContext={"latLng": {"latitude": "north"}}))
    assert field == "user_context.lat_lng.latitude"


def test_a_check_is_read_with_its_config_from_the_path() -> None:
    request = read(
        CHECK,
        {
            "answerCandidate": "x",
            "facts": [{"factText": "y", "attributes": {"title": "z"}}],
            "groundingSpec": {"citationThreshold": 0, "enableClaimLevelScore": True},
            "groundingConfig": CONFIG,
        },
    )
    assert request.grounding_config == CONFIG
    assert request.grounding_spec.HasField("citation_threshold")
    assert request.facts[0].attributes["title"] == "z"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["contents", "parts", "text", "role", "generationSpec", "topK", "groundingSpec", "seed"]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_read_as_by_the_library_or_refused_more_strictly(value: object) -> None:
    got = read(V1, value)
    try:
        wanted = json_format.ParseDict(value, V1.request_class(location=LOCATION))
    except Exception:
        assert isinstance(got, Refusal)
    else:
        assert isinstance(got, Refusal) or got == wanted
