"""What is wrong with a request, as far as the service is known to refuse it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from groundrows.pipeline.emulator.calls import Violation
from groundrows.pipeline.emulator.gemini.calls import Origin
from groundrows.schemas.gemini.generation import THROUGHPUT_HEADER, TRAFFIC_HEADER

_BODY = frozenset(
    {"contents", "systemInstruction", "generationConfig", "tools", "toolConfig", "safetySettings"}
    | {"cachedContent", "model"}
)
_OF_AGENT_PLATFORM = frozenset({"labels", "modelArmorConfig", "continuationToken", "outputConfig"})
_OF_DEVELOPER_API = frozenset({"serviceTier"})
_TOOLS = frozenset(
    {"googleSearch", "googleMaps", "urlContext", "codeExecution", "functionDeclarations", "computerUse"}
)
_TOOLS_OF_AGENT_PLATFORM = frozenset(
    {"retrieval", "enterpriseWebSearch", "parallelAiSearch", "exaAiSearch", "googleSearchRetrieval"}
)
_TOOLS_OF_DEVELOPER_API = frozenset({"fileSearch"})
_SEARCH_OF_AGENT_PLATFORM = frozenset({"excludeDomains", "blockingConfidence"})
MAX_TOOLS = 10
MAX_RESULTS = 10


def violations(origin: Origin, request: dict[str, Any]) -> list[Violation]:
    """Everything wrong with a request."""
    return list(_violations(origin, request))


def _violations(origin: Origin, request: dict[str, Any]) -> Iterator[Violation]:
    known = _BODY | (_OF_AGENT_PLATFORM if origin.agent_platform else _OF_DEVELOPER_API)
    for name in request:
        if name not in known:
            yield "", f"Unknown name {json.dumps(name[:80])}: there is no such field."
    if origin.throughput not in ("", "dedicated", "shared"):
        yield THROUGHPUT_HEADER, "Must be dedicated or shared."
    if origin.sharing not in ("", "priority", "flex"):
        yield TRAFFIC_HEADER, "Must be priority or flex."
    if request.get("serviceTier", "standard") not in ("standard", "priority", "flex"):
        yield "service_tier", "Must be standard, priority or flex."
    contents = request.get("contents")
    if not isinstance(contents, list) or not contents:
        yield "contents", "Must hold at least one content."
    else:
        for index, content in enumerate(contents):
            yield from _content(content, f"contents[{index}]")
        if isinstance(contents[-1], dict) and contents[-1].get("role", "user") != "user":
            yield "contents", "Please ensure that the last one has the role user."
    if "systemInstruction" in request:
        yield from _content(request["systemInstruction"], "system_instruction")
    yield from _tools(origin, request.get("tools", []))
    labels = request.get("labels", {})
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        yield "labels", "Must be an object of strings."
    config = request.get("generationConfig", {})
    if not isinstance(config, dict):
        yield "generation_config", "Must be an object."
    else:
        if _is_structured(config) and any("googleSearch" in tool for tool in _tools_of(request)):
            yield "", "Tool use with a response mime type: 'application/json' is unsupported"
        count = config.get("candidateCount", 1)
        if not isinstance(count, int) or not 1 <= count <= 8:
            yield "generation_config.candidate_count", "Must be from 1 to 8."


def _is_structured(config: dict[str, Any]) -> bool:
    return "responseSchema" in config or config.get("responseMimeType") == "application/json"


def _tools_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    tools = request.get("tools", [])
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _content(content: Any, path: str) -> Iterator[Violation]:
    if not isinstance(content, dict):
        yield path, "Must be an object."
        return
    if content.get("role", "user") not in ("user", "model"):
        yield path, "Please use a valid role: user, model."
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        yield f"{path}.parts", "Must hold at least one part."
        return
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            yield (
                f"{path}.parts[{index}].data",
                "Required field 'data' must have one initialized field.",
            )


def _tools(origin: Origin, tools: Any) -> Iterator[Violation]:
    if not isinstance(tools, list):
        yield "tools", "Must be a list."
        return
    if len(tools) > MAX_TOOLS:
        yield "tools", f"Must hold at most {MAX_TOOLS} tools."
    known = _TOOLS | (_TOOLS_OF_AGENT_PLATFORM if origin.agent_platform else _TOOLS_OF_DEVELOPER_API)
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        if not isinstance(tool, dict) or not tool:
            yield path, "Must be an object that names a tool."
            continue
        for name, said in tool.items():
            if name not in known:
                yield path, f"Unknown name {json.dumps(name[:80])}: there is no such tool."
            elif name == "googleSearchRetrieval":
                yield path, "google_search_retrieval is not supported: please use google_search instead."
            elif name == "googleSearch" and not origin.agent_platform and isinstance(said, dict):
                for field in _SEARCH_OF_AGENT_PLATFORM & set(said):
                    yield path, f"Unknown name {json.dumps(field)}: there is no such field."
            elif name == "retrieval":
                yield from _retrieval(said, path)


def _retrieval(said: Any, path: str) -> Iterator[Violation]:
    search = said.get("vertexAiSearch") if isinstance(said, dict) else None
    if search is None:
        if not isinstance(said, dict) or "vertexRagStore" not in said:
            yield f"{path}.retrieval", "Must name a source."
        return
    if not isinstance(search, dict) or ("engine" in search) == ("datastore" in search):
        yield f"{path}.retrieval.vertex_ai_search", "Must name one of engine and datastore."
        return
    most = search.get("maxResults", MAX_RESULTS)
    if not isinstance(most, int) or not 1 <= most <= MAX_RESULTS:
        yield f"{path}.retrieval.vertex_ai_search.max_results", f"Must be from 1 to {MAX_RESULTS}."
