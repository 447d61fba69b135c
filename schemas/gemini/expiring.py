"""Stored responses without what the web search found: its links, titles and suggestions."""

from __future__ import annotations

import json
from typing import Any

from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.gemini.merge import merged
from groundrows.schemas.gemini.taking import Taking, read_response

_FOUND_BY_SEARCH = ("web", "image")
"""The kinds of chunks that the web search found; the others come from the user's own stores or from maps."""


def without_search(response: bytes) -> bytes:
    """See `schemas.expiring.without_search`."""
    if response[:1] not in (b"{", b"["):
        raise UndecodableError
    try:
        told = _cleared(response)
        return response if told is None else json.dumps(told, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise UndecodableError from None


def json_without_search(text: str) -> str:
    """See `schemas.expiring.json_without_search`."""
    return without_search(text.encode()).decode()


def _cleared(response: bytes) -> object:
    """The response's JSON without what the search found, or None where it found nothing."""
    told = read_response(response)
    if isinstance(told, dict):
        return told if _clear(told) else None
    # The parts of a stream become one, since chunks that say nothing any more would be taken for repetitions.
    whole = merged(told, Taking())
    return [whole] if _clear(whole) else None


def _clear(response: dict[str, Any]) -> bool:
    """Take out what the search found; returns whether there was any. Chunks keep their places."""
    found = False
    candidates = response.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        metadata = candidate.get("groundingMetadata") if isinstance(candidate, dict) else None
        if not isinstance(metadata, dict):
            continue
        if metadata.get("searchEntryPoint"):
            del metadata["searchEntryPoint"]
            found = True
        chunks = metadata.get("groundingChunks")
        if isinstance(chunks, list):
            metadata["groundingChunks"] = bare = [_bare(chunk) for chunk in chunks]
            found = found or bare != chunks
    return found


def _bare(chunk: object) -> object:
    """A chunk that the search found as one that says its kind alone; any other as it is."""
    if isinstance(chunk, dict):
        for kind in _FOUND_BY_SEARCH:
            if kind in chunk:
                return {kind: {}}
    return chunk
