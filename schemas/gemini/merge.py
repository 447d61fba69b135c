"""A streamed response as one, as if it had come so."""

from __future__ import annotations

from typing import Any

from groundrows.schemas.gemini.taking import Taking

_LISTS = (
    "groundingChunks",
    "groundingSupports",
    "webSearchQueries",
    "retrievalQueries",
    "imageSearchQueries",
)


def merged(parts: list[Any], taking: Taking) -> dict[str, Any]:
    """Put the parts of a stream together.

    A candidate's parts are told by its index. Its pieces of text follow each other. Chunks, supports and
    queries add up over all parts, since a support cites chunks by their place in all of them; but a list that
    begins with all that came so far is the same list sent again, and takes its place. Of everything else the
    last that was sent is kept, except for what is said of the prompt, which comes once.

    Args:
        parts: The responses that the stream told, in order; they are left as they are.
        taking: Notes what is of another kind than expected.
    """
    whole: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    for part in parts:
        told = dict(taking.members(part, "stream"))
        sent = taking.objects(told.pop("candidates", None), "candidates")
        whole |= told
        for candidate in sent:
            index = taking.offset(candidate, "index") or 0
            _add(candidates.setdefault(index, {"index": index}), candidate, taking)
    if candidates:
        whole["candidates"] = [candidates[index] for index in sorted(candidates)]
    return whole


def _add(whole: dict[str, Any], part: dict[str, Any], taking: Taking) -> None:
    for name, value in part.items():
        if value is None or name == "index":
            continue
        if name == "content":
            content = taking.members(value, name)
            held = whole.setdefault("content", {})
            held.update({key: item for key, item in content.items() if key != "parts"})
            held.setdefault("parts", []).extend(taking.items(content.get("parts"), "parts"))
        elif name == "groundingMetadata":
            _add_metadata(whole.setdefault(name, {}), taking.members(value, name), taking)
        elif name == "citationMetadata":
            held = whole.setdefault(name, {})
            citations = taking.items(taking.members(value, name).get("citations"), "citations")
            held["citations"] = _joined(held.get("citations", []), citations)
        else:
            whole[name] = value


def _add_metadata(whole: dict[str, Any], part: dict[str, Any], taking: Taking) -> None:
    for name, value in part.items():
        if value is None:
            continue
        if name in _LISTS:
            whole[name] = _joined(whole.get(name, []), taking.items(value, name))
        else:
            whole[name] = value


def _joined(held: list[Any], sent: list[Any]) -> list[Any]:
    return sent if sent[: len(held)] == held else [*held, *sent]
