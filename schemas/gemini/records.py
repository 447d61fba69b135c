"""Requests for answers, built from the fields of records and from the request defaults.

What records and defaults say is first gathered under the request's own names, so that the one can be laid
over the other, and made into a request at the end; see `request.py` for its form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from groundrows.schemas.errors import RuleError
from groundrows.schemas.gemini.generation import read_generation
from groundrows.schemas.gemini.own import read_own
from groundrows.schemas.gemini.platform import is_agent_platform, model_name
from groundrows.schemas.gemini.request import Envelope, encoded, text_of
from groundrows.schemas.gemini.sources import MAX_SOURCES, read_facts, read_source_spec, read_sources
from groundrows.schemas.gemini.values import any_text, read_members
from groundrows.schemas.labels import check_label_count, check_labels
from groundrows.schemas.service import BuildSettings, Built
from groundrows.schemas.wording import wrong_type

FIELDS = (
    "facts",
    "gemini",
    "generation_spec",
    "grounding_sources",
    "grounding_spec",
    "system_instruction",
    "user_context",
    "user_labels",
)
"""Fields that a record and the request defaults may both have."""

_MERGED = ("generationConfig", "headers", "labels", "ownTools", "retrievalConfig")


class Builder:
    """See `RequestBuilder`.

    Raises:
        ValueError: Neither the settings nor the defaults name a model.
    """

    def __init__(self, api_version: str, settings: BuildSettings) -> None:
        self._agent_platform = is_agent_platform(api_version)
        self._base: dict[str, Any] = {}
        if settings.model:
            name = model_name(settings.model)
            if name is None:
                raise ValueError(f"the model {settings.model} is no name: give one such as gemini-2.5-flash")
            self._base["model"] = name
        if settings.defaults is not None:
            self._base = laid_over(self._base, json.loads(settings.defaults.request))
        if "model" not in self._base:
            raise ValueError("nothing says which model to ask, and Gemini has no default: give --model=NAME")
        self._facts_instruction = settings.facts_instruction

    def build(self, question: str | None, fields: Mapping[str, object]) -> Built:
        """See `RequestBuilder.build`."""
        said = laid_over(self._base, gathered(fields, agent_platform=self._agent_platform))
        if question is None:
            contents = _contents(fields["contents"])
            question = text_of(contents[-1])
        else:
            contents = [_content("user", question)]
        return Built(encoded(self._envelope(said, contents)), question)

    def instruction(self, value: object, path: str) -> bytes:
        """See `RequestBuilder.instruction`."""
        return encoded(_instruction(value, path))

    def _envelope(self, said: Mapping[str, Any], contents: list[dict[str, Any]]) -> Envelope:
        envelope: Envelope = {"contents": contents}
        tools = [*said.get("tools", ())]
        tools += [{name: tool} for name, tool in sorted(said.get("ownTools", {}).items())]
        if len(tools) > MAX_SOURCES:
            raise RuleError(
                "TOO_MANY_SOURCES", f"the request has {len(tools)} tools: a request takes {MAX_SOURCES}"
            )
        if tools:
            envelope["tools"] = tools
        if "retrievalConfig" in said:
            envelope["toolConfig"] = {"retrievalConfig": said["retrievalConfig"]}
        for name in _AS_THEY_ARE:
            if said.get(name):
                envelope[name] = said[name]
        if said.get("facts"):
            envelope["inline"] = {"instruction": self._facts_instruction, "facts": said["facts"]}
        return envelope


_AS_THEY_ARE = (
    "model",
    "headers",
    "systemInstruction",
    "generationConfig",
    "safetySettings",
    "labels",
    "cachedContent",
    "serviceTier",
)


def default_request(api_version: str, fields: Mapping[str, object]) -> Built:
    """What is laid under every record's own; see `Service.default_request`."""
    return Built(encoded(gathered(fields, agent_platform=is_agent_platform(api_version))), "")


