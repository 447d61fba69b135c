"""A whole answer told in parts, in the ways in which the streaming method was seen to do so."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

WORDS_IN_PIECE = 9
_PIECE = re.compile(rf"(?:\s*\S+){{1,{WORDS_IN_PIECE}}}(?:\s+\Z)?|\s+\Z")


def parts_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Tell a response in parts, candidate after candidate.

    Grounding comes, by the text, with the last piece of it, with the one before, or after all text in a part
    without content. Offsets count from the start of the whole text. Usage comes last.

    Args:
        response: A response; it is left as it is.

    Returns:
        Responses, at least one.
    """
    common = {name: response[name] for name in ("modelVersion", "responseId") if name in response}
    parts = [
        {"candidates": [told], **common}
        for candidate in response.get("candidates", ())
        for told in _told(candidate)
    ]
    if "usageMetadata" in response:
        parts.append({"usageMetadata": response["usageMetadata"], **common})
    rest = {name: item for name, item in response.items() if name not in _TOLD}
    if rest or not parts:
        parts.insert(0, {**rest, **common})
    return parts


_TOLD = frozenset({"candidates", "modelVersion", "responseId", "usageMetadata"})


def _told(candidate: dict[str, Any]) -> list[dict[str, Any]]:
    content = candidate.get("content", {})
    index = {"index": candidate["index"]} if "index" in candidate else {}
    told: list[dict[str, Any]] = []
    texts = 0
    for part in content.get("parts", ()):
        marks = {name: item for name, item in part.items() if name != "text"}
        pieces = _PIECE.findall(part.get("text", "")) or [part.get("text", "")]
        texts += not part.get("thought")
        told += [
            {"content": {"role": "model", "parts": [{"text": piece, **marks}]}, **index} for piece in pieces
        ]
    rest = {name: item for name, item in candidate.items() if name not in ("content", "index")}
    metadata = rest.pop("groundingMetadata", None)
    if not told:
        told.append({**({"content": content} if content else {}), **index})
    if metadata is not None:
        way = crc32(str(content).encode()) % 3
        if way == 2:
            told[-1].update(rest)
            told.append({"groundingMetadata": metadata, **index})
            return told
        told[-1 if way == 0 or len(told) == 1 else -2]["groundingMetadata"] = metadata
    told[-1].update(rest)
    return told
