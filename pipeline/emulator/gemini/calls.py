"""What is called, and by which path."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from groundrows.pipeline.emulator.calls import Received, Refusal, RestCall, Transport, refuse
from groundrows.schemas.gemini.generation import THROUGHPUT_HEADER, TRAFFIC_HEADER
from groundrows.schemas.names import camel

MethodName = Literal["generateContent", "streamGenerateContent"]

_VERB = "(?P<method>generateContent|streamGenerateContent)"
_PATH = re.compile(
    r"/(?:(?P<agent>v1|v1beta1)/projects/[^/]+/locations/[^/]+/publishers/google/models/(?P<one>[^/:]+)"
    rf"|(?P<developer>v1beta|v1alpha)/models/(?P<other>[^/:]+)):{_VERB}"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """What is called, and by which way.

    Attributes:
        method: The method's name.
        version: The API's version.
        model: The model that is asked.
        agent_platform: Whether the path is one of the Agent Platform's.
        throughput: The header by which the Agent Platform is told whether to use bought throughput.
        sharing: The header that says what of the shared throughput to use.
    """

    method: MethodName
    version: str
    model: str
    agent_platform: bool
    throughput: str = ""
    sharing: str = ""
    transport: Transport = "rest"
    api: ClassVar[str] = "gemini"

    @property
    def traffic_type(self) -> str:
        """What the call is served from, as the answer's usage says it."""
        if self.throughput == "dedicated":
            return "PROVISIONED_THROUGHPUT"
        return f"ON_DEMAND_{self.sharing.upper()}" if self.sharing else "ON_DEMAND"

    @property
    def streams(self) -> bool:
        """Whether the answer is told in parts."""
        return self.method == "streamGenerateContent"

    @property
    def is_check(self) -> bool:
        """No call checks answers."""
        return False


class RestPaths:
    """What the API knows of REST."""

    def call_of(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> RestCall | None:
        """The call that a POST to a path is; None when the path is none of the API's."""
        match = _PATH.fullmatch(path)
        if match is None:
            return None
        origin = Origin(
            method=match["method"],  # type: ignore[arg-type]
            version=match["agent"] or match["developer"],
            model=match["one"] or match["other"],
            agent_platform=match["agent"] is not None,
            throughput=headers.get(THROUGHPUT_HEADER, ""),
            sharing=headers.get(TRAFFIC_HEADER, ""),
        )
        is_sse = origin.streams and query.get("alt") == "sse"
        return RestCall(origin, read=partial(read_body), write=bytes, is_sse=is_sse)


def read_body(body: bytes) -> Received | Refusal:
    """Read a request's body: JSON, an object, whose names may be in camelCase or snake_case."""
    try:
        value: Any = json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return refuse("INVALID_ARGUMENT", "The body is no JSON in UTF-8.")
    if not isinstance(value, dict):
        return refuse("INVALID_ARGUMENT", "The body must be a JSON object.")
    return Received(_in_camel_case(value))


def user_turns(request: Any) -> list[str]:
    """The user's turns of a valid request, oldest first: of each the last part, which asks."""
    turns = []
    for content in _list(request.get("contents")):
        if not isinstance(content, dict) or content.get("role", "user") != "user":
            continue
        texts = [part.get("text") for part in _list(content.get("parts")) if isinstance(part, dict)]
        turns.append(next((text for text in reversed(texts) if isinstance(text, str)), ""))
    return turns


def given_facts(request: Any) -> list[str]:
    """Facts that stand, numbered, before the question in the last turn's parts."""
    contents = _list(request.get("contents"))
    parts = _list(contents[-1].get("parts")) if contents and isinstance(contents[-1], dict) else []
    text = "\n".join(str(part.get("text", "")) for part in parts[:-1] if isinstance(part, dict))
    return [match[1] for match in re.finditer(r"^\[[0-9]+\] (.+(?:\n(?!\[[0-9]+\] |\n).+)*)", text, re.M)]


def _in_camel_case(value: Any) -> Any:
    """The same with every name as the reference has it; labels have names of their own."""
    if isinstance(value, dict):
        return {
            camel(name): item if name == "labels" else _in_camel_case(item) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_in_camel_case(item) for item in value]
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")  # Python's parser would take NaN and Infinity
