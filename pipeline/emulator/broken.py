"""Responses that are wrong in themselves, made from a right one."""

from __future__ import annotations

import math
from typing import Any

from groundrows.pipeline.emulator.messages import Response
from groundrows.pipeline.emulator.streaming import serialized_parts

OVERSIZED_BYTES = 6 * 1024 * 1024  # above gRPC's default receive limit of 4 MiB

# Neither is a response: a field that claims more bytes than follow, and text that is no UTF-8.
_UNDECODABLE = (b"\x0a\x7f\x12", b"\x0a\x08\x12\x06\x0a\x04\x0a\x02\xc3\x28")


def break_response(name: str, variety: int, body: bytes) -> bytes:
    """Make the fault `name` of a serialized response.

    Args:
        name: `empty`, `no_content`, `malformed`, `oversized` or `undecodable`.
        variety: Picks among the fault's forms.
        body: The right answer.
    """
    if name == "undecodable":
        return _UNDECODABLE[variety % len(_UNDECODABLE)]
    response = Response.FromString(body)
    if name == "empty":
        response.ClearField("candidates")
    elif name == "no_content":
        response.candidates[0].ClearField("content")
    elif name == "malformed":
        _MALFORMED[variety % len(_MALFORMED)](response.candidates[0])
    else:
        part = response.candidates[0].content.parts[0]
        part.text = (part.text + " ") * (OVERSIZED_BYTES // (len(part.text.encode()) + 1) + 1)
    broken: bytes = response.SerializeToString(deterministic=True)
    return broken


def break_parts(name: str, variety: int, body: bytes) -> tuple[bytes, ...]:
    """Make the fault `name` of a serialized response told in parts."""
    if name in ("undecodable", "oversized"):
        parts = serialized_parts(body)
        # Only text can be blown up, and a stream's first part is text.
        place = variety % len(parts) if name == "undecodable" else 0
        return (*parts[:place], break_response(name, variety, parts[place]), *parts[place + 1 :])
    return serialized_parts(break_response(name, variety, body))


def _odd_supports(candidate: Any) -> None:
    """Supports that point nowhere, score what cannot be, and claim what was never said."""
    metadata = candidate.grounding_metadata
    text = candidate.content.parts[0].text
    metadata.support_chunks.add()
    metadata.support_chunks.add(chunk_text="A chunk with a NUL \0 inside.", source="fact-7", index=-4)
    metadata.grounding_support.add(claim_text=text[:20], support_chunk_indices=[-1], support_score=math.nan)
    metadata.grounding_support.add(claim_text=text[:20], support_chunk_indices=[999, 0, 0], support_score=1.5)
    metadata.grounding_support.add(claim_text="This was never said.", support_chunk_indices=[0])
    metadata.grounding_support.add(claim_text="**", support_chunk_indices=[])
    metadata.grounding_support.add(claim_text="", support_chunk_indices=[0], support_score=-0.5)
    metadata.retrieval_metadata.add(source=99)
    candidate.grounding_score = math.nan


def _no_chunks(candidate: Any) -> None:
    """Supports whose chunks were left out, and no scores."""
    metadata = candidate.grounding_metadata
    metadata.grounding_support.add(claim_text=candidate.content.parts[0].text, support_chunk_indices=[0, 1])
    metadata.ClearField("support_chunks")
    for support in metadata.grounding_support:
        support.ClearField("support_score")
    candidate.ClearField("grounding_score")


def _odd_text(candidate: Any) -> None:
    """Claims that lost their white space before an emoji in text with a NUL, said twice."""
    text = candidate.content.parts[0].text
    candidate.content.parts[0].text = f"{text} 🙂 {text} 🙂\0 e\u0301"
    metadata = candidate.grounding_metadata
    metadata.support_chunks.add(chunk_text="A chunk without an origin.")
    last = len(metadata.support_chunks) - 1
    metadata.grounding_support.add(claim_text=f"{text}🙂", support_chunk_indices=[last], support_score=0.5)
    metadata.grounding_support.add(claim_text=text, support_chunk_indices=[last], support_score=math.inf)


_MALFORMED = (_odd_supports, _no_chunks, _odd_text)
