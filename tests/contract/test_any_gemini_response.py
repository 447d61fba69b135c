"""Whatever Gemini says becomes rows that can be written, or a failure that says why; and claims stand where they
are said to stand, whatever the script.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from groundrows.schemas.rows import encode
from tests.support.gemini import answer_of, response, rows_of

QUICK = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])

SAMPLES = [
    "Tin melts at 232 °C.",
    "🙂👩‍👩‍👧 emoji 🏳️‍🌈.",
    "e\u0301tain fond à 232 °C.",
    "הבדיל נמס ב-232 מעלות.",
    "القصدير ينصهر.",
    "\u202eTin\u202c",
    "水は沸騰する。",
    "**",
    "a\x00b",
    "𝕿in 🜩",
]
SENTENCES = st.one_of(
    st.sampled_from(SAMPLES),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip),
)
THOUGHTS = st.builds(lambda text: {"text": text, "thought": True}, SENTENCES)


@st.composite
def grounded(draw: st.DrawFn) -> tuple[Any, list[str]]:
    """A response as the reference has it, and the texts of its supports in order.

    Each part of the answer holds sentences, some of which are supported; thoughts stand anywhere among the parts.
    A stream's offsets count from the start of the whole text.
    """
    stream = draw(st.booleans())
    parts: list[str | dict[str, Any]] = []
    supports: list[dict[str, Any]] = []
    before = 0
    for sentences in draw(st.lists(st.lists(SENTENCES, min_size=1, max_size=4), min_size=1, max_size=4)):
        if draw(st.booleans()):
            parts.append(draw(THOUGHTS))
        text = ""
        for sentence in sentences:
            start = len(text.encode()) + (before if stream else 0)
            text += sentence
            if draw(st.booleans()):
                segment: dict[str, Any] = {"text": sentence, "endIndex": start + len(sentence.encode())}
                if start:
                    segment["startIndex"] = start
                if parts and not stream:
                    segment["partIndex"] = len(parts)
                supports.append({"segment": segment, "groundingChunkIndices": [0]})
            text += draw(st.sampled_from(["", " ", "\n"]))
        parts.append(text)
        before += len(text.encode())
    metadata = {"groundingChunks": [{"web": {"uri": "https://a.example/"}}], "groundingSupports": supports}
    texts = [support["segment"]["text"] for support in supports]
    if not stream:
        return response(*parts, **metadata), texts
    told = [response(part) for part in parts]
    at = draw(st.integers(0, len(told) - 1))
    told[at]["candidates"][0]["groundingMetadata"] = metadata
    return told, texts


@QUICK
@given(grounded())
def test_every_claim_stands_where_the_characters_are_its_own(made: tuple[Any, list[str]]) -> None:
    body, texts = made
    rows = rows_of(body)
    [answer] = rows.answers
    assert [claim.claim_text for claim in rows.claim_supports] == texts
    for claim in rows.claim_supports:
        assert claim.claim_start is not None
        assert claim.claim_end is not None
        assert answer.answer_text[claim.claim_start : claim.claim_end] == claim.claim_text
    assert answer.warnings == ()


@QUICK
@given(grounded(), st.data())
def test_offsets_that_lost_their_part_are_found_again_or_told(
    made: tuple[Any, list[str]], data: st.DataObject
) -> None:
    body, texts = made
    for part in body if isinstance(body, list) else [body]:
        for candidate in part["candidates"]:
            for support in candidate.get("groundingMetadata", {}).get("groundingSupports", ()):
                if data.draw(st.booleans()):
                    support["segment"].pop("partIndex", None)
                else:
                    support["segment"]["startIndex"] = data.draw(st.integers(-5, 60))
    rows = rows_of(body)
    [answer] = rows.answers
    assert [claim.claim_text for claim in rows.claim_supports] == texts
    for claim in rows.claim_supports:
        if claim.claim_start is not None:
            found = answer.answer_text[claim.claim_start : claim.claim_end]
            # By words a claim is found without regard to white space.
            assert "".join(found.split()) == "".join(claim.claim_text.split())


NAMES = st.sampled_from(
    [
        "candidates",
        "content",
        "parts",
        "text",
        "thought",
        "role",
        "index",
        "finishReason",
        "finishMessage",
        "groundingMetadata",
        "groundingChunks",
        "groundingSupports",
        "segment",
        "startIndex",
        "endIndex",
        "partIndex",
        "groundingChunkIndices",
        "confidenceScores",
        "web",
        "uri",
        "title",
        "domain",
        "retrievedContext",
        "ragChunk",
        "pageSpan",
        "firstPage",
        "lastPage",
        "maps",
        "placeId",
        "image",
        "imageUri",
        "webSearchQueries",
        "retrievalQueries",
        "searchEntryPoint",
        "renderedContent",
        "sdkBlob",
        "retrievalMetadata",
        "googleSearchDynamicRetrievalScore",
        "promptFeedback",
        "blockReason",
        "blockReasonMessage",
        "usageMetadata",
        "promptTokenCount",
        "totalTokenCount",
        "trafficType",
        "modelVersion",
        "responseId",
        "safetyRatings",
        "category",
        "probabilityScore",
        "blocked",
        "citationMetadata",
        "citations",
        "urlContextMetadata",
        "urlMetadata",
        "retrievedUrl",
        "avgLogprobs",
        "customMetadata",
        "key",
        "somethingNew",
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 60),
    st.integers(),
    st.floats(allow_nan=False),
    SENTENCES,
    st.sampled_from(["", "STOP", "SAFETY", "MAX_TOKENS", "12", "\x00", "AAA="]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=6)),
    max_leaves=40,
)
CANDIDATES = st.lists(st.dictionaries(NAMES, VALUES, max_size=6), max_size=3)
RESPONSES = st.one_of(
    VALUES,
    st.builds(
        lambda rest, candidates: {**rest, "candidates": candidates},
        st.dictionaries(NAMES, VALUES),
        CANDIDATES,
    ),
    st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=4),
)


def check(body: object) -> None:
    rows = rows_of(body)
    assert bool(rows.answers) != bool(rows.failures)
    for row in rows:
        encode(row)


@QUICK
@given(RESPONSES)
@example({"candidates": [{"content": {"parts": [{"text": "x"}]}, "avgLogprobs": 10**400}]})
@example({"candidates": [{"content": {"parts": [{"text": "x"}]}, "index": -1}, {"index": True}]})
@example([[], None, 7])
def test_any_json_becomes_rows_or_a_failure(body: object) -> None:
    check(body)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A response as the reference has it, in which one value was replaced by any other."""
    body, _ = draw(grounded())
    spots: list[tuple[Any, Any]] = []
    stack = [body]
    while stack:
        value = stack.pop()
        children = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, child in children:
            spots.append((value, key))
            stack.append(child)
    holder, key = draw(st.sampled_from(spots))
    holder[key] = draw(VALUES)
    return body


@QUICK
@given(damaged())
def test_one_wrong_value_costs_no_run(body: object) -> None:
    check(body)


@QUICK
@given(st.binary(max_size=80))
def test_any_bytes_are_a_failure_or_rows(body: bytes) -> None:
    check(body)


@QUICK
@given(grounded(), st.integers(0, 400))
def test_a_response_that_breaks_off_is_a_failure(made: tuple[Any, list[str]], end: int) -> None:
    raw = json.dumps(made[0]).encode()
    if end < len(raw):
        [failure] = rows_of(raw[:end]).failures
        assert failure.code == "UNDECODABLE_RESPONSE"


def test_a_response_nested_beyond_all_reason_ends_no_run() -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = {"somethingNew": deep}
    check(
        json.dumps(
            {"candidates": [{"content": {"parts": [{"text": "x"}]}, "groundingMetadata": deep}]}
        ).encode()
    )
    answer_of({})
