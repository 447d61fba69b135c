"""One prebuilt answer to each method, for measuring the client rather than the answering."""

from __future__ import annotations

from functools import cache

from groundrows.pipeline.emulator.answering.canned import CHUNK_CHARACTERS, CLAIMS
from groundrows.pipeline.emulator.discoveryengine.grounding_check import check
from groundrows.pipeline.emulator.discoveryengine.messages import CheckRequest, Response, Retrieved
from groundrows.pipeline.emulator.discoveryengine.streaming import serialized_parts


@cache
def canned_stream() -> tuple[bytes, ...]:
    """The canned answer's parts, serialized."""
    return serialized_parts(canned_answer())


@cache
def canned_check() -> bytes:
    """A serialized response to a grounding check: that of the canned answer's text against its claims."""
    request = CheckRequest(answer_candidate=" ".join(CLAIMS))
    request.grounding_spec.enable_claim_level_score = True
    for claim in CLAIMS:
        request.facts.add(fact_text=claim)
    body: bytes = check(request).SerializeToString(deterministic=True)
    return body


@cache
def canned_answer() -> bytes:
    """A serialized response: five sentences, five claims, five chunks of 300 characters, all scored."""
    response = Response()
    candidate = response.candidates.add(grounding_score=0.875)
    candidate.content.role = "model"
    candidate.content.parts.add(text=" ".join(CLAIMS))
    metadata = candidate.grounding_metadata
    metadata.retrieval_metadata.add(source=Retrieved.GOOGLE_SEARCH)
    metadata.web_search_queries.append("measuring run")
    for position, claim in enumerate(CLAIMS):
        metadata.support_chunks.add(
            chunk_text=(claim + " ").ljust(CHUNK_CHARACTERS, "x"),
            source="0",
            uri=f"https://canned.example/{position}",
            title="Canned answer",
            domain="canned.example",
        )
        metadata.grounding_support.add(
            claim_text=claim, support_chunk_indices=[position], support_score=0.75 + position / 16
        )
    body: bytes = response.SerializeToString(deterministic=True)
    return body
