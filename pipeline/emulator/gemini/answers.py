"""Extractive answers in the API's JSON: a request in, a response out, the same each time."""

from __future__ import annotations

import json
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
    SentenceIndex,
    of_first_documents,
    to_query,
)
from groundrows.pipeline.emulator.answering.text import count_tokens, sentences
from groundrows.pipeline.emulator.answering.websearch import suggestions_for
from groundrows.pipeline.emulator.gemini.calls import Origin, given_facts, user_turns
from groundrows.pipeline.emulator.gemini.validation import MAX_RESULTS

REDIRECT = "https://vertexaisearch.cloud.google.com/grounding-api-redirect/"
_FACTS = -1
"""The number of the source that the prompt's own facts are, beside those of the tools."""


class Extractive:
    """Answers with sentences of the prompt's facts and of a corpus that stands for every search.

    Args:
        corpus: The texts that every search looks through.
        candidates: How many candidates an answer has, unless the request says.
    """

    def __init__(self, corpus: SentenceIndex, *, candidates: int = 1) -> None:
        self._corpus = corpus
        self._candidates = candidates

    def answer(self, origin: Origin, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a valid request."""
        turns = user_turns(request)
        query = to_query(turns)
        found: list[Cited] = []
        consulted = False
        metadata: dict[str, Any] = {}
        kinds: dict[int, str] = {_FACTS: "fact"}
        facts = given_facts(request)
        if facts:
            consulted = True
            hits = SentenceIndex(_passages(facts)).rank(query, MAX_HITS)
            found += [Cited(_FACTS, hit) for hit in hits]
        for position, tool in enumerate(request.get("tools", ())):
            if "googleSearch" in tool or "enterpriseWebSearch" in tool:
                said = tool.get("googleSearch", tool.get("enterpriseWebSearch")) or {}
                left_out = said.get("excludeDomains", ())
                hits = [
                    hit for hit in self._corpus.rank(query, MAX_HITS) if hit.passage.domain not in left_out
                ]
                kinds[position] = "web"
                _describe_search(metadata, turns[-1])
            elif "retrieval" in tool:
                hits = self._retrieved(tool["retrieval"], query)
                kinds[position] = "retrieved"
                metadata.setdefault("retrievalQueries", []).append(turns[-1])
            else:
                continue
            consulted = True
            found += [Cited(position, hit) for hit in hits]
        config = request.get("generationConfig", {})
        count = config.get("candidateCount", self._candidates)
        told = answers_from(found, count, NOTHING_FOUND if consulted else UNGROUNDED)
        thinks = bool(config.get("thinkingConfig", {}).get("includeThoughts"))
        candidates = [
            _candidate(origin, index, answer, metadata, kinds, thinks) for index, answer in enumerate(told)
        ]
        body: dict[str, Any] = {"candidates": candidates}
        body["usageMetadata"] = _usage(origin, request, told, kinds, thinks)
        body["modelVersion"] = origin.model
        body["responseId"] = blake2b(json.dumps(body).encode(), digest_size=12).hexdigest()
        return body

    def _retrieved(self, said: dict[str, Any], query: Any) -> list[Hit]:
        hits = self._corpus.rank(query, MAX_HITS)
        return of_first_documents(hits, said.get("vertexAiSearch", {}).get("maxResults", MAX_RESULTS))


THOUGHT = "I look for what the sources say about this."


def _candidate(
    origin: Origin, index: int, answer: Answer, noted: dict[str, Any], kinds: dict[int, str], thinks: bool
) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": answer.text}]
    if thinks:
        parts.insert(0, {"text": THOUGHT, "thought": True})
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    if index:  # zeros are left out
        candidate["index"] = index
    metadata = {**noted}
    chunks = [chunk for chunk in answer.chunks if kinds[chunk.source] != "fact"]
    if chunks:
        metadata["groundingChunks"] = [_chunk(origin, chunk, kinds[chunk.source]) for chunk in chunks]
        supports = _supports(origin, answer, chunks, part=1 if thinks else 0)
        if supports:
            metadata["groundingSupports"] = supports
    if metadata:
        candidate["groundingMetadata"] = metadata
    return candidate


def _supports(origin: Origin, answer: Answer, chunks: list[Chunk], part: int) -> list[dict[str, Any]]:
    """What of an answer stands on which chunks; what the prompt's own facts say is supported by none."""
    places = {chunk: place for place, chunk in enumerate(chunks)}
    scored = origin.model.startswith("gemini-2.0")  # later models send no scores
    supports = []
    at = 0
    for claim in answer.claims:
        start = answer.text.encode().index(claim.text.encode(), at)
        at = start + len(claim.text.encode())
        cited = [places[answer.chunks[index]] for index in claim.chunks if answer.chunks[index] in places]
        if not cited:
            continue
        segment: dict[str, Any] = {"endIndex": at, "text": claim.text}
        if start:
            segment["startIndex"] = start
        if part:
            segment["partIndex"] = part
        support: dict[str, Any] = {"segment": segment, "groundingChunkIndices": cited}
        if scored:
            support["confidenceScores"] = [claim.score] * len(cited)
        supports.append(support)
    return supports


def _chunk(origin: Origin, chunk: Chunk, kind: str) -> dict[str, Any]:
    passage = chunk.passage
    if kind == "retrieved":
        about = dict(passage.metadata)
        page = int(about.get("page_identifier", "1"))
        return {
            "retrievedContext": {
                "uri": passage.uri,
                "title": passage.title,
                "text": passage.text,
                "documentName": about.get("document_id", ""),
                "ragChunk": {"text": passage.text, "pageSpan": {"firstPage": page, "lastPage": page}},
            }
        }
    token = blake2b(passage.uri.encode(), digest_size=16).hexdigest()
    web = {"uri": f"{REDIRECT}{token}", "title": passage.domain}
    if origin.agent_platform:  # the Developer API does not send it
        web["domain"] = passage.domain
    return {"web": web}


def _describe_search(metadata: dict[str, Any], prompt: str) -> None:
    if suggestions := suggestions_for(prompt):
        metadata["webSearchQueries"] = [suggestions.query]
        metadata["searchEntryPoint"] = {
            "renderedContent": suggestions.html,
            "sdkBlob": suggestions.blob.decode(),
        }


def _usage(
    origin: Origin, request: dict[str, Any], told: list[Answer], kinds: dict[int, str], thinks: bool
) -> dict[str, Any]:
    contents = [*request["contents"], request.get("systemInstruction", {"parts": []})]
    prompt = sum(count_tokens(part["text"]) for content in contents for part in content["parts"])
    seen = {chunk for answer in told for chunk in answer.chunks if kinds[chunk.source] != "fact"}
    counts = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": sum(count_tokens(answer.text) for answer in told),
        "thoughtsTokenCount": count_tokens(THOUGHT) if thinks else 0,
        "toolUsePromptTokenCount": sum(count_tokens(chunk.passage.text) for chunk in seen),
    }
    usage: dict[str, Any] = {name: count for name, count in counts.items() if count}
    usage["totalTokenCount"] = sum(counts.values())
    if origin.agent_platform:
        usage["trafficType"] = origin.traffic_type
    elif "serviceTier" in request:
        usage["serviceTier"] = request["serviceTier"]
    return usage


def _passages(facts: list[str]) -> list[Passage]:
    return [Passage(text=fact, sentences=tuple(sentences(fact))) for fact in facts]
