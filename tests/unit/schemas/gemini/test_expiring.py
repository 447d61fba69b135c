"""Gemini's stored responses, without what the web search found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.expiring import without_search
from groundrows.schemas.gemini.expiring import json_without_search
from tests.support.gemini import candidate_of, response, support

REDIRECT = "https://vertexaisearch.cloud.google.com/grounding-api-redirect/AB1"
WEB = {"web": {"uri": REDIRECT, "title": "rsc.org", "domain": "rsc.org"}, "chunkMetadata": {"query": "tin"}}
OTHER = {"web": {"uri": REDIRECT + "2", "title": "tin.example"}}
IMAGE = {"image": {"imageUri": "https://images.example/1", "sourceUri": "https://pages.example/1"}}
OWN = {"retrievedContext": {"uri": "gs://b/terms.pdf", "title": "Terms", "text": "Paid within 14 days."}}
MAPS = {"maps": {"uri": "https://maps.example", "title": "Tin hill", "placeId": "places/1"}}
TEXT = "Tin melts at 232 °C. 🙂 It is paid."
FOUND: dict[str, Any] = {
    "webSearchQueries": ["tin"],
    "searchEntryPoint": {"renderedContent": "<div>chips</div>", "sdkBlob": "c2RrLWJsb2I="},
    "groundingChunks": [WEB, OWN, IMAGE, MAPS],
    "groundingSupports": [support("Tin melts at 232 °C.", 0, 0, 1)],
}
GONE = (REDIRECT, "rsc.org", "chips", "c2RrLWJsb2I", "images.example", "pages.example", "chunkMetadata")


def expired(body: object) -> Any:
    return json.loads(without_search(json.dumps(body).encode(), searched=False))


def test_links_titles_and_suggestions_of_the_search_go_and_the_rest_stays() -> None:
    body = response(TEXT, **FOUND) | {"usageMetadata": {"totalTokenCount": 7}, "responseId": "r1"}
    left = expired(body)
    written = json.dumps(left)
    assert not [mark for mark in GONE if mark in written]
    body["candidates"][0]["groundingMetadata"] = FOUND | {
        "groundingChunks": [{"web": {}}, OWN, {"image": {}}, MAPS]
    }
    del body["candidates"][0]["groundingMetadata"]["searchEntryPoint"]
    assert left == body


def test_an_expired_response_gives_the_same_claims_at_the_same_places() -> None:
    before, after = candidate_of(response(TEXT, **FOUND)), candidate_of(expired(response(TEXT, **FOUND)))
    assert (after.text, after.claims, after.queries) == (before.text, before.claims, before.queries)
    assert after.billed_searches == before.billed_searches == 1
    assert [chunk.kind for chunk in after.chunks] == ["web", "retrieved", "image", "maps"]
    assert [chunk.uri for chunk in after.chunks] == [None, "gs://b/terms.pdf", None, "https://maps.example"]
    assert after.suggestions_html is None
    assert after.search_blob is None


def test_the_parts_of_a_stream_become_one_so_that_no_chunk_is_taken_for_another() -> None:
    stream = [
        response("Tin melts at 232 degrees. ", groundingChunks=[WEB]),
        response(
            "Lead melts at 327 degrees.",
            groundingChunks=[OTHER],
            groundingSupports=[support("Lead melts at 327 degrees.", 26, 1)],
        ),
        {"usageMetadata": {"totalTokenCount": 24}},
    ]
    before, after = candidate_of(stream), candidate_of(expired(stream))
    assert len(after.chunks) == len(before.chunks) == 2
    assert (after.text, after.claims) == (before.text, before.claims)
    assert not after.warnings


@pytest.mark.parametrize(
    "body",
    [
        response(TEXT),
        response(TEXT, groundingChunks=[OWN, MAPS], groundingSupports=[support("Tin", 0, 0)]),
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"candidates": "none"},
        {"candidates": [None, 3, {"groundingMetadata": [1]}, {"groundingMetadata": {"groundingChunks": 7}}]},
        {"candidates": [{"groundingMetadata": {"groundingChunks": [None, 1, "x", {}]}}]},
        [],
    ],
)
def test_what_no_search_found_stays_byte_for_byte(body: object) -> None:
    raw = json.dumps(body, indent=1).encode()
    assert without_search(raw, searched=True) == raw


def test_what_is_expired_already_stays_as_it_is() -> None:
    once = without_search(json.dumps([response(TEXT, **FOUND)]).encode(), searched=False)
    assert without_search(once, searched=False) == once


def test_the_json_of_a_row_is_treated_like_the_response_itself() -> None:
    left = json_without_search(json.dumps(response(TEXT, **FOUND)))
    assert json.loads(left) == expired(response(TEXT, **FOUND))
    assert "°C. 🙂" in left


@pytest.mark.parametrize("text", ["no JSON", "{", "[" * 100_000, "7", ""])
def test_what_is_no_response_is_said_to_be_none(text: str) -> None:
    with pytest.raises(UndecodableError):
        json_without_search(text)
