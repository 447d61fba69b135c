"""Extractive answers: a request in, a response out; the same response for the same request, always.

A prompt with the word "candidates" is answered with two, the one of index 0 last: nothing says that a client
may go by their places. The other one tells what that left out, if anything is left.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from groundrows.pipeline.emulator import media, websearch
from groundrows.pipeline.emulator.candidates import CANDIDATE_WORDS, wanted_candidates
from groundrows.pipeline.emulator.messages import FactChunk, Response, Retrieved, user_turns
from groundrows.pipeline.emulator.retrieval import Hit, Passage, Query, SentenceIndex, to_query, without
from groundrows.pipeline.emulator.text import sentences, words

NOTHING_FOUND = "The sources hold nothing that answers this question."
UNGROUNDED = "This answer is not grounded: no source was consulted for it."

MAX_ANSWER_SENTENCES = 3
MAX_HITS = 12
# A further sentence belongs to the answer when it fits nearly as well as the best one.
NEARLY_AS_GOOD = 0.75
# A passage supports a claim it does not hold verbatim when it shares this much of the claim's words.
SUPPORTING_OVERLAP = 0.6
MAX_SUPPORTING_CHUNKS = 3
DEFAULT_THRESHOLD = 0.7
DEFAULT_RESULTS = 10


@dataclass(frozen=True, slots=True)
class Cited:
    """A hit together with the index, in the request, of the source it came from."""

    source: int
    hit: Hit


class Extractive:
    """Answers with sentences of the request's own facts and of a corpus that stands for every search."""

    def __init__(self, corpus: Sequence[Passage]) -> None:
        self._corpus = SentenceIndex(corpus)

    def answer(self, request: Any, *, wide: bool = True) -> Any:
        """Answer a valid `GenerateGroundedContentRequest` with a `GenerateGroundedContentResponse`.

        Args:
            request: The request, of any version.
            wide: Whether the response may hold what v1beta has and v1 has not.
        """
        turns = user_turns(request)
        query = without(to_query(turns), CANDIDATE_WORDS)
        noted = Response.Candidate.GroundingMetadata()
        found: list[Cited] = []
        consulted = False
        for position, source in enumerate(request.grounding_spec.grounding_sources):
            if not _is_retrieved(source, turns[-1], noted):
                continue
            consulted = True
            if source.WhichOneof("source") == "google_search_source":
                query = media.subject_of(query)  # no other source stands beside it
                websearch.describe_search(noted, turns[-1])
            found.extend(Cited(position, hit) for hit in self._search(source, query))
        response = Response()
        for index in range(wanted_candidates(turns[-1])):
            candidate = response.candidates.add(index=index)
            candidate.content.role = "model"
            if noted.ByteSize():
                candidate.grounding_metadata.CopyFrom(noted)
            if not found:
                candidate.content.parts.add(text=NOTHING_FOUND if consulted else UNGROUNDED)
                continue
            told = _compose(candidate, found)
            if noted.web_search_queries:
                media.add_media(candidate.grounding_metadata, turns[-1], wide)
            found = [cited for cited in found if cited.hit.sentence not in told] or found
        response.candidates.reverse()
        return response

    def _search(self, source: Any, query: Query) -> list[Hit]:
        kind = source.WhichOneof("source")
        if kind == "inline_source":
            return SentenceIndex(_inline_passages(source.inline_source)).rank(query, MAX_HITS)
        hits = self._corpus.rank(query, MAX_HITS)
        if kind == "search_source":
            wanted = source.search_source.max_result_count or DEFAULT_RESULTS
            results = list(dict.fromkeys(hit.passage.uri for hit in hits))[:wanted]
            return [hit for hit in hits if hit.passage.uri in results]
        return [hit for hit in hits if websearch.may_show(getattr(source, kind), hit.passage.domain)]


