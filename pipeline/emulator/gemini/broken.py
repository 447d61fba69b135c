"""Responses that are wrong in themselves, or odd in ways that users of the service reported."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from groundrows.pipeline.emulator.gemini.streaming import parts_of

OVERSIZED_BYTES = 6 * 1024 * 1024

Change = Callable[[dict[str, Any]], None]


def broken(name: str, variety: int, response: dict[str, Any], *, streams: bool) -> tuple[bytes, ...]:
    """Make the fault `name` of a right response, in parts for a stream."""
    changed = copy.deepcopy(response)
    if name == "undecodable":
        bodies = [json_bytes(part) for part in (parts_of(changed) if streams else [changed])]
        place = variety % len(bodies)
        bodies[place] = (b'{"candidates": [{', b'{"candidates": [{"text": "\xc3\x28"}]}')[variety % 2]
        return tuple(bodies)
    if name == "malformed":
        _MALFORMED[variety % len(_MALFORMED)](changed)
    else:
        _CHANGES[name](changed)
    told = parts_of(changed) if streams else [changed]
    if name == "resent_metadata" and streams:
        told = _resent(told)
    return tuple(json_bytes(part) for part in told)


def json_bytes(value: object) -> bytes:
    """A response, or a part of one, as it is sent."""
    return json.dumps(value, ensure_ascii=False).encode()


def _resent(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The grounding of the stream once more in its last part, whole."""
    for part in told:
        for candidate in part.get("candidates", ()):
            if "groundingMetadata" in candidate:
                return [*told, {"candidates": [{"groundingMetadata": candidate["groundingMetadata"]}]}]
    return told


def _first(response: dict[str, Any]) -> dict[str, Any]:
    candidate: dict[str, Any] = response["candidates"][0]
    return candidate


