"""Requests as bytes: completed with a location, taken on to the next turn, shown as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from google.protobuf import json_format

from groundrows.schemas.discoveryengine.build import add_content
from groundrows.schemas.discoveryengine.messages import Pb, request_class
from groundrows.schemas.jsontext import ordered_json
from groundrows.schemas.service import Asked, Method

_GROUNDING_CONFIG = "default_grounding_config"


def with_location(request: bytes, api_version: str, location: str, method: Method = "generate") -> bytes:
    """The request, addressed to `location`: `projects/P/locations/L`.

    A check is addressed to the location's grounding config, of which the service has one, the default.
    Map fields keep a deterministic order, so that the same request is the same bytes.
    """
    message = request_class(api_version, method).FromString(request)
    if method == "check":
        message.grounding_config = f"{location}/groundingConfigs/{_GROUNDING_CONFIG}"
    else:
        message.location = location
    return _serialized(message)


def with_instruction(request: bytes, api_version: str, instruction: bytes) -> bytes:
    """The request with another system instruction: a serialized `GroundedGenerationContent`."""
    message = request_class(api_version).FromString(request)
    message.system_instruction.ParseFromString(instruction)
    return _serialized(message)


def next_turn_request(
    request: bytes, api_version: str, history: Sequence[tuple[str, str]], user_text: str
) -> bytes:
    """The request for a later turn: the service keeps nothing, so each one says everything again.

    Args:
        request: The request of the first turn, as in `Question.request`; its system instruction, sources,
            labels, generation spec and location carry over.
        api_version: Whose message it is.
        history: What was asked and what was answered, a pair for each turn so far, the first one included.
        user_text: What the user asks now.

    Returns:
        The serialized request: what stood before the first question, then the history, then `user_text`.
    """
    message = request_class(api_version).FromString(request)
    if message.contents:
        del message.contents[-1]  # the first question, which the history holds too
    for asked, answered in history:
        add_content(message.contents, "user", asked)
        add_content(message.contents, "model", answered)
    add_content(message.contents, "user", user_text)
    return _serialized(message)


def described(request: bytes, api_version: str) -> Asked:
    """What rows say of a request for an answer.

    Its JSON has the API's names, in camelCase; fields that this version does not know are left out. Keys are
    sorted: protobuf gives map fields in any order, and the same request is the same text.

    Raises:
        DecodeError: It is no request of its version.
    """
    message: Pb = request_class(api_version).FromString(request)
    contents = ",".join([_content_json(content) for content in message.contents])
    del message.contents[:]
    settings = _serialized(message)
    # A run's requests differ in their contents and little else; describing the rest anew each time took a
    # tenth of the time that a question's rows take.
    known = _settings if len(settings) <= _CACHED_BYTES else _settings.__wrapped__
    rest, model_id, asks_google = known(settings, api_version)
    return Asked(f"{_UP_TO_CONTENTS}{contents}{rest}", model_id, asks_google)


def text_characters(request: bytes, api_version: str, method: Method = "generate") -> int:
    """Characters of what a model reads of a request: contents, system instruction and inline facts.

    Of a check: the answer and the facts.
    """
    message = request_class(api_version, method).FromString(request)
    if method == "check":
        return len(message.answer_candidate) + sum(len(fact.fact_text) for fact in message.facts)
    parts = [part for content in (*message.contents, message.system_instruction) for part in content.parts]
    facts = [
        fact
        for source in message.grounding_spec.grounding_sources
        for fact in source.inline_source.grounding_facts
    ]
    return sum(len(part.text) for part in parts) + sum(len(fact.fact_text) for fact in facts)


_CACHED_BYTES = 4_096
_UP_TO_CONTENTS = '{"contents":['


@lru_cache(maxsize=256)
def _settings(settings: bytes, api_version: str) -> tuple[str, str | None, bool]:
    """All of a request but its contents: its JSON from behind them on, the model, whether it asks Google."""
    message: Pb = request_class(api_version).FromString(settings)
    # Among the sorted keys `contents` is the first.
    whole = ordered_json({"contents": [], **json_format.MessageToDict(message)})
    sources = message.grounding_spec.grounding_sources
    return (
        whole.removeprefix(_UP_TO_CONTENTS),
        message.generation_spec.model_id or None,
        any(source.HasField("google_search_source") for source in sources),
    )


def _content_json(content: Pb) -> str:
    """As protobuf's own JSON with sorted keys: what is not set is not there."""
    members = []
    if content.parts:
        parts = [
            f'{{"text":{ordered_json(part.text)}}}' if part.HasField("text") else "{}"
            for part in content.parts
        ]
        members.append(f'"parts":[{",".join(parts)}]')
    if content.role:
        members.append(f'"role":{ordered_json(content.role)}')
    return f"{{{','.join(members)}}}"


def _serialized(message: Pb) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data
