"""What the service refuses in a request, as far as a request alone shows it.

The rules are those of the API's reference for GenerateGroundedContentRequest. Model ids are not checked:
they change too often for any list.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

from pipeline.emulator.messages import text_of

MAX_SOURCES = 10
MAX_FACTS = 100
MAX_FACT_CHARACTERS = 10_000
MAX_SEARCH_RESULTS = 10
MAX_LABELS = 64
MAX_LABEL_CHARACTERS = 63

_LOCATION = re.compile(r"projects/[^/]+/locations/[^/]+")

Violation = tuple[str, str]


def violations(request: Any, routing: str | None) -> list[Violation]:
    """Everything wrong with a request.

    Args:
        request: A `GenerateGroundedContentRequest`.
        routing: The call's `x-goog-request-params` header, None when there is none.

    Returns:
        (field path, one sentence) pairs; empty for a request that can be answered.
    """
    return [
        *_location(request.location, routing),
        *_contents(request.contents),
        *_sources(request.grounding_spec.grounding_sources),
        *_labels(request.user_labels),
    ]


def _location(location: str, routing: str | None) -> Iterator[Violation]:
    if not _LOCATION.fullmatch(location):
        yield "location", "Must be of the form projects/PROJECT/locations/LOCATION."
        return
    routed = parse_qs(routing or "").get("location", [])
    if not routed:
        yield "location", "The x-goog-request-params header must name the request's location."
    elif routed != [location]:
        yield "location", "The x-goog-request-params header names another location than the request."


def _contents(contents: Any) -> Iterator[Violation]:
    if not contents:
        yield "contents", "Must hold at least one content."
    elif all(content.role == "model" for content in contents):
        yield "contents", "Must hold a turn of the user."
    for position, content in enumerate(contents):
        if content.role not in ("user", "model") and (content.role or len(contents) > 1):
            yield f"contents[{position}].role", "Must be user or model."
        if not text_of(content).strip():
            yield f"contents[{position}].parts", "Must hold text."


def _sources(sources: Any) -> Iterator[Violation]:
    path = "grounding_spec.grounding_sources"
    if len(sources) > MAX_SOURCES:
        yield path, f"Must hold at most {MAX_SOURCES} sources, not {len(sources)}."
    kinds = [source.WhichOneof("source") for source in sources]
    if "google_search_source" in kinds and len(sources) > 1:
        yield path, "Google Search must be the only source."
    for position, (kind, source) in enumerate(zip(kinds, sources, strict=True)):
        here = f"{path}[{position}]"
        if kind is None:
            yield here, "Must be an inline, search, Google Search or enterprise web source."
        elif kind == "inline_source":
            yield from _facts(f"{here}.inline_source", source.inline_source.grounding_facts)
        elif kind == "search_source":
            yield from _search(f"{here}.search_source", source.search_source)
        elif kind == "google_search_source":
            predictor = source.google_search_source.dynamic_retrieval_config.predictor
            if not 0 <= predictor.threshold <= 1:
                field = "google_search_source.dynamic_retrieval_config.predictor.threshold"
                yield f"{here}.{field}", "Must lie between 0 and 1."


def _facts(path: str, facts: Any) -> Iterator[Violation]:
    if len(facts) > MAX_FACTS:
        yield f"{path}.grounding_facts", f"Must hold at most {MAX_FACTS} facts, not {len(facts)}."
    for position, fact in enumerate(facts):
        if len(fact.fact_text) > MAX_FACT_CHARACTERS:
            yield (
                f"{path}.grounding_facts[{position}].fact_text",
                f"Must be at most {MAX_FACT_CHARACTERS} characters long, not {len(fact.fact_text)}.",
            )


def _search(path: str, search: Any) -> Iterator[Violation]:
    if not search.serving_config:
        yield f"{path}.serving_config", "Must name a serving config."
    if not 0 <= search.max_result_count <= MAX_SEARCH_RESULTS:
        yield f"{path}.max_result_count", f"Must lie between 0 and {MAX_SEARCH_RESULTS}."


def _labels(labels: Any) -> Iterator[Violation]:
    if len(labels) > MAX_LABELS:
        yield "user_labels", f"Must hold at most {MAX_LABELS} labels, not {len(labels)}."
    for key, value in sorted(labels.items()):
        if not (1 <= len(key) <= MAX_LABEL_CHARACTERS and all(map(_may_label, key)) and key[0].isalpha()):
            yield (
                f"user_labels[{key!r}]",
                "A key must be 1 to 63 characters long, start with a lowercase or international letter, and "
                "hold only such letters, digits, underscores and dashes.",
            )
        if not (len(value) <= MAX_LABEL_CHARACTERS and all(map(_may_label, value))):
            yield (
                f"user_labels[{key!r}]",
                "A value must be at most 63 characters long and hold only lowercase or international "
                "letters, digits, underscores and dashes.",
            )


def _may_label(character: str) -> bool:
    category = unicodedata.category(character)
    return character in "_-" or category in ("Ll", "Lo", "Lm", "Mn", "Mc", "Nd")
