"""Why a response answers nothing, told apart by what asking again can do about it."""

from __future__ import annotations

from typing import Any

from groundrows.schemas.codes import EMPTY_ANSWER
from groundrows.schemas.gemini.taking import Taking
from groundrows.schemas.response import Unanswered

BLOCKING = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "LANGUAGE",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
"""Reasons to end by which the service withholds an answer: asked again, it does so again."""

_MOST_CHARACTERS = 300


def verdict(response: dict[str, Any], taking: Taking) -> Unanswered | None:
    """Say why a response holds no answer; None when one of its candidates has text.

    A candidate with text is an answer whatever the reason for which it ends.
    """
    candidates = taking.objects(response.get("candidates"), "candidates")
    if any(has_text(candidate, taking) for candidate in candidates):
        return None
    if not candidates:
        feedback = taking.members(response.get("promptFeedback"), "promptFeedback")
        reason = taking.text(feedback, "blockReason")
        if reason is None:
            return None  # there is no candidate, and no word on why
        return Unanswered(
            "PROMPT_BLOCKED",
            f"The service refuses the prompt ({reason}"
            f"{_words(taking.text(feedback, 'blockReasonMessage'))}): word the question differently.",
        )
    reason = taking.text(candidates[0], "finishReason") or "no reason given"
    said = _words(taking.text(candidates[0], "finishMessage"))
    if reason == "MAX_TOKENS":
        return Unanswered(
            "TRUNCATED",
            f"The output limit was used up before a word of the answer (MAX_TOKENS{said}): raise "
            "max_output_tokens in the generation_spec, or lower thinking under gemini.",
        )
    if reason in BLOCKING:
        return Unanswered(
            "ANSWER_BLOCKED",
            f"The service withholds its answer ({reason}{said}): word the question differently.",
        )
    return Unanswered(
        EMPTY_ANSWER,
        f"The service's answer is empty ({reason}{said}): ask again.",
        retryable=True,
    )


def has_text(candidate: dict[str, Any], taking: Taking) -> bool:
    """Whether a candidate has text that is no thought."""
    for part in parts_of(candidate, taking):
        if taking.text(part, "text") and not taking.flag(part, "thought"):
            return True
    return False


def parts_of(candidate: dict[str, Any], taking: Taking) -> list[dict[str, Any]]:
    """A candidate's parts: texts, thoughts and whatever else."""
    content = taking.members(candidate.get("content"), "content")
    return taking.objects(content.get("parts"), "parts")


def _words(message: str | None) -> str:
    return f": {' '.join(message.split())[:_MOST_CHARACTERS]}" if message else ""
