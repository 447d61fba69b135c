"""Responses that are wrong in themselves, each made from a right one.

A fault is named `empty`, `no_content`, `malformed`, `oversized` or `undecodable`. A number, the variety,
picks among the forms that some faults have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from groundrows.pipeline.emulator.discoveryengine.messages import CheckResponse, Response
from groundrows.pipeline.emulator.discoveryengine.streaming import serialized_parts

OVERSIZED_BYTES = 6 * 1024 * 1024  # above gRPC's default receive limit of 4 MiB


def break_response(name: str, variety: int, body: bytes) -> bytes:
    """Make the fault `name` of a serialized answer."""
    return _break(_ANSWER, name, variety, body)


def break_check(name: str, variety: int, body: bytes) -> bytes:
    """Make the fault `name` of a serialized response to a grounding check."""
    return _break(_CHECK, name, variety, body)


def break_parts(name: str, variety: int, body: bytes) -> tuple[bytes, ...]:
    """Make the fault `name` of a serialized answer told in parts."""
    if name in ("undecodable", "oversized"):
        parts = serialized_parts(body)
        # Only text can be blown up, and a stream's first part is text.
        place = variety % len(parts) if name == "undecodable" else 0
        return (*parts[:place], break_response(name, variety, parts[place]), *parts[place + 1 :])
    return serialized_parts(break_response(name, variety, body))


@dataclass(frozen=True, slots=True)
class _Forms:
    """The forms that the faults take in one kind of message.

    Attributes:
        message: The response's message.
        undecodable: Bytes that are no such message: a field that claims more bytes than follow, and text that
            is no UTF-8.
        empty: Takes everything out.
        no_content: Takes out what the caller asked for, and leaves the rest.
        malformed: Each makes a response hold what cannot be.
        oversized: Adds more text than a client takes by default.
    """

    message: Any
    undecodable: Sequence[bytes]
    empty: Callable[[Any], None]
    no_content: Callable[[Any], None]
    malformed: Sequence[Callable[[Any], None]]
    oversized: Callable[[Any], None]


def _break(forms: _Forms, name: str, variety: int, body: bytes) -> bytes:
    if name == "undecodable":
        return forms.undecodable[variety % len(forms.undecodable)]
    response = forms.message.FromString(body)
    if name == "malformed":
        forms.malformed[variety % len(forms.malformed)](response)
    else:
        {"empty": forms.empty, "no_content": forms.no_content, "oversized": forms.oversized}[name](response)
    broken: bytes = response.SerializeToString(deterministic=True)
    return broken


def _no_candidates(response: Any) -> None:
    response.ClearField("candidates")


def _no_content(response: Any) -> None:
    response.candidates[0].ClearField("content")


def _long_text(response: Any) -> None:
    part = response.candidates[0].content.parts[0]
    part.text = (part.text + " ") * (OVERSIZED_BYTES // (len(part.text.encode()) + 1) + 1)


def _odd_supports(response: Any) -> None:
    """Supports that point nowhere, score what cannot be, and claim what was never said."""
    candidate = response.candidates[0]
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


def _answer_without_chunks(response: Any) -> None:
    """Supports whose chunks were left out, and no scores."""
    candidate = response.candidates[0]
    metadata = candidate.grounding_metadata
    metadata.grounding_support.add(claim_text=candidate.content.parts[0].text, support_chunk_indices=[0, 1])
    metadata.ClearField("support_chunks")
    for support in metadata.grounding_support:
        support.ClearField("support_score")
    candidate.ClearField("grounding_score")


def _odd_text(response: Any) -> None:
    """Claims that lost their white space before an emoji in text with a NUL, said twice."""
    candidate = response.candidates[0]
    text = candidate.content.parts[0].text
    candidate.content.parts[0].text = f"{text} 🙂 {text} 🙂\0 e\u0301"
    metadata = candidate.grounding_metadata
    metadata.support_chunks.add(chunk_text="A chunk without an origin.")
    last = len(metadata.support_chunks) - 1
    metadata.grounding_support.add(claim_text=f"{text}🙂", support_chunk_indices=[last], support_score=0.5)
    metadata.grounding_support.add(claim_text=text, support_chunk_indices=[last], support_score=math.inf)


def _odd_claims(response: Any) -> None:
    """Claims that cite what is not there, score what cannot be, and lie outside the answer."""
    response.support_score = math.nan
    response.cited_chunks.add()
    response.claims.add(start_pos=-1, end_pos=5, claim_text="Early.", citation_indices=[-1, 999], score=1.5)
    response.claims.add(start_pos=2**31 - 2, end_pos=2**31 - 1, claim_text="Late.", score=math.nan)
    response.claims.add(start_pos=5, end_pos=2, claim_text="", grounding_check_required=True)
    response.claims.add(claim_text="This stands nowhere.", citation_indices=[0, 0])


def _check_without_chunks(response: Any) -> None:
    """Claims whose chunks and positions were left out, and no scores."""
    response.ClearField("cited_chunks")
    response.ClearField("support_score")
    for claim in response.claims:
        for field in ("start_pos", "end_pos", "score", "grounding_check_required"):
            claim.ClearField(field)
        claim.citation_indices.append(0)


def _no_claims(response: Any) -> None:
    response.ClearField("claims")


def _long_chunk(response: Any) -> None:
    response.cited_chunks.add(chunk_text="x" * OVERSIZED_BYTES, source="0")


_ANSWER = _Forms(
    message=Response,
    undecodable=(b"\x0a\x7f\x12", b"\x0a\x08\x12\x06\x0a\x04\x0a\x02\xc3\x28"),
    empty=_no_candidates,
    no_content=_no_content,
    malformed=(_odd_supports, _answer_without_chunks, _odd_text),
    oversized=_long_text,
)
_CHECK = _Forms(
    message=CheckResponse,
    undecodable=(b"\x22\x7f\x1a", b"\x22\x04\x1a\x02\xc3\x28"),
    empty=CheckResponse.Clear,
    no_content=_no_claims,
    malformed=(_odd_claims, _check_without_chunks),
    oversized=_long_chunk,
)