def _is_retrieved(source: Any, prompt: str, metadata: Any) -> bool:
    """Whether a source is consulted for a prompt; noted in the metadata either way."""
    kind = source.WhichOneof("source")
    if kind == "inline_source":
        _note(metadata, Retrieved.INLINE_CONTENT)
    elif kind == "search_source":
        _note(metadata, Retrieved.VERTEX_AI_SEARCH)
    elif kind == "google_search_source":
        noted = _note(metadata, Retrieved.GOOGLE_SEARCH)
        if source.google_search_source.HasField("dynamic_retrieval_config"):
            predictor = source.google_search_source.dynamic_retrieval_config.predictor
            threshold = predictor.threshold if predictor.HasField("threshold") else DEFAULT_THRESHOLD
            predicted = noted.dynamic_retrieval_metadata.predictor_metadata
            predicted.version = predictor.V1_INDEPENDENT  # the one there is, also when none was asked for
            predicted.prediction = prediction(prompt)
            return prediction(prompt) >= threshold
    return True


def _note(metadata: Any, source: int) -> Any:
    for noted in metadata.retrieval_metadata:
        if noted.source == source:
            return noted
    return metadata.retrieval_metadata.add(source=source)


def prediction(prompt: str) -> float:
    """How much a prompt is said to gain from Google Search: a number in [0, 1] of the prompt alone.

    A multiple of 1/1024, so that the 32-bit field in the response holds the very number compared here.
    """
    return int.from_bytes(blake2b(prompt.encode(), digest_size=8).digest(), "big") % 1025 / 1024


def _inline_passages(inline: Any) -> list[Passage]:
    passages = []
    for fact in inline.grounding_facts:
        # What is said of the source holds for each of its facts, unless the fact says otherwise.
        attributes = dict(inline.attributes) | dict(fact.attributes)
        passages.append(
            Passage(
                text=fact.fact_text,
                sentences=tuple(sentences(fact.fact_text)),
                title=attributes.get("title", ""),
                uri=attributes.get("uri", ""),
                domain=attributes.get("domain", ""),
                metadata=tuple(attributes.items()),
            )
        )
    return passages


def _compose(candidate: Any, found: list[Cited]) -> Set[str]:
    """Fill a candidate with the best sentences, the chunks they cite and a support for each.

    Returns the sentences.
    """
    found = sorted(found, key=lambda cited: -cited.hit.relevance)  # stable: BM25's order among equals
    enough = NEARLY_AS_GOOD * found[0].hit.relevance
    best: dict[str, Cited] = {}
    for cited in found:
        if cited.hit.relevance >= enough and len(best) < MAX_ANSWER_SENTENCES:
            best.setdefault(cited.hit.sentence, cited)
    chosen = list(best.values())
    candidate.content.parts.add(text=" ".join(cited.hit.sentence for cited in chosen))

    metadata = candidate.grounding_metadata
    chunk_of: dict[tuple[int, Passage], int] = {}
    weighed = characters = 0.0
    for cited in chosen:
        support = metadata.grounding_support.add(claim_text=cited.hit.sentence)
        overlaps = _supporting(cited, found)
        for (source, passage), _ in overlaps:
            if (source, passage) not in chunk_of:
                chunk_of[source, passage] = len(metadata.support_chunks)
                metadata.support_chunks.append(_chunk(source, passage))
            support.support_chunk_indices.append(chunk_of[source, passage])
        overlap = sum(share for _, share in overlaps) / len(overlaps)
        support.support_score = round(overlap * (1 + cited.hit.relevance) / 2, 4)
        weighed += support.support_score * len(cited.hit.sentence)
        characters += len(cited.hit.sentence)
    candidate.grounding_score = round(weighed / characters, 4)
    return best.keys()


def _supporting(claim: Cited, found: list[Cited]) -> list[tuple[tuple[int, Passage], float]]:
    """The passages that support a claim, its own first, each with the share of the claim's words it holds."""
    claimed = frozenset(words(claim.hit.sentence))
    supporting = {(claim.source, claim.hit.passage): 1.0}
    for other in found:
        overlap = len(claimed & other.hit.passage.words) / len(claimed)
        if overlap >= SUPPORTING_OVERLAP and len(supporting) < MAX_SUPPORTING_CHUNKS:
            supporting.setdefault((other.source, other.hit.passage), overlap)
    return list(supporting.items())


def _chunk(source: int, passage: Passage) -> Any:
    return FactChunk(
        chunk_text=passage.text,
        source=str(source),
        source_metadata=dict(passage.metadata),
        uri=passage.uri,
        title=passage.title,
        domain=passage.domain,
    )