def _metadata(response: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = _first(response).setdefault("groundingMetadata", {})
    return metadata


def _text(response: dict[str, Any]) -> str:
    return str(_first(response)["content"]["parts"][-1]["text"])


def _empty(response: dict[str, Any]) -> None:
    del response["candidates"]


def _no_content(response: dict[str, Any]) -> None:
    for candidate in response["candidates"]:
        candidate.pop("content")
        candidate.pop("groundingMetadata", None)


def _oversized(response: dict[str, Any]) -> None:
    part = _first(response)["content"]["parts"][-1]
    part["text"] = (part["text"] + " ") * (OVERSIZED_BYTES // (len(part["text"].encode()) + 1) + 1)


def _odd_supports(response: dict[str, Any]) -> None:
    """Supports that point nowhere, score what cannot be, and quote what was never said."""
    metadata, text = _metadata(response), _text(response)
    metadata.setdefault("groundingChunks", []).extend([{}, {"web": None}, {"unheardOf": {"uri": "x"}}])
    metadata.setdefault("groundingSupports", []).extend(
        [
            {"segment": {"text": text[:20], "endIndex": 3}, "groundingChunkIndices": [-1, 999]},
            {"segment": {"text": "Never said.", "endIndex": 2**40}, "groundingChunkIndices": [0, 0]},
            {"segment": {"text": "**", "startIndex": -1}, "confidenceScores": [1.5]},
            {"groundingChunkIndices": "0", "segment": []},
            {"segment": {"startIndex": 1, "endIndex": 2}, "groundingChunkIndices": [0]},
        ]
    )


def _odd_kinds(response: dict[str, Any]) -> None:
    """Values of other kinds than the reference has."""
    _first(response)["finishMessage"] = 7
    _first(response)["safetyRatings"] = {"category": []}
    _first(response)["citationMetadata"] = {"citations": [None, {"startIndex": "3", "endIndex": 1.5}]}
    _metadata(response)["webSearchQueries"] = ["", "twice", "twice", 3]
    response["usageMetadata"] = {"promptTokenCount": "12", "totalTokenCount": -1, "trafficType": ["x"]}
    response["modelVersion"] = None


def _odd_text(response: dict[str, Any]) -> None:
    """Text with a NUL, an emoji, a combining mark and half of a surrogate pair."""
    text = _text(response)
    _first(response)["content"]["parts"].append({"text": f" 🙂\0 e\u0301 {text}"})


def _odd_parts(response: dict[str, Any]) -> None:
    """Parts that are no text among those that are."""
    parts = _first(response)["content"]["parts"]
    parts[:0] = [{"functionCall": {"name": "search"}}, None, {"text": None}, {"thoughtSignature": "c2ln"}]


_MALFORMED: tuple[Change, ...] = (_odd_supports, _odd_kinds, _odd_text, _odd_parts)


def _prompt_blocked(response: dict[str, Any]) -> None:
    del response["candidates"]
    response["promptFeedback"] = {
        "blockReason": "PROHIBITED_CONTENT",
        "blockReasonMessage": "The prompt was blocked.",
    }


def _ends(reason: str, message: str | None = None) -> Change:
    """Without text, for a reason."""

    def change(response: dict[str, Any]) -> None:
        _no_content(response)
        for candidate in response["candidates"]:
            candidate["content"] = {"role": "model"}
            candidate["finishReason"] = reason
            if message is not None:
                candidate["finishMessage"] = message

    return change


def _recitation(response: dict[str, Any]) -> None:
    """Withheld, with what it would have repeated."""
    _ends("RECITATION")(response)
    _first(response)["citationMetadata"] = {
        "citations": [{"endIndex": 40, "uri": "https://recited.example/"}]
    }


def _no_chunks(response: dict[str, Any]) -> None:
    _metadata(response).pop("groundingChunks", None)


def _no_grounding(response: dict[str, Any]) -> None:
    _first(response).pop("groundingMetadata", None)


def _thought_first(response: dict[str, Any]) -> None:
    """A thought before the text, and offsets that do not say which part they count in."""
    _first(response)["content"]["parts"].insert(0, {"text": "Let me see.", "thought": True})


def _two_parts(response: dict[str, Any]) -> None:
    """The text in two parts, offsets counting from the start of both together."""
    parts = _first(response)["content"]["parts"]
    text = parts[-1]["text"]
    middle = text.find(" ") + 1
    parts[-1:] = [{"text": text[:middle]}, {"text": text[middle:]}]


def _continuation(response: dict[str, Any]) -> None:
    _first(response)["finishReason"] = "CONTINUATION"
    _first(response)["continuationToken"] = "YWJj"


def _unheard_of(response: dict[str, Any]) -> None:
    """A finish reason and a field that nobody knows yet."""
    _first(response)["finishReason"] = "SOMETHING_NEW"
    for chunk in _metadata(response).get("groundingChunks", ()):
        chunk["chunkMetadata"] = {"query": "q"}


def _queries_twice(response: dict[str, Any]) -> None:
    queries = _metadata(response).get("webSearchQueries", [])
    queries.extend(queries)


def _cite_marks(response: dict[str, Any]) -> None:
    """Marks that the model writes into its text, as if they cited something."""
    part = _first(response)["content"]["parts"][-1]
    part["text"] += " [cite: 5]"


def _urls_above(response: dict[str, Any]) -> None:
    """What was read of the addresses in the question, above the candidate rather than in it."""
    read = {"retrievedUrl": "https://read.example/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}
    response["urlContextMetadata"] = {"urlMetadata": [read]}


def _nothing(response: dict[str, Any]) -> None:
    """Where there is no stream, nothing can be sent again."""


_CHANGES: dict[str, Change] = {
    "empty": _empty,
    "no_content": _no_content,
    "oversized": _oversized,
    "prompt_blocked": _prompt_blocked,
    "answer_blocked": _recitation,
    "truncated": _ends("MAX_TOKENS"),
    "tool_call": _ends("UNEXPECTED_TOOL_CALL", "The model called a tool that is not there: run."),
    "malformed_call": _ends("MALFORMED_FUNCTION_CALL"),
    "no_chunks": _no_chunks,
    "no_grounding": _no_grounding,
    "thought_first": _thought_first,
    "two_parts": _two_parts,
    "continuation": _continuation,
    "unheard_of": _unheard_of,
    "queries_twice": _queries_twice,
    "resent_metadata": _nothing,
    "cite_marks": _cite_marks,
    "urls_above": _urls_above,
}
