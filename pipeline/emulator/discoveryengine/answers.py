"""Extractive answers in the API's messages: a request in, a response out, the same each time."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Any

from groundrows.pipeline.emulator.answering.extractive import (
    NOTHING_FOUND,
    UNGROUNDED,
    Answer,
    Chunk,
    Cited,
    answers_from,
)
from groundrows.pipeline.emulator.answering.retrieval import (
    MAX_HITS,
    Hit,
    Passage,
    Query,
    SentenceIndex,
    of_first_documents,
    to_query,
)
from groundrows.pipeline.emulator.answering.text import sentences
from groundrows.pipeline.emulator.answering.websearch import phishing_confidence, prediction, suggestions_for
from groundrows.pipeline.emulator.discoveryengine.messages import FactChunk, Response, Retrieved, user_turns

DEFAULT_THRESHOLD = 0.7
DEFAULT_RESULTS = 10


class Extractive:
    """Answers with sentences of the request's own facts and of a corpus that stands for every search.

    Args:
        corpus: The texts that every search looks through.
        candidates: How many candidates an answer has.
        images: For how many of the pages it cites an answer from Google Search has an image, at most.
        videos: The same for videos, which only v1beta's messages have a field for.
    """

    def __init__(
        self, corpus: SentenceIndex, *, candidates: int = 1, images: int = 0, videos: int = 0
    ) -> None:
        self._corpus = corpus
        self._candidates = candidates
        self._images = images
        self._videos = videos

    def answer(self, request: Any, *, wide: bool = True) -> Any:
        """Answer a valid `GenerateGroundedContentRequest` with a `GenerateGroundedContentResponse`.

        The candidate of index 0 comes last: no client may rely on the order. Each further candidate tells
        what those before it left out, if anything is left.

        Args:
            request: The request, of any version.
            wide: Whether the response may hold what v1beta has and v1 has not.
        """
        turns = user_turns(request)
        query = to_query(turns)
        noted = Response.Candidate.GroundingMetadata()
        found: list[Cited] = []
        consulted = False
        for position, source in enumerate(request.grounding_spec.grounding_sources):
            if not _is_retrieved(source, turns[-1], noted):
                continue
            consulted = True
            if source.WhichOneof("source") == "google_search_source":
                _describe_search(noted, turns[-1])
            found.extend(Cited(position, hit) for hit in self._search(source, query))
        response = Response()
        told = answers_from(found, self._candidates, NOTHING_FOUND if consulted else UNGROUNDED)
        for index, answer in reversed(list(enumerate(told))):
            candidate = response.candidates.add(index=index)
            candidate.content.role = "model"
            candidate.content.parts.add(text=answer.text)
            if noted.ByteSize():
                candidate.grounding_metadata.CopyFrom(noted)
            if answer.claims:
                _ground(candidate, answer)
                if noted.web_search_queries:
                    add_media(candidate.grounding_metadata, self._images, self._videos, wide=wide)
        return response

    def _search(self, source: Any, query: Query) -> list[Hit]:
        kind = source.WhichOneof("source")
        if kind == "inline_source":
            return SentenceIndex(_inline_passages(source.inline_source)).rank(query, MAX_HITS)
        hits = self._corpus.rank(query, MAX_HITS)
        if kind == "search_source":
            wanted = source.search_source.max_result_count or DEFAULT_RESULTS
            return of_first_documents(hits, wanted)
        return [hit for hit in hits if may_show(getattr(source, kind), hit.passage.domain)]


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


def _describe_search(metadata: Any, prompt: str) -> None:
    """Add the query and the search entry point for a prompt to a candidate's grounding metadata."""
    if suggestions := suggestions_for(prompt):
        metadata.web_search_queries.append(suggestions.query)
        metadata.search_entry_point.rendered_content = suggestions.html
        metadata.search_entry_point.sdk_blob = suggestions.blob


def may_show(search: Any, domain: str) -> bool:
    """Whether a search of the web that is set up in this way may show a site; v1's never leave one out."""
    if domain in getattr(search, "exclude_domains", ()):
        return False
    blocked_from = getattr(search, "blocking_confidence", 0)
    return not blocked_from or phishing_confidence(domain) < blocked_from


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


def _ground(candidate: Any, answer: Answer) -> None:
    """Write an answer's chunks, supports and score into a candidate."""
    metadata = candidate.grounding_metadata
    metadata.support_chunks.extend(map(_chunk, answer.chunks))
    for claim in answer.claims:
        metadata.grounding_support.add(
            claim_text=claim.text, support_chunk_indices=claim.chunks, support_score=claim.score
        )
    candidate.grounding_score = answer.score


def _chunk(chunk: Chunk) -> Any:
    passage = chunk.passage
    return FactChunk(
        chunk_text=passage.text,
        source=str(chunk.source),
        source_metadata=dict(passage.metadata),
        uri=passage.uri,
        title=passage.title,
        domain=passage.domain,
    )


def add_media(metadata: Any, images: int, videos: int, *, wide: bool) -> None:
    """Add an image for each of the first pages that an answer cites, and a video likewise.

    Args:
        metadata: The answer's grounding metadata, chunks included.
        images: How many images there may be.
        videos: How many videos there may be.
        wide: Whether there may be videos and the names of sites, which v1 has no fields for.
    """
    pages = list({chunk.uri: chunk for chunk in metadata.support_chunks if chunk.uri}.values())
    for page in pages[:images]:
        image = metadata.images.add()
        image.image.uri, image.image.width, image.image.height = f"{page.uri}/image.jpg", 1200, 800
        image.thumbnail.uri, image.thumbnail.width, image.thumbnail.height = f"{page.uri}/small.jpg", 150, 100
        image.source.uri, image.source.title = page.uri, page.title
        if wide:
            image.source.site_display_name = page.domain
    for page in pages[:videos] if wide else ():
        digest = blake2b(page.uri.encode(), digest_size=8).digest()
        metadata.videos.add(youtube_external_id=urlsafe_b64encode(digest).decode().rstrip("="))
