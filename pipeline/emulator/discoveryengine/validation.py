"""What the service refuses in a request, as far as a request alone shows it.

The rules are those of the API's reference for GenerateGroundedContentRequest and CheckGroundingRequest. Model
ids are not checked: they change too often for any list.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

from groundrows.pipeline.emulator.answering.text import count_tokens
from groundrows.pipeline.emulator.calls import Violation
from groundrows.pipeline.emulator.discoveryengine.messages import Origin, text_of

MAX_SOURCES = 10
MAX_FACTS = 100
MAX_CHECK_FACTS = 200
MAX_FACT_CHARACTERS = 10_000
MAX_ANSWER_TOKENS = 4096
# Far more than so many tokens have: what is longer is refused uncounted, as counting would take seconds that
# every other call waits for.
MAX_ANSWER_CHARACTERS = 32 * MAX_ANSWER_TOKENS
MAX_SEARCH_RESULTS = 10
MAX_LABELS = 64
MAX_LABEL_CHARACTERS = 63

_LOCATION = re.compile(r"projects/[^/]+/locations/[^/]+")
_GROUNDING_CONFIG = re.compile(r"projects/[^/]+/locations/[^/]+/groundingConfigs/[^/]+")


def violations(origin: Origin, request: Any, routing: str | None) -> list[Violation]:
    """Everything wrong with a request.

    Args:
        origin: What is called, and how.
        request: The method's request message.
        routing: The call's `x-goog-request-params` header, None when there is none.

    Returns:
        (field path, one sentence) pairs; empty for a request that can be answered.
    """
    if origin.method == "CheckGrounding":
        return [
            *_grounding_config(origin, request.grounding_config, routing),
            *_answer_candidate(request.answer_candidate),
            *_facts("facts", request.facts, MAX_CHECK_FACTS),
            *_threshold("grounding_spec.citation_threshold", request.grounding_spec.citation_threshold),
            *_labels(request.user_labels),
        ]
    return [
        *_location(origin, request.location, routing),
        *_contents(request.contents),
        *_sources(request.grounding_spec.grounding_sources),
        *_labels(request.user_labels),
    ]


def _location(origin: Origin, location: str, routing: str | None) -> Iterator[Violation]:
    if not _LOCATION.fullmatch(location):
        yield "location", "Must be of the form projects/PROJECT/locations/LOCATION."
    else:
        yield from _routed(origin, "location", location, routing)


def _grounding_config(origin: Origin, name: str, routing: str | None) -> Iterator[Violation]:
    if not _GROUNDING_CONFIG.fullmatch(name):
        form = "projects/PROJECT/locations/LOCATION/groundingConfigs/CONFIG"
        yield "grounding_config", f"Must be of the form {form}."
    else:
        yield from _routed(origin, "grounding_config", name, routing)


def _routed(origin: Origin, field: str, name: str, routing: str | None) -> Iterator[Violation]:
    if origin.transport == "rest":
        return  # the path says where to
    routed = parse_qs(routing or "").get(field, [])
    if not routed:
        # The generated clients send none with a stream, whose request they have not seen by then.
        if origin.method != "StreamGenerateGroundedContent":
            yield field, f"The x-goog-request-params header must name the request's {field}."
    elif routed != [name]:
        yield field, f"The x-goog-request-params header names another {field} than the request."


def _answer_candidate(text: str) -> Iterator[Violation]:
    if not text.strip():
        yield "answer_candidate", "Must hold text."
    elif len(text) > MAX_ANSWER_CHARACTERS:
        said = f"Must be at most {MAX_ANSWER_TOKENS} tokens long, which {len(text)} characters are not."
        yield "answer_candidate", said
    elif (tokens := count_tokens(text)) > MAX_ANSWER_TOKENS:
        yield "answer_candidate", f"Must be at most {MAX_ANSWER_TOKENS} tokens long, not {tokens}."


def _contents(contents: Any) -> Iterator[Violation]:
    if not contents:
        yield "contents", "Must hold at least one content."
    elif contents[-1].role == "model":
        yield "contents", "Must end with a turn of the user."
    before = None
    for position, content in enumerate(contents):
        if content.role not in ("user", "model") and (content.role or len(contents) > 1):
            yield f"contents[{position}].role", "Must be user or model."
        elif content.role == before:
            yield f"contents[{position}].role", f"Must not be {before} twice in a row: turns alternate."
        if not text_of(content).strip():
            yield f"contents[{position}].parts", "Must hold text."
        before = content.role


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
            facts = source.inline_source.grounding_facts
            yield from _facts(f"{here}.inline_source.grounding_facts", facts, MAX_FACTS)
        elif kind == "search_source":
            yield from _search(f"{here}.search_source", source.search_source)
        elif kind == "google_search_source":
            predictor = source.google_search_source.dynamic_retrieval_config.predictor
            field = "google_search_source.dynamic_retrieval_config.predictor.threshold"
            yield from _threshold(f"{here}.{field}", predictor.threshold)


def _threshold(path: str, threshold: float) -> Iterator[Violation]:
    if not 0 <= threshold <= 1:
        yield path, "Must lie between 0 and 1."


def _facts(path: str, facts: Any, most: int) -> Iterator[Violation]:
    if len(facts) > most:
        yield path, f"Must hold at most {most} facts, not {len(facts)}."
    for position, fact in enumerate(facts):
        if len(fact.fact_text) > MAX_FACT_CHARACTERS:
            yield (
                f"{path}[{position}].fact_text",
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
        here = f"user_labels[{key[:MAX_LABEL_CHARACTERS]!r}]"
        if not (1 <= len(key) <= MAX_LABEL_CHARACTERS and all(map(_may_label, key)) and key[0].isalpha()):
            yield (
                here,
                "A key must be 1 to 63 characters long, start with a lowercase or international letter, and "
                "hold only such letters, digits, underscores and dashes.",
            )
        if not (len(value) <= MAX_LABEL_CHARACTERS and all(map(_may_label, value))):
            yield (
                here,
                "A value must be at most 63 characters long and hold only lowercase or international "
                "letters, digits, underscores and dashes.",
            )


def _may_label(character: str) -> bool:
    category = unicodedata.category(character)
    return character in "_-" or category in ("Ll", "Lo", "Lm", "Mn", "Mc", "Nd")
