"""Gemini's responses, read into the form that belongs to no service."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.gemini.chunks import fact_chunks, images_of, links_expire, read_chunks
from groundrows.schemas.gemini.merge import merged
from groundrows.schemas.gemini.places import Places, Segment
from groundrows.schemas.gemini.request import decoded
from groundrows.schemas.gemini.taking import Taking, read_response
from groundrows.schemas.gemini.verdict import has_text, parts_of, verdict
from groundrows.schemas.jsontext import writable
from groundrows.schemas.outcome import Answer
from groundrows.schemas.response import (
    Candidate,
    Chunk,
    Claim,
    Response,
    Unanswered,
    Usage,
    numbers_of,
)
from groundrows.schemas.rows import Citation, FetchedUrl, Retrieval, SafetyRating
from groundrows.schemas.spending import Spent

_CUT = {
    "MAX_TOKENS": "The answer was cut at the output limit (MAX_TOKENS).",
    "CONTINUATION": "The answer breaks off and could be continued (CONTINUATION), which is not asked for.",
}


def read_answer(answer: Answer, *, keep: bool) -> Response:
    """See `Service.read`."""
    try:
        return _read(answer, keep)
    except RecursionError:
        raise UndecodableError from None


def said(answer: Answer) -> str | None:
    """See `Service.said`; None for a response that answers nothing, too."""
    taking = Taking()
    try:
        response = _one(read_response(answer.response), taking)
        if verdict(response, taking) is not None:
            return None
        candidates = taking.objects(response.get("candidates"), "candidates")
    except RecursionError:
        raise UndecodableError from None
    if not candidates:
        return None
    numbers, _ = numbers_of([taking.offset(candidate, "index") or 0 for candidate in candidates])
    parts = _parts(candidates[list(numbers).index(0)], taking)
    return "".join(part for part in parts if part is not None)


def judged(read: object) -> tuple[Unanswered | None, Spent | None]:
    """Look at a response, of which the JSON was read, as far as a caller needs to.

    Returns:
        Why it answers nothing, or None; and what it took, or None where it does not say.

    Raises:
        UndecodableError: It is no response.
    """
    taking = Taking()
    try:
        response = _one(read, taking)
        return verdict(response, taking), _spent(response, taking)
    except RecursionError:
        raise UndecodableError from None


def _spent(response: dict[str, Any], taking: Taking) -> Spent | None:
    usage = _usage(response, taking)
    parts = (usage.prompt, usage.answer, usage.thoughts, usage.tool)
    total = usage.total if usage.total is not None else sum(part or 0 for part in parts)
    if not total:
        return None  # a call takes some, so nothing was said
    queries: set[str] = set()
    for candidate in taking.objects(response.get("candidates"), "candidates"):
        metadata = taking.members(candidate.get("groundingMetadata"), "groundingMetadata")
        queries.update(query for query in taking.texts(metadata, "webSearchQueries") if query.strip())
    return Spent(
        prompt=usage.prompt or 0,
        cached=usage.cached or 0,
        answer=usage.answer or 0,
        thought=usage.thoughts or 0,
        tool=usage.tool or 0,
        total=total,
        searches=len(queries),
        searched_calls=int(bool(queries)),
    )


def _one(value: object, taking: Taking) -> dict[str, Any]:
    """A response as one object, whether it came in one or as a stream."""
    if isinstance(value, list):
        return merged(value, taking)
    if not isinstance(value, dict):
        raise UndecodableError
    return value


def _read(answer: Answer, keep: bool) -> Response:
    taking = Taking()
    response = _one(read_response(answer.response), taking)
    request = decoded(answer.request)
    unanswered = verdict(response, taking)
    sent = [] if unanswered else taking.objects(response.get("candidates"), "candidates")
    numbers, oddities = numbers_of([taking.offset(candidate, "index") or 0 for candidate in sent])
    facts = fact_chunks(request["inline"], taking) if "inline" in request else []
    searches_enterprise = any("enterpriseWebSearch" in tool for tool in request.get("tools", ()))
    # Some models say above the candidates which addresses they read.
    urls_above = response.get("urlContextMetadata")
    read = _CandidateReader(taking, facts, searches_enterprise, answer.streamed, urls_above)
    candidates = [read(*each) for each in zip(sent, numbers, oddities, strict=True)]
    return Response(
        candidates,
        writable(answer.response.decode()) if keep else None,
        taking.warnings(),
        unanswered,
        _usage(response, taking),
        taking.text(response, "modelVersion"),
        taking.text(response, "responseId"),
    )


def _usage(response: dict[str, Any], taking: Taking) -> Usage:
    usage = taking.members(response.get("usageMetadata"), "usageMetadata")
    return Usage(
        taking.count(usage, "promptTokenCount"),
        taking.count(usage, "candidatesTokenCount"),
        taking.count(usage, "thoughtsTokenCount"),
        taking.count(usage, "toolUsePromptTokenCount"),
        taking.count(usage, "cachedContentTokenCount"),
        taking.count(usage, "totalTokenCount"),
        taking.text(usage, "trafficType") or taking.text(usage, "serviceTier"),
    )


def _parts(candidate: dict[str, Any], taking: Taking) -> list[str | None]:
    """A candidate's parts: the texts of its answer, and None for thoughts and all that is no text."""
    return [
        None if taking.flag(part, "thought") else taking.text(part, "text")
        for part in parts_of(candidate, taking)
    ]


