from __future__ import annotations

import math

import pytest
from google.cloud import discoveryengine_v1 as v1
from google.cloud import discoveryengine_v1beta as v1beta
from google.protobuf.message import DecodeError

from groundrows.pipeline.emulator.discoveryengine.broken import OVERSIZED_BYTES, break_response
from groundrows.pipeline.emulator.discoveryengine.canned import canned_answer
from groundrows.pipeline.emulator.discoveryengine.messages import Response
from groundrows.pipeline.emulator.faults import BROKEN


@pytest.mark.parametrize("api", [v1, v1beta])
@pytest.mark.parametrize("variety", [0, 1])
def test_undecodable_is_undecodable_for_the_generated_clients(api: object, variety: int) -> None:
    message = api.GenerateGroundedContentResponse.pb()  # type: ignore[attr-defined]
    with pytest.raises(DecodeError):
        message.FromString(break_response("undecodable", variety, canned_answer()))


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "undecodable"])
@pytest.mark.parametrize("variety", range(6))
def test_the_others_decode_and_differ_from_the_right_answer(name: str, variety: int) -> None:
    body = break_response(name, variety, canned_answer())
    assert Response.FromString(body) != Response.FromString(canned_answer())
    assert body == break_response(name, variety, canned_answer())


def test_empty_and_no_content() -> None:
    assert not Response.FromString(break_response("empty", 0, canned_answer())).candidates
    candidate = Response.FromString(break_response("no_content", 0, canned_answer())).candidates[0]
    assert not candidate.HasField("content")
    assert candidate.grounding_metadata.support_chunks


def test_oversized_is_about_six_megabytes() -> None:
    size = len(break_response("oversized", 0, canned_answer()))
    assert OVERSIZED_BYTES <= size < 1.1 * OVERSIZED_BYTES


def test_malformed_forms_hold_what_flattening_must_survive() -> None:
    odd_supports, no_chunks, odd_text = (
        Response.FromString(break_response("malformed", form, canned_answer())).candidates[0]
        for form in range(3)
    )
    metadata = odd_supports.grounding_metadata
    indices = [index for support in metadata.grounding_support for index in support.support_chunk_indices]
    assert -1 in indices
    assert max(indices) >= len(metadata.support_chunks)
    assert any(not chunk.ByteSize() for chunk in metadata.support_chunks)
    assert any(math.isnan(support.support_score) for support in metadata.grounding_support)
    assert any(not support.HasField("support_score") for support in metadata.grounding_support)
    text = odd_supports.content.parts[0].text
    assert any(support.claim_text not in text for support in metadata.grounding_support)

    assert no_chunks.grounding_metadata.grounding_support
    assert not no_chunks.grounding_metadata.support_chunks
    assert not no_chunks.HasField("grounding_score")

    text = odd_text.content.parts[0].text
    assert "\0" in text
    supports = odd_text.grounding_metadata.grounding_support
    assert any(support.claim_text not in text for support in supports)
    assert any(text.count(support.claim_text) == 2 for support in supports)