def laid_over(base: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Lay what a record says over what stands below: objects merge by key, everything else is replaced."""
    laid = {**base, **said}
    for name in _MERGED:
        if name in base and name in said:
            laid[name] = {**base[name], **said[name]}
    return laid


def gathered(fields: Mapping[str, object], *, agent_platform: bool) -> dict[str, Any]:
    """What fields of a record or of the defaults say, under the request's own names.

    Raises:
        RuleError: A rule is broken; the message says which and where.
    """
    said: dict[str, Any] = {}
    if "system_instruction" in fields:
        said["systemInstruction"] = _instruction(fields["system_instruction"], "system_instruction")
    if "generation_spec" in fields:
        spec = read_generation(fields["generation_spec"], "generation_spec", agent_platform=agent_platform)
        said = laid_over(said, spec)
    if "gemini" in fields:
        said = laid_over(said, read_own(fields["gemini"], "gemini", agent_platform=agent_platform))
    if "facts" in fields or "grounding_spec" in fields or "grounding_sources" in fields:
        said |= _sources(fields, agent_platform=agent_platform)
    if "user_labels" in fields:
        said["labels"] = _labels(fields["user_labels"], agent_platform=agent_platform)
    if "user_context" in fields:
        raise RuleError(
            "NO_COUNTERPART",
            "user_context has no counterpart in Gemini: give place and language under gemini, or take it out",
        )
    return said


def _sources(fields: Mapping[str, object], *, agent_platform: bool) -> dict[str, Any]:
    """The tools and facts of a record, which take the place of those of the defaults."""
    if "grounding_sources" in fields and "grounding_spec" in fields:
        raise RuleError(
            "TWO_GROUNDINGS", "the record has grounding_spec and grounding_sources: keep one of them"
        )
    facts = read_facts(fields["facts"]) if "facts" in fields else []
    sources, path = fields.get("grounding_sources"), "grounding_sources"
    if "grounding_spec" in fields:
        sources = read_source_spec(fields["grounding_spec"], "grounding_spec")
        path = "grounding_spec.grounding_sources"
        if sources is None and not facts:
            return {}
    if sources is None:
        return {"tools": [], "facts": facts}
    tools, more = read_sources(sources, path, agent_platform=agent_platform)
    return {"tools": tools, "facts": facts + more}


def _labels(value: object, *, agent_platform: bool) -> dict[str, str]:
    if not agent_platform:
        raise RuleError(
            "NEEDS_AGENT_PLATFORM",
            "user_labels are known to the Agent Platform only: give --location=projects/P/locations/L or "
            "take them out",
        )
    if not isinstance(value, Mapping):
        raise wrong_type("user_labels", "an object of strings", value)
    given = {key: item for key, item in value.items() if item is not None}
    check_labels(given)
    check_label_count(len(given))
    return given


def _content(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def _instruction(value: object, path: str) -> dict[str, Any]:
    if isinstance(value, str):
        content: dict[str, Any] = {"parts": [{"text": value}]}
    elif isinstance(value, dict):
        content = {"parts": _read_content(value, path)["parts"]}
    else:
        raise wrong_type(path, "a string or an object with parts", value)
    if not text_of(content).strip():
        raise RuleError("BLANK_SYSTEM_INSTRUCTION", f"{path} is blank: leave it out or fill it")
    return content


def _contents(value: object) -> list[dict[str, Any]]:
    """A conversation in the API's form, which both services share: roles and parts of text."""
    if not isinstance(value, list):
        raise wrong_type("contents", "a list", value)
    if not value:
        raise RuleError("NO_QUESTION", "`contents` is empty: give at least the user's question")
    contents = [_read_content(content, f"contents[{index}]") for index, content in enumerate(value)]
    for index, content in enumerate(contents):
        if "role" not in content:
            if len(contents) > 1:
                raise RuleError(
                    "INVALID_ROLE", f"contents[{index}].role is missing: in a history each has user or model"
                )
            content["role"] = "user"
    last = f"contents[{len(contents) - 1}]"
    if contents[-1]["role"] == "model":
        raise RuleError("LAST_NOT_USER", f"{last}.role is model: the last one asks, so it is user")
    if not text_of(contents[-1]).strip():
        raise RuleError("BLANK_QUESTION", f"{last} is blank: it must ask something")
    return contents


def _read_content(value: object, path: str) -> dict[str, Any]:
    said = read_members(value, path, {"role": _role, "parts": _parts})
    if not said.get("parts"):
        raise RuleError("NO_TEXT", f"{path}.parts is empty: give a part with text")
    content: dict[str, Any] = {"parts": said["parts"]}
    if said.get("role"):
        content["role"] = said["role"]
    return content


def _role(value: object, path: str) -> str:
    if value not in ("", "user", "model"):
        raise RuleError("INVALID_ROLE", f"{path} must be user or model")
    return str(value)


def _parts(value: object, path: str) -> list[dict[str, str]]:
    parts: Sequence[object] = [value] if isinstance(value, dict) else value  # type: ignore[assignment]
    if not isinstance(parts, list):
        raise wrong_type(path, "a list", value)
    read = []
    for index, part in enumerate(parts):
        where = f"{path}[{index}]"
        said = read_members(part, where, {"text": any_text})
        if "text" not in said:
            raise RuleError("NO_TEXT", f"{where}.text is missing")
        read.append({"text": said["text"]})
    return read
