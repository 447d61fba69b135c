from __future__ import annotations

import math

import pytest
from google.cloud import discoveryengine_v1 as v1
from google.protobuf.message import DecodeError

from groundrows.pipeline.emulator.discoveryengine.broken import OVERSIZED_BYTES, break_check
from groundrows.pipeline.emulator.discoveryengine.canned import canned_check
from groundrows.pipeline.emulator.discoveryengine.messages import CheckResponse
from groundrows.pipeline.emulator.faults import BROKEN

RIGHT = CheckResponse.FromString(canned_check())


@pytest.mark.parametrize("variety", [0, 1])
def test_undecodable_is_undecodable_for_the_generated_client(variety: int) -> None:
    with pytest.raises(DecodeError):
        v1.CheckGroundingResponse.pb().FromString(break_check("undecodable", variety, canned_check()))


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "undecodable"])
@pytest.mark.parametrize("variety", range(4))
def test_the_others_decode_and_differ_from_the_right_answer(name: str, variety: int) -> None:
    body = break_check(name, variety, canned_check())
    assert CheckResponse.FromString(body) != RIGHT
    assert body == break_check(name, variety, canned_check())


def test_each_is_what_its_name_says() -> None:
    assert break_check("empty", 0, canned_check()) == b""
    no_content = CheckResponse.FromString(break_check("no_content", 0, canned_check()))
    assert not no_content.claims
    assert no_content.cited_chunks
    assert len(break_check("oversized", 0, canned_check())) > OVERSIZED_BYTES


def test_malformed_forms_hold_what_reading_must_survive() -> None:
    odd, bare = (CheckResponse.FromString(break_check("malformed", form, canned_check())) for form in (0, 1))
    assert math.isnan(odd.support_score)
    indices = [index for claim in odd.claims for index in claim.citation_indices]
    assert -1 in indices
    assert max(indices) >= len(odd.cited_chunks)
    assert any(claim.start_pos > claim.end_pos for claim in odd.claims)
    assert any(math.isnan(claim.score) for claim in odd.claims)
    assert not bare.cited_chunks
    assert not bare.HasField("support_score")
    assert len(bare.claims) == len(RIGHT.claims)
    assert not any(claim.HasField("start_pos") for claim in bare.claims)
    assert all(claim.citation_indices for claim in bare.claims)
