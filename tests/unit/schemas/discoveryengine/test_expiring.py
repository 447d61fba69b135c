"""The Grounded Generation API's stored responses, without what Google Search found."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import json_format

from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.schemas.discoveryengine.reading import RAW_RESPONSE
from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.expiring import (
    check_json_without_facts,
    check_without_facts,
    json_without_search,
    without_search,
)

CHUNK = {
    "chunkText": "Tin melts at 232.",
    "source": "0",
    "index": 3,
    "uri": "https://tin.example",
    "title": "Tin",
    "domain": "tin.example",
    "sourceMetadata": {"uri": "https://tin.example", "author": "Ann"},
}
SEARCHED: dict[str, Any] = {"retrievalMetadata": [{"source": "GOOGLE_SEARCH"}]}


def body(**metadata: Any) -> dict[str, Any]:
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "Tin melts at 232. 🙂"}]},
                "groundingScore": 0.5,
                "groundingMetadata": {
                    "supportChunks": [CHUNK],
                    "groundingSupport": [
                        {"claimText": "Tin melts at 232.", "supportChunkIndices": [0], "supportScore": 0.75}
                    ],
                    "webSearchQueries": ["tin"],
                    **metadata,
                },
            }
        ]
    }


FOUND = body(
    **SEARCHED,
    searchEntryPoint={"renderedContent": "<div>chips</div>", "sdkBlob": "YmxvYg=="},
    images=[{"image": {"uri": "https://images.example/1"}}],
    videos=[{"youtubeExternalId": "abc"}],
)
LEFT = body(**SEARCHED)
LEFT["candidates"][0]["groundingMetadata"]["supportChunks"] = [{"source": "0", "index": 3}]


def packed(told: dict[str, Any], method: Any = "generate") -> bytes:
    return json_format.ParseDict(told, response_class("v1beta", method)()).SerializeToString()


def unpacked(response: bytes, method: Any = "generate") -> Any:
    return json_format.MessageToDict(response_class("v1beta", method).FromString(response))


def test_links_passages_and_suggestions_go_and_the_rest_stays() -> None:
    assert unpacked(without_search(packed(FOUND), searched=False)) == unpacked(packed(LEFT))
    assert json.loads(json_without_search(json.dumps(FOUND), None, searched=False)) == LEFT


@pytest.mark.parametrize("metadata", [{}, {"retrievalMetadata": [{"source": "VERTEX_AI_SEARCH"}]}])
def test_the_users_own_stores_stay_byte_for_byte(metadata: dict[str, Any]) -> None:
    mine = body(**metadata)
    assert without_search(packed(mine), searched=False) == packed(mine)
    text = json.dumps(mine, indent=1)
    assert json_without_search(text, None, searched=False) == text


def test_an_answer_that_is_known_to_come_from_the_search_need_not_say_so() -> None:
    left = unpacked(without_search(packed(body()), searched=True))
    assert left["candidates"][0]["groundingMetadata"]["supportChunks"] == [{"source": "0", "index": 3}]


def test_a_predicted_search_that_found_nothing_changes_nothing() -> None:
    mine = body(**SEARCHED, supportChunks=[])
    assert without_search(packed(mine), searched=False) == packed(mine)
    assert without_search(packed(LEFT), searched=True) == packed(LEFT)


def test_fields_that_nobody_knows_go_from_what_the_search_told() -> None:
    # Field 99 of the grounding metadata, a string.
    message = json_format.ParseDict(LEFT, response_class("v1beta")())
    candidate = message.candidates[0]
    candidate.grounding_metadata.MergeFromString(b"\x9a\x06\x06secret")
    assert b"secret" in message.SerializeToString()
    left = without_search(message.SerializeToString(), searched=False)
    assert b"secret" not in left
    assert unpacked(left) == LEFT


def test_the_bytes_beside_a_responses_json_are_treated_like_it() -> None:
    text = json.dumps({**FOUND, RAW_RESPONSE: base64.b64encode(packed(FOUND)).decode()})
    left = json.loads(json_without_search(text, None, searched=False))
    assert unpacked(base64.b64decode(left.pop(RAW_RESPONSE))) == unpacked(packed(LEFT))
    assert left == LEFT
    damaged = json.dumps({**FOUND, RAW_RESPONSE: "AAAA"})
    assert json.loads(json_without_search(damaged, None, searched=False)) == LEFT


def test_a_stream_whose_parts_say_it_once_is_expired_as_a_whole() -> None:
    parts = [body(), {"candidates": [{"groundingMetadata": SEARCHED}]}]
    left = json.loads(json_without_search(json.dumps(parts), None, searched=False))
    assert left[0]["candidates"][0]["groundingMetadata"]["supportChunks"] == [{"source": "0", "index": 3}]


def test_half_a_surrogate_pair_stays_what_it_was() -> None:
    text = json.dumps(FOUND).replace("Tin melts at 232. ", r"Tin \ud83d melts. ", 1)
    left = json_without_search(text, None, searched=False)
    assert r"\ud83d melts" in left
    left.encode()


CHECK: dict[str, Any] = {
    "supportScore": 0.5,
    "citedChunks": [CHUNK],
    "citedFacts": [{"chunkText": "Tin melts at 232."}],
    "claims": [{"startPos": 0, "endPos": 3, "claimText": "Tin", "citationIndices": [0]}],
}


def test_a_check_keeps_its_claims_and_loses_the_passages() -> None:
    left = unpacked(check_without_facts(packed(CHECK, "check")), "check")
    whole = unpacked(packed(CHECK, "check"), "check")
    assert left == {**whole, "citedChunks": [{"source": "0", "index": 3}], "citedFacts": [{}]}
    assert json.loads(check_json_without_facts(json.dumps(CHECK))) == left
    again = check_without_facts(packed(CHECK, "check"))
    assert check_without_facts(again) == again


def test_the_request_of_a_check_loses_its_facts() -> None:
    asked = {"answerCandidate": "Tin.", "facts": [{"factText": "Tin melts.", "attributes": {"uri": "u"}}]}
    assert json.loads(check_json_without_facts(json.dumps(asked))) == {**asked, "facts": [{}]}


@pytest.mark.parametrize("response", [b"\xff\xff", b"no message at all", b"{"])
def test_what_is_no_response_is_said_to_be_none(response: bytes) -> None:
    with pytest.raises(UndecodableError):
        without_search(response, searched=True)
    with pytest.raises(UndecodableError):
        check_without_facts(response)
    with pytest.raises(UndecodableError):
        json_without_search("{", None, searched=True)
