"""Responses to grounding checks that are wrong in themselves, made from a right one."""

from __future__ import annotations

import math
from typing import Any

from groundrows.pipeline.emulator.broken import OVERSIZED_BYTES
from groundrows.pipeline.emulator.messages import CheckResponse

# Neither is a response: a field that claims more bytes than follow, and a claim's text that is no UTF-8.
_UNDECODABLE = (b"\x22\x7f\x1a", b"\x22\x04\x1a\x02\xc3\x28")


def break_check(name: str, variety: int, body: bytes) -> bytes:
    """Make the fault `name` of a serialized `CheckGroundingResponse`.

    Args:
        name: `empty`, `no_content`, `malformed`, `oversized` or `undecodable`.
        variety: Picks among the fault's forms.
        body: The right answer.
    """
    if name == "undecodable":
        return _UNDECODABLE[variety % len(_UNDECODABLE)]
    response = CheckResponse() if name == "empty" else CheckResponse.FromString(body)
    if name == "no_content":
        response.ClearField("claims")
    elif name == "malformed":
        _MALFORMED[variety % len(_MALFORMED)](response)
    elif name == "oversized":
        response.cited_chunks.add(chunk_text="x" * OVERSIZED_BYTES, source="0")
    broken: bytes = response.SerializeToString(deterministic=True)
    return broken


def _odd_claims(response: Any) -> None:
    """Claims that cite what is not there, score what cannot be, and lie outside the answer."""
    response.support_score = math.nan
    response.cited_chunks.add()
    response.claims.add(start_pos=-1, end_pos=5, claim_text="Early.", citation_indices=[-1, 999], score=1.5)
    response.claims.add(start_pos=2**31 - 2, end_pos=2**31 - 1, claim_text="Late.", score=math.nan)
    response.claims.add(start_pos=5, end_pos=2, claim_text="", grounding_check_required=True)
    response.claims.add(claim_text="This stands nowhere.", citation_indices=[0, 0])


def _no_chunks(response: Any) -> None:
    """Claims whose chunks and positions were left out, and no scores."""
    response.ClearField("cited_chunks")
    response.ClearField("support_score")
    for claim in response.claims:
        for field in ("start_pos", "end_pos", "score", "grounding_check_required"):
            claim.ClearField(field)
        claim.citation_indices.append(0)


_MALFORMED = (_odd_claims, _no_chunks)
