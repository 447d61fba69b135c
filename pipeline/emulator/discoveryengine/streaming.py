"""A whole answer told in parts, as the streaming method does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any
from zlib import crc32

from groundrows.pipeline.emulator.discoveryengine.messages import Response, text_of

# A sentence comes as its first word and at most so many further pieces, of so many words at least.
MAX_PIECES = 4
WORDS_IN_PIECE = 7

# A word with the white space before it; white space at the end belongs to the last one.
_WORD = re.compile(r"\s*\S+(?:\s+\Z)?|\s+\Z")


def parts_of(response: Any) -> list[Any]:
    """Tell a response in parts, each of which tells of one candidate; several are told by turns.

    Each claim comes as messages that hold its text alone, followed by one without content that holds its
    support; a claim's text is what was told since the support before, trailing white space included. Queries,
    entry point and the like come with the first support. So do all chunks, but in one answer of two each
    comes with the first support that cites it. Nothing is scored.

    Args:
        response: A `GenerateGroundedContentResponse`; it is left as it is.

    Returns:
        Responses, at least one; put together they are the one given, but for scores and the trailing white
        space of claims.
    """
    by_turns = zip_longest(*map(_parts_of_candidate, response.candidates))
    return [part for parts in by_turns for part in parts if part is not None] or [Response()]


def _parts_of_candidate(candidate: Any) -> list[Any]:
    role, metadata = candidate.content.role, candidate.grounding_metadata
    text = text_of(candidate.content)
    chunks_come_late = crc32(text.encode()) % 2 == 1
    parts: list[Any] = []
    told = cited = 0
    for position, support in enumerate(metadata.grounding_support):
        end = _end_of_claim(text, told, support.claim_text)
        parts.extend(_text_parts(text[told:end], role))
        said = _support_part(parts, metadata if position == 0 else None)
        said.grounding_support.add(
            claim_text=text[told:end] or support.claim_text,
            support_chunk_indices=support.support_chunk_indices,
        )
        upto = len(metadata.support_chunks)
        if chunks_come_late and position < len(metadata.grounding_support) - 1:
            upto = min(upto, max([cited, *(index + 1 for index in support.support_chunk_indices)]))
        said.support_chunks.extend(metadata.support_chunks[cited:upto])
        told, cited = end, upto
    parts.extend(_text_parts(text[told:], role))
    if metadata.ByteSize() and not metadata.grounding_support:
        _support_part(parts, metadata).support_chunks.extend(metadata.support_chunks)
    parts = parts or [Response(candidates=[{}])]
    for part in parts:
        part.candidates[0].index = candidate.index
    return parts


def serialized_parts(body: bytes) -> tuple[bytes, ...]:
    """`parts_of` with serialized responses."""
    return tuple(part.SerializeToString(deterministic=True) for part in parts_of(Response.FromString(body)))


def _end_of_claim(text: str, start: int, claim: str) -> int:
    """Where a claim said from `start` on ends with the white space behind it; `start` when it is not said."""
    if not claim or not text.startswith(claim, start):
        return start
    end = start + len(claim)
    while end < len(text) and text[end].isspace():
        end += 1
    return end


def _text_parts(text: str, role: str) -> Iterator[Any]:
    for piece in _pieces(text):
        part = Response()
        content = part.candidates.add().content
        content.role = role
        content.parts.add(text=piece)
        yield part


def _pieces(text: str) -> Iterator[str]:
    found = _WORD.findall(text)
    if found:
        yield found[0]
    size = max(WORDS_IN_PIECE, -(-(len(found) - 1) // MAX_PIECES))
    for start in range(1, len(found), size):
        yield "".join(found[start : start + size])


def _support_part(parts: list[Any], told_once: Any | None) -> Any:
    """Add a part without content, with all but supports and chunks of `told_once`; return its metadata."""
    part = Response()
    parts.append(part)
    said = part.candidates.add().grounding_metadata
    said.SetInParent()
    if told_once is not None:
        said.CopyFrom(told_once)
        said.ClearField("grounding_support")
        said.ClearField("support_chunks")
    return said
