"""The API's paths over REST, and its responses as the JSON that the service sends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from typing import cast

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from groundrows.pipeline.emulator.calls import RestCall
from groundrows.pipeline.emulator.discoveryengine.json_requests import read_json
from groundrows.pipeline.emulator.discoveryengine.messages import CheckResponse, MethodName, Origin, Response
from groundrows.schemas.discoveryengine.messages import ApiVersion

METHODS: dict[str, MethodName] = {
    "generateGroundedContent": "GenerateGroundedContent",
    "streamGenerateGroundedContent": "StreamGenerateGroundedContent",
    "check": "CheckGrounding",
}
_PLACE = "projects/[^/]+/locations/[^/]+"
_PATH = re.compile(
    r"/(?P<version>v1|v1beta|v1alpha)/(?:"
    rf"(?P<location>{_PLACE}):(?P<generate>generateGroundedContent|streamGenerateGroundedContent)|"
    rf"(?P<grounding_config>{_PLACE}/groundingConfigs/[^/]+):(?P<check>check))"
)
# What undecodable bytes are over REST: JSON that breaks off, and text that is no UTF-8.
_UNDECODABLE = (b'{"%b": [{', b'{"%b": [{"text": "\xc3\x28"}]}')


class RestPaths:
    """What the API knows of REST.

    Args:
        canned: Whether there are but a few answers, whose JSON is then made only once.
    """

    def __init__(self, *, canned: bool) -> None:
        self._response_json = cache(response_json) if canned else response_json

    def call_of(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> RestCall | None:
        """The call that a POST to a path is; None when the path is none of the API's."""
        match = _PATH.fullmatch(path)
        if match is None:
            return None
        method = METHODS[match["generate"] or match["check"]]
        origin = Origin(method, cast(ApiVersion, match["version"]), "rest")
        bound = {name: match[name] for name in ("location", "grounding_config") if match[name]}
        # The generated clients ask for enums as numbers.
        numbers = "enum-encoding=int" in query.get("$alt", "")
        return RestCall(
            origin,
            read=partial(read_json, origin, bound=bound),
            write=partial(self._response_json, method, numbers=numbers),
        )


def response_json(method: MethodName, body: bytes, numbers: bool) -> bytes:
    """A serialized response as JSON.

    Args:
        method: Whose response it is.
        body: The serialized response; the undecodable one becomes JSON that cannot be read either.
        numbers: Whether enums are written as numbers rather than as names.
    """
    is_check = method == "CheckGrounding"
    kind = CheckResponse if is_check else Response
    try:
        message = kind.FromString(body)
    except DecodeError:
        return _UNDECODABLE[len(body) % len(_UNDECODABLE)] % (b"claims" if is_check else b"candidates")
    text: str = json_format.MessageToJson(
        message, indent=None, ensure_ascii=False, use_integers_for_enums=numbers
    )
    return text.encode()
