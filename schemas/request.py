"""Requests as bytes: completed with a location, taken on to the next turn, shown as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from google.protobuf import json_format

from schemas.build import add_content
from schemas.jsontext import ordered_json
from schemas.messages import Method, Pb, request_class

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


def request_json(request: bytes, api_version: str, method: Method = "generate") -> str:
    """The request in the API's JSON form, camelCase; fields that this version does not know are left out.

    Keys are sorted: protobuf gives map fields in any order, and the same request is the same text.
    """
    if method == "check":
        return ordered_json(json_format.MessageToDict(request_class(api_version, method).FromString(request)))
    message: Pb = request_class(api_version).FromString(request)
    contents = [_content_json(content) for content in message.contents]
    del message.contents[:]
    settings = _serialized(message)
    # A run's requests differ in their contents and little else; describing the rest anew each time took a
    # tenth of the time that a question's rows take.
    known = _settings_json if len(settings) <= _CACHED_BYTES else _settings_json.__wrapped__
    return ordered_json({"contents": contents, **known(settings, api_version)})


_CACHED_BYTES = 4_096


@lru_cache(maxsize=256)
def _settings_json(settings: bytes, api_version: str) -> dict[str, object]:
    described: dict[str, object] = json_format.MessageToDict(request_class(api_version).FromString(settings))
    return described


def _content_json(content: Pb) -> dict[str, object]:
    """As protobuf's own JSON: what is not set is not there."""
    described: dict[str, object] = {"role": content.role} if content.role else {}
    if content.parts:
        described["parts"] = [
            {"text": part.text} if part.WhichOneof("data") else {} for part in content.parts
        ]
    return described


def _serialized(message: Pb) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data
