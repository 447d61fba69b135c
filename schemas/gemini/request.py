"""Requests as bytes: completed with a location, taken on to the next turn, parted into what is sent.

A request is JSON with sorted keys: the members of the body as they are sent, and beside them three that are
not part of the body:

* `model`: the model's name; once the request is addressed, its resource, which goes into the path;
* `headers`: what is sent as headers of HTTP, by name;
* `inline`: facts with the instruction that stands above them in the prompt; addressing a request puts them
  there, and keeps them beside it, since an answer's rows name them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from groundrows.schemas.errors import UndecodableError
from groundrows.schemas.gemini.platform import model_resource
from groundrows.schemas.jsontext import ordered_json
from groundrows.schemas.service import Asked
from groundrows.schemas.spending import CHARACTERS_PER_TOKEN, Need

Envelope = dict[str, Any]

_BESIDE = ("model", "headers", "inline")
_BILLED_SEARCHES = frozenset({"googleSearch", "enterpriseWebSearch"})


def encoded(value: object) -> bytes:
    """A request, or a part of one, as bytes: equal ones are the same bytes."""
    return ordered_json(value).encode()


def decoded(request: bytes) -> Envelope:
    """A request's bytes as what they stand for.

    Raises:
        UndecodableError: They are no request.
    """
    try:
        envelope = json.loads(request)
    except (ValueError, RecursionError):
        raise UndecodableError from None
    if not isinstance(envelope, dict) or not isinstance(envelope.get("contents"), list):
        raise UndecodableError
    return envelope


def parted(request: bytes) -> tuple[str, Mapping[str, str], bytes]:
    """What goes out for a request: the model's resource, headers, and the body."""
    envelope = decoded(request)
    model, headers = envelope.pop("model"), envelope.pop("headers", {})
    envelope.pop("inline", None)
    return model, headers, encoded(envelope)


def turn_request(
    request: bytes, location: str, history: Sequence[tuple[str, str]], text: str, instruction: bytes | None
) -> bytes:
    """The request for a turn as it is sent; see `Service.turn_request`."""
    envelope = decoded(request)
    contents: list[dict[str, Any]] = envelope["contents"]
    if history:
        del contents[-1]  # the first question, which the history holds too
        for asked, answered in history:
            contents += [_content("user", asked), _content("model", answered)]
        contents.append(_content("user", text))
    if instruction is not None:
        envelope["systemInstruction"] = json.loads(instruction)
    if "inline" in envelope:
        contents[-1]["parts"].insert(0, {"text": facts_text(envelope["inline"])})
    envelope["model"] = model_resource(location, envelope["model"])
    return encoded(envelope)


def facts_text(inline: Mapping[str, Any]) -> str:
    """Facts as they stand in the prompt: numbered from 1, under their instruction."""
    lines = [inline["instruction"], ""]
    for index, fact in enumerate(inline["facts"], start=1):
        title = fact["attributes"].get("title")
        lines.append(f"[{index}] {title}: {fact['text']}" if title else f"[{index}] {fact['text']}")
    return "\n".join(lines) + "\n\n"


def model_of(request: bytes) -> str:
    """The name of the model that a request asks."""
    return str(decoded(request).get("model", "")).rpartition("/")[2]


def described(request: bytes) -> Asked:
    """What rows say of a request: its JSON is the body's, with the model and the headers beside."""
    envelope = decoded(request)
    envelope.pop("inline", None)
    tools = envelope.get("tools", ())
    return Asked(
        request_json=ordered_json(envelope),
        model_id=str(envelope.get("model", "")).rpartition("/")[2] or None,
        asks_google=any("googleSearch" in tool for tool in tools),
    )


def need(request: bytes) -> Need:
    """What a request may take; see `Service.need`."""
    envelope = decoded(request)
    config, tools = envelope.get("generationConfig", {}), envelope.get("tools", ())
    return Need(
        model=str(envelope.get("model", "")).rpartition("/")[2],
        prompt=math.ceil(_characters(envelope) / CHARACTERS_PER_TOKEN),
        most_answer=config.get("maxOutputTokens"),
        may_search=any(tool.keys() & _BILLED_SEARCHES for tool in tools),
    )


def text_characters(request: bytes) -> int:
    """Characters of what a model reads of a request: contents, system instruction and facts."""
    return _characters(decoded(request))


def _characters(envelope: Envelope) -> int:
    contents = [*envelope["contents"], envelope.get("systemInstruction", {})]
    count = sum(len(text_of(content)) for content in contents)
    is_addressed = "/" in str(envelope.get("model", ""))  # the facts are in the prompt then
    if "inline" in envelope and not is_addressed:
        count += len(facts_text(envelope["inline"]))
    return count


def text_of(content: Mapping[str, Any]) -> str:
    """The text of a content: its parts together."""
    return "".join(part["text"] for part in content.get("parts", ()))


def _content(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}
