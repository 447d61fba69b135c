"""One prebuilt answer, for measuring the client rather than the answering."""

from __future__ import annotations

from functools import cache
from typing import Any

from groundrows.pipeline.emulator.answering.canned import CHUNK_CHARACTERS, CLAIMS
from groundrows.pipeline.emulator.gemini.broken import json_bytes
from groundrows.pipeline.emulator.gemini.streaming import parts_of


@cache
def canned_answer() -> bytes:
    """The canned answer: five sentences, five supports, five chunks of 300 characters."""
    return json_bytes(canned_response())


@cache
def canned_stream() -> tuple[bytes, ...]:
    """The canned answer in parts."""
    return tuple(json_bytes(part) for part in parts_of(canned_response()))


def canned_response() -> dict[str, Any]:
    """The canned answer, made anew."""
    chunks, supports = [], []
    at = 0
    for position, claim in enumerate(CLAIMS):
        chunks.append(
            {
                "retrievedContext": {
                    "uri": f"https://canned.example/{position}",
                    "title": "Canned answer",
                    "text": (claim + " ").ljust(CHUNK_CHARACTERS, "x"),
                }
            }
        )
        segment: dict[str, Any] = {"endIndex": at + len(claim), "text": claim}
        if at:
            segment["startIndex"] = at
        supports.append({"segment": segment, "groundingChunkIndices": [position]})
        at += len(claim) + 1
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": " ".join(CLAIMS)}]},
                "finishReason": "STOP",
                "groundingMetadata": {
                    "webSearchQueries": ["measuring run"],
                    "groundingChunks": chunks,
                    "groundingSupports": supports,
                },
            }
        ],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 60, "totalTokenCount": 70},
        "modelVersion": "canned",
        "responseId": "canned",
    }
