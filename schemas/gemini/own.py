"""The field `gemini` of a record: what Gemini can do and the Grounded Generation API cannot."""

from __future__ import annotations

from typing import Any

from groundrows.schemas.errors import RuleError
from groundrows.schemas.gemini import values
from groundrows.schemas.gemini.generation import THROUGHPUT_HEADER, TRAFFIC_HEADER
from groundrows.schemas.gemini.values import Reader, read_members
from groundrows.schemas.wording import wrong_type


def read_own(value: object, path: str, *, agent_platform: bool) -> dict[str, Any]:
    """Read the field `gemini`.

    Returns:
        What it sets of a request, each under the request's own name; its tools by name under `ownTools`.

    Raises:
        RuleError: A field can't be used; the message says which and what to do.
    """
    values.refuse_keys(value, path)
    said = read_members(value, path, OWN_FIELDS)
    read: dict[str, Any] = {}
    tools = {_TOOLS[name]: said[name] for name in _TOOLS if name in said}
    if "rag_store" in said:
        if not agent_platform:
            raise values.agent_only(f"{path}.rag_store")
        tools["retrieval"] = {"vertexRagStore": said["rag_store"]}
    if tools:
        read["ownTools"] = tools
    place: dict[str, Any] = {}
    if "place" in said:
        place["latLng"] = said["place"]
    if "language" in said:
        place["languageCode"] = said["language"]
    if place:
        read["retrievalConfig"] = place
    if "safety_settings" in said:
        read["safetySettings"] = said["safety_settings"]
    if "cached_content" in said:
        read["cachedContent"] = said["cached_content"]
    config = {_CONFIG[name]: said[name] for name in _CONFIG if name in said}
    if config:
        read["generationConfig"] = config
    if "traffic" in said:
        if agent_platform:
            read["headers"] = {THROUGHPUT_HEADER: "shared", TRAFFIC_HEADER: said["traffic"]}
        else:
            read["serviceTier"] = said["traffic"]
    return read


_CATEGORIES = (
    "HARM_CATEGORY_HARASSMENT",
    "HARM_CATEGORY_HATE_SPEECH",
    "HARM_CATEGORY_SEXUALLY_EXPLICIT",
    "HARM_CATEGORY_DANGEROUS_CONTENT",
    "HARM_CATEGORY_CIVIC_INTEGRITY",
    "HARM_CATEGORY_JAILBREAK",
)
_THRESHOLDS = ("BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE", "OFF")


def _safety(value: object, path: str) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise wrong_type(path, "a list", value)
    settings = []
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        said = read_members(
            item,
            where,
            {
                "category": values.one_of(*_CATEGORIES),
                "threshold": values.one_of(*_THRESHOLDS),
                "method": values.one_of("SEVERITY", "PROBABILITY"),
            },
        )
        if "category" not in said or "threshold" not in said:
            raise RuleError("MISSING_FIELD", f"{where} needs a category and a threshold: give both")
        settings.append(said)
    return settings


def _thinking(value: object, path: str) -> dict[str, Any]:
    said = read_members(
        value,
        path,
        {
            "include_thoughts": values.switch,
            "budget": values.whole,
            "level": values.one_of("MINIMAL", "LOW", "MEDIUM", "HIGH"),
        },
    )
    names = {"include_thoughts": "includeThoughts", "budget": "thinkingBudget", "level": "thinkingLevel"}
    return {names[name]: item for name, item in said.items()}


def _place(value: object, path: str) -> dict[str, Any]:
    said = read_members(
        value,
        path,
        {"latitude": values.between(-90, 90), "longitude": values.between(-180, 180)},
    )
    if len(said) != 2:
        raise RuleError("MISSING_FIELD", f"{path} needs a latitude and a longitude: give both in degrees")
    return said


def _refused(instead: str) -> Reader:
    def read(value: object, path: str) -> object:
        raise RuleError("NOT_TAKEN", f"{path} can't be asked for here: {instead}")

    return read


_TOOLS = {"google_maps": "googleMaps", "url_context": "urlContext"}
_CONFIG = {
    "thinking": "thinkingConfig",
    "candidate_count": "candidateCount",
    "stop_sequences": "stopSequences",
}
_A_TOOL_LOOP = "nobody here would carry it out, take it out"
OWN_FIELDS: dict[str, Reader] = {
    "google_maps": values.as_sent,
    "url_context": values.as_sent,
    "rag_store": values.as_sent,
    "safety_settings": _safety,
    "thinking": _thinking,
    "place": _place,
    "language": values.text,
    "traffic": values.one_of("flex", "priority"),
    "candidate_count": values.whole_between(1, 8),
    "stop_sequences": values.texts,
    "cached_content": values.text,
    "function_declarations": _refused(_A_TOOL_LOOP),
    "computer_use": _refused(_A_TOOL_LOOP),
    "code_execution": _refused("it grounds nothing, take it out"),
    "external_api": _refused("its key would end in rows, take it out"),
    "parallel_ai_search": _refused("its key would end in rows, take it out"),
    "exa_ai_search": _refused("its key would end in rows, take it out"),
}
"""Fields of a record's `gemini`."""