def _thoughts(candidate: dict[str, Any], taking: Taking) -> str | None:
    thoughts = [
        taking.text(part, "text") or ""
        for part in parts_of(candidate, taking)
        if taking.flag(part, "thought")
    ]
    return "".join(thoughts) or None


class _CandidateReader:
    """Reads the candidates of one response.

    Args:
        taking: Takes the values.
        facts: The facts that the request held, as chunks.
        searches_enterprise: Whether the tool for enterprises searches the web, and not Google Search.
        streamed: Whether the response came as a stream.
        urls_above: What the response says of addresses that were read, for candidates that say nothing.
    """

    def __init__(
        self,
        taking: Taking,
        facts: Sequence[Chunk],
        searches_enterprise: bool,
        streamed: bool,
        urls_above: object = None,
    ) -> None:
        self._take = taking
        self._facts = facts
        self._web = "ENTERPRISE_WEB_RETRIEVAL" if searches_enterprise else "GOOGLE_SEARCH"
        self._streamed = streamed
        self._urls_above = urls_above

    def __call__(self, candidate: dict[str, Any], index: int, oddities: tuple[str, ...]) -> Candidate:
        """Read the candidate of a number."""
        take = self._take
        warnings = [*oddities]
        metadata = take.members(candidate.get("groundingMetadata"), "groundingMetadata")
        sent = take.objects(metadata.get("groundingChunks"), "groundingChunks")
        chunks = read_chunks(sent, take)
        places = Places(_parts(candidate, take), whole_first=self._streamed)
        claims = self._claims(metadata, places, warnings)
        queries = take.texts(metadata, "webSearchQueries")
        entry = take.members(metadata.get("searchEntryPoint"), "searchEntryPoint")
        reason = take.text(candidate, "finishReason")
        if reason in _CUT:
            warnings.append(_CUT[reason])
        if claims and not chunks and not self._facts:
            warnings.append("The service sent supports but none of the chunks that they cite.")
        facts_alone = bool(self._facts) and not claims
        if facts_alone:
            warnings.append(
                "The facts were part of the prompt, and Gemini does not say which of them support what: "
                "support_coverage is left out."
            )
        return Candidate(
            index=index,
            text=places.text if has_text(candidate, take) or "content" in candidate else None,
            role=take.text(take.members(candidate.get("content"), "content"), "role"),
            score=None,
            chunks=[*chunks, *self._facts],
            claims=claims,
            retrieval=self._retrieval(metadata, queries),
            queries=queries,
            suggestions_html=take.text(entry, "renderedContent"),
            search_blob=self._blob(entry),
            images=images_of(sent, take),
            videos=(),
            warnings=tuple(warnings),
            finish_reason=reason,
            finish_message=take.text(candidate, "finishMessage"),
            retrieval_queries=take.texts(metadata, "retrievalQueries"),
            billed_searches=len({query for query in queries if query.strip()}),
            thoughts=_thoughts(candidate, take),
            safety_ratings=self._safety(candidate),
            citations=self._citations(candidate),
            urls=self._urls(candidate),
            avg_logprobs=take.number(candidate.get("avgLogprobs"), "avgLogprobs"),
            has_claims=not facts_alone,
            links_expire=links_expire(chunks),
        )

    def _claims(self, metadata: dict[str, Any], places: Places, warnings: list[str]) -> list[Claim]:
        take = self._take
        supports = take.objects(metadata.get("groundingSupports"), "groundingSupports")
        segments = []
        for support in supports:
            segment = take.members(support.get("segment"), "segment")
            segments.append(
                Segment(
                    take.text(segment, "text") or "",
                    take.offset(segment, "partIndex") or 0,
                    take.offset(segment, "startIndex") or 0,
                    take.offset(segment, "endIndex") or 0,
                )
            )
        claims = []
        for support, place in zip(supports, places.find(segments, warnings), strict=True):
            indices = take.items(support.get("groundingChunkIndices"), "groundingChunkIndices")
            cited = [self._index(value) for value in indices]
            scores = [
                take.number(value, "confidenceScores")
                for value in take.items(support.get("confidenceScores"), "confidenceScores")
            ]
            claims.append(Claim(place.text, cited, None, place.span, scores))
        return claims

    def _index(self, value: object) -> int:
        """A chunk's place; one that no chunk has for what is no number."""
        found = self._take.offset({"groundingChunkIndices": value}, "groundingChunkIndices")
        return -1 if found is None else found

    def _retrieval(self, metadata: dict[str, Any], queries: Sequence[str]) -> list[Retrieval]:
        """One entry for each kind of search that left a trace."""
        take = self._take
        found = []
        about = take.members(metadata.get("retrievalMetadata"), "retrievalMetadata")
        prediction = take.number(about.get("googleSearchDynamicRetrievalScore"), "retrievalMetadata")
        if queries or prediction is not None:
            found.append(Retrieval(self._web, None, prediction))
        if take.texts(metadata, "retrievalQueries"):
            found.append(Retrieval("VERTEX_AI_SEARCH", None, None))
        if self._facts:
            found.append(Retrieval("INLINE_CONTENT", None, None))
        return found

    def _blob(self, entry: dict[str, Any]) -> bytes | None:
        sent = self._take.text(entry, "sdkBlob")
        if sent is None:
            return None
        try:
            return base64.b64decode(sent + "=" * (-len(sent) % 4), altchars=b"-_", validate=False)
        except (binascii.Error, ValueError):
            self._take.odd["sdkBlob"] = None
            return None

    def _safety(self, candidate: dict[str, Any]) -> tuple[SafetyRating, ...]:
        take = self._take
        ratings = take.objects(candidate.get("safetyRatings"), "safetyRatings")
        return tuple(
            SafetyRating(
                take.text(rating, "category"),
                take.text(rating, "probability"),
                take.number(rating.get("probabilityScore"), "probabilityScore"),
                take.text(rating, "severity"),
                take.number(rating.get("severityScore"), "severityScore"),
                take.flag(rating, "blocked"),
            )
            for rating in ratings
        )

    def _citations(self, candidate: dict[str, Any]) -> tuple[Citation, ...]:
        take = self._take
        about = take.members(candidate.get("citationMetadata"), "citationMetadata")
        sent = about.get("citations", about.get("citationSources"))
        return tuple(
            Citation(
                take.offset(citation, "startIndex"),
                take.offset(citation, "endIndex"),
                take.text(citation, "uri"),
                take.text(citation, "title"),
                take.text(citation, "license"),
            )
            for citation in take.objects(sent, "citations")
        )

    def _urls(self, candidate: dict[str, Any]) -> tuple[FetchedUrl, ...]:
        take = self._take
        about = take.members(candidate.get("urlContextMetadata", self._urls_above), "urlContextMetadata")
        return tuple(
            FetchedUrl(take.text(one, "retrievedUrl"), take.text(one, "urlRetrievalStatus"))
            for one in take.objects(about.get("urlMetadata"), "urlMetadata")
        )
