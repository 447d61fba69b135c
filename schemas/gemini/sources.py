"""Grounding sources of a record → the tools of a request, and the facts that go into its prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from groundrows.schemas.errors import RuleError
from groundrows.schemas.gemini import values
from groundrows.schemas.gemini.values import read_members
from groundrows.schemas.wording import kind_of, quoted, wrong_type

MAX_SOURCES = 10
MAX_RESULTS = 10

Facts = list[dict[str, Any]]
"""Facts as a request keeps them: objects with `text` and `attributes`."""

# Confidences from which on a site is left out of a search.
_CONFIDENCES = (
    "BLOCK_LOW_AND_ABOVE",
    "BLOCK_MEDIUM_AND_ABOVE",
    "BLOCK_HIGH_AND_ABOVE",
    "BLOCK_HIGHER_AND_ABOVE",
    "BLOCK_VERY_HIGH_AND_ABOVE",
    "BLOCK_ONLY_EXTREMELY_HIGH",
)
_ENGINE = re.compile(r"(projects/.+/engines/[^/]+)(?:/servingConfigs/[^/]+)?")
_DATA_STORE = re.compile(r"(projects/.+/dataStores/[^/]+)(?:/servingConfigs/[^/]+)?")


def read_sources(value: object, path: str, *, agent_platform: bool) -> tuple[list[dict[str, Any]], Facts]:
    """Read a list of grounding sources: a tool for each that searches, and the facts of inline sources.

    Args:
        value: The JSON value.
        path: Where it stands in the record.
        agent_platform: Whether the Agent Platform is asked, which alone has some of the sources.

    Raises:
        RuleError: A source can't be used; the message says which and what to do.
    """
    if not isinstance(value, list):
        raise wrong_type(path, "a list", value)
    if len(value) > MAX_SOURCES:
        raise RuleError("TOO_MANY_SOURCES", f"{path} has {len(value)} sources: a request takes {MAX_SOURCES}")
    tools: list[dict[str, Any]] = []
    facts: Facts = []
    for index, source in enumerate(value):
        where = f"{path}[{index}]"
        read = read_members(source, where, dict.fromkeys(_SOURCES, _unread))
        if not read:
            raise RuleError("EMPTY_SOURCE", f"{where} names no source: give inline_source or another")
        if len(read) > 1:
            one, other, *_ = read
            raise RuleError("ONEOF_CONFLICT", f"{where} has {one} and {other}: split it, one of them in each")
        [(kind, said)] = read.items()
        here = f"{where}.{kind}"
        if kind == "inline_source":
            facts += _inline(said, here)
        elif kind == "google_search_source":
            tools.append({"googleSearch": _web_search(said, here, agent_platform=agent_platform)})
        elif kind == "enterprise_web_retrieval_source":
            if not agent_platform:
                raise values.agent_only(here)
            tools.append({"enterpriseWebSearch": _web_search(said, here, agent_platform=True)})
        else:
            if not agent_platform:
                raise values.agent_only(here)
            tools.append({"retrieval": {"vertexAiSearch": _search(said, here)}})
    return _without_repetitions(tools), facts


def read_facts(value: object, path: str = "facts") -> Facts:
    """Read a list of facts: strings, or objects with a text and attributes."""
    if not isinstance(value, list):
        raise wrong_type(path, "a list", value)
    if not value:
        raise RuleError("EMPTY_SOURCE", f"{path} is empty: give at least one fact or leave the source out")
    facts: Facts = []
    for index, fact in enumerate(value):
        where = f"{path}[{index}]"
        said: dict[str, Any]
        if isinstance(fact, str):
            said = {"fact_text": fact}
        elif isinstance(fact, dict):
            said = read_members(fact, where, {"fact_text": values.any_text, "attributes": _attributes})
        else:
            raise wrong_type(where, "a string or an object with fact_text", fact)
        text = said.get("fact_text", "")
        if not text.strip():
            raise RuleError("EMPTY_FACT", f"{where} is empty: give its text or leave it out")
        facts.append({"text": text, "attributes": said.get("attributes", {})})
    return facts


def _unread(value: object, path: str) -> object:
    return value


_SOURCES = (
    "inline_source",
    "search_source",
    "google_search_source",
    "enterprise_web_retrieval_source",
)


def _attributes(value: object, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise wrong_type(path, "an object of strings", value)
    read = {}
    for key, item in value.items():
        if item is None:
            continue
        if not isinstance(item, str):
            raise wrong_type(f"{path}[{quoted(key)}]", "a string", item)
        read[key] = item
    return read


def _inline(value: object, path: str) -> Facts:
    said = read_members(value, path, {"grounding_facts": read_facts, "attributes": _attributes})
    if "grounding_facts" not in said:
        raise RuleError("EMPTY_SOURCE", f"{path} is empty: give at least one fact or leave the source out")
    shared = said.get("attributes", {})
    return [{**fact, "attributes": {**shared, **fact["attributes"]}} for fact in said["grounding_facts"]]


def _web_search(value: object, path: str, *, agent_platform: bool) -> dict[str, Any]:
    readers = {
        "exclude_domains": values.texts,
        "blocking_confidence": _confidence,
        "dynamic_retrieval_config": _no_dynamic_retrieval,
    }
    said = read_members(value, path, readers)
    for name in said if not agent_platform else ():
        raise values.agent_only(f"{path}.{name}")
    tool: dict[str, Any] = {}
    if "exclude_domains" in said:
        tool["excludeDomains"] = said["exclude_domains"]
    if "blocking_confidence" in said:
        tool["blockingConfidence"] = said["blocking_confidence"]
    return tool


def _confidence(value: object, path: str) -> str:
    if isinstance(value, str) and f"BLOCK_{value}" in _CONFIDENCES:
        value = f"BLOCK_{value}"
    if isinstance(value, str) and value in _CONFIDENCES:
        return value
    raise RuleError("INVALID_ENUM", f"{path} must be one of {', '.join(_CONFIDENCES)}")


def _no_dynamic_retrieval(value: object, path: str) -> object:
    raise RuleError(
        "NO_COUNTERPART",
        f"{path} has no counterpart in Gemini, whose models decide by themselves whether to search: "
        "take it out",
    )


def _search(value: object, path: str) -> dict[str, Any]:
    said = read_members(
        value,
        path,
        {
            "serving_config": values.any_text,
            "filter": values.any_text,
            "max_result_count": values.whole_between(1, MAX_RESULTS),
            "safe_search": values.switch,
        },
    )
    config = said.get("serving_config", "").strip()
    if not config:
        raise RuleError(
            "MISSING_SERVING_CONFIG", f"{path}.serving_config is missing: give projects/…/servingConfigs/…"
        )
    search: dict[str, Any] = {}
    if engine := _ENGINE.fullmatch(config):
        search["engine"] = engine[1]
    elif store := _DATA_STORE.fullmatch(config):
        search["datastore"] = store[1]
    else:
        raise RuleError(
            "INVALID_SERVING_CONFIG",
            f"{path}.serving_config names neither an engine nor a data store: give "
            "projects/…/engines/E/servingConfigs/… or projects/…/dataStores/D/servingConfigs/…",
        )
    if said.get("filter"):
        search["filter"] = said["filter"]
    if "max_result_count" in said:
        search["maxResults"] = said["max_result_count"]
    if said.get("safe_search"):
        raise RuleError("NO_COUNTERPART", f"{path}.safe_search has no counterpart in Gemini: take it out")
    return search


def _without_repetitions(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same tool twice is one: of Google Search a request can say nothing twice."""
    kept: list[dict[str, Any]] = []
    for tool in tools:
        if tool not in kept:
            kept.append(tool)
    return kept


def read_source_spec(value: object, path: str) -> object:
    """The list of sources within a grounding spec, or None when it names none."""
    if not isinstance(value, dict):
        raise RuleError("WRONG_TYPE", f"{path} is {kind_of(value)}: it must be an object")
    return read_members(value, path, {"grounding_sources": _unread}).get("grounding_sources")
