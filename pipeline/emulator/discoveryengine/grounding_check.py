"""Checking an answer against facts, by the words they share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from groundrows.pipeline.emulator.answering.text import sentences, words
from groundrows.pipeline.emulator.discoveryengine.messages import CheckResponse, FactChunk

DEFAULT_THRESHOLD = 0.6
# A sentence of fewer words that carry a subject says nothing that could be checked.
MIN_WORDS = 2
MAX_WORDS_OF_A_COURTESY = 8

_QUESTION = re.compile(r"[?？؟][\"'”’»)\]」』）]*$")
_COURTESY = re.compile(
    r"(?:hi|hello|hey|greetings|welcome|thanks?|sorry|sure|certainly|of course|good (?:morning|day|evening)"
    r"|you're welcome|i hope|let me|feel free|please)(?=[\s,.!]|$)",
    re.IGNORECASE,
)


def check(request: Any) -> Any:
    """Answer a valid `CheckGroundingRequest` with a `CheckGroundingResponse`.

    Every sentence is a claim. Its score is the share of its words that the best fact holds, and it cites
    every fact that holds a share of at least the citation threshold. Sentences that state nothing (questions,
    courtesies, lone words) are not checked.
    """
    spec = request.grounding_spec
    threshold = spec.citation_threshold if spec.HasField("citation_threshold") else DEFAULT_THRESHOLD
    facts = [frozenset(words(fact.fact_text)) for fact in request.facts]
    response = CheckResponse()
    chunk_of: dict[int, int] = {}
    scores = []
    for start, end, sentence in _placed(request.answer_candidate):
        claim = response.claims.add(start_pos=start, end_pos=end, claim_text=sentence)
        claim.grounding_check_required = _states_something(sentence)
        if not claim.grounding_check_required:
            continue
        claimed = frozenset(words(sentence))
        shares = [len(claimed & fact) / len(claimed) for fact in facts]
        scores.append(max(shares, default=0.0))
        if spec.enable_claim_level_score:
            claim.score = scores[-1]
        for position, share in enumerate(shares):
            if share >= threshold:
                claim.citation_indices.append(chunk_of.setdefault(position, len(chunk_of)))
    if scores:
        response.support_score = sum(scores) / len(scores)
    for position in chunk_of:
        fact = request.facts[position]
        response.cited_chunks.append(_chunk(position, fact))
        response.cited_facts.add(chunk_text=fact.fact_text)
    return response


def _placed(text: str) -> Iterator[tuple[int, int, str]]:
    """The sentences of a text with where they begin and end in it, counted in bytes of UTF-8."""
    seen = seen_bytes = 0
    for sentence in sentences(text):
        place = text.index(sentence, seen)
        start = seen_bytes + len(text[seen:place].encode())
        seen, seen_bytes = place + len(sentence), start + len(sentence.encode())
        yield start, seen_bytes, sentence


def _states_something(sentence: str) -> bool:
    if _QUESTION.search(sentence) or len(words(sentence)) < MIN_WORDS:
        return False
    return not (_COURTESY.match(sentence) and len(sentence.split()) <= MAX_WORDS_OF_A_COURTESY)


def _chunk(position: int, fact: Any) -> Any:
    attributes = dict(fact.attributes)
    return FactChunk(
        chunk_text=fact.fact_text,
        source=str(position),
        source_metadata=attributes,
        uri=attributes.get("uri", ""),
        title=attributes.get("title", ""),
        domain=attributes.get("domain", ""),
    )
