"""What becomes of single responses, and of every oddity that users of the service reported of one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from groundrows.schemas.rows import Citation, FetchedUrl, Retrieval, SafetyRating
from groundrows.schemas.service import GEMINI, service_of, stored_json
from tests.support.gemini import MODEL, NOON, answer_of, candidate_of, read, response, rows_of, support

TIN = "Zinn schmilzt bei 232 °C."
LEAD = "Blei bei 327 °C – früher."
REDIRECT = "https://vertexaisearch.cloud.google.com/grounding-api-redirect/abc"
WEB = {"web": {"uri": REDIRECT, "title": "metals.example"}}
SEARCH = {"id": "q", "question": "When?", "grounding_sources": [{"google_search_source": {}}]}


def said(body: object) -> str | None:
    _, answer = answer_of(body)
    return service_of(GEMINI, "v1beta").said(answer)


def placed(body: object) -> list[tuple[str, str | None]]:
    """Each claim's text, and the answer's characters at its place."""
    candidate = candidate_of(body)
    assert candidate.text is not None
    return [
        (claim.text, None if claim.span is None else candidate.text[slice(*claim.span)])
        for claim in candidate.claims
    ]


def test_bytes_become_characters() -> None:
    text = f"{TIN} {LEAD}"
    start = len(TIN.encode()) + 1
    body = response(
        text, groundingChunks=[WEB], groundingSupports=[support(TIN, 0, 0), support(LEAD, start, 0)]
    )
    del body["candidates"][0]["groundingMetadata"]["groundingSupports"][0]["segment"]["startIndex"]
    assert placed(body) == [(TIN, TIN), (LEAD, LEAD)]
    [first, second] = rows_of(body).claim_supports
    assert (first.claim_start, first.claim_end) == (0, len(TIN))
    assert (second.claim_start, second.claim_end) == (len(TIN) + 1, len(text))
    [row] = rows_of(body).answers
    assert row.support_coverage == (len(text) - 1) / len(text)
    assert row.warnings == ()


def test_a_thought_is_no_part_of_the_answer_and_an_unnamed_part_is_found() -> None:
    thought = {"text": "Ich sehe nach – früh.", "thought": True}
    candidate = candidate_of(
        response(thought, TIN, groundingChunks=[WEB], groundingSupports=[support(TIN, 0, 0)])
    )
    assert candidate.text == TIN
    assert candidate.thoughts == "Ich sehe nach – früh."
    assert candidate.claims[0].span == (0, len(TIN))
    [warning] = candidate.warnings
    assert "another part" in warning


def test_offsets_count_in_the_part_that_is_named() -> None:
    body = response(
        f"{TIN} ",
        LEAD,
        groundingChunks=[WEB],
        groundingSupports=[support(TIN, 0, 0), support(LEAD, 0, 0, partIndex=1)],
    )
    candidate = candidate_of(body)
    assert placed(body) == [(TIN, TIN), (LEAD, LEAD)]
    assert candidate.claims[1].span == (len(TIN) + 1, len(TIN) + 1 + len(LEAD))
    assert candidate.warnings == ()


def test_offsets_that_count_in_the_joined_text_are_recognised() -> None:
    start = len(TIN.encode()) + 1
    body = response(f"{TIN} ", LEAD, groundingChunks=[WEB], groundingSupports=[support(LEAD, start, 0)])
    assert placed(body) == [(LEAD, LEAD)]
    assert "another part" in candidate_of(body).warnings[0]


def test_offsets_in_characters_are_not_taken_for_bytes() -> None:
    wrong = {"segment": {"startIndex": len(TIN) + 1, "endIndex": len(TIN) + 1 + len(LEAD), "text": LEAD}}
    body = response(
        f"{TIN} {LEAD}", groundingChunks=[WEB], groundingSupports=[{**wrong, "groundingChunkIndices": [0]}]
    )
    assert placed(body) == [(LEAD, None)]
    [claim] = rows_of(body).claim_supports
    assert (claim.claim_start, claim.claim_end) == (len(TIN) + 1, len(TIN) + 1 + len(LEAD))
    assert "looked for by the words" in rows_of(body).answers[0].warnings[0]


def test_a_tiny_segment_marks_one_place_alone() -> None:
    body = response("a ** b ** c", groundingChunks=[WEB], groundingSupports=[support("**", 7, 0)])
    assert candidate_of(body).claims[0].span == (7, 9)


def test_offsets_within_a_character_are_no_place() -> None:
    body = response(
        "🙂🙂", groundingChunks=[WEB], groundingSupports=[{"segment": {"startIndex": 1, "endIndex": 4}}]
    )
    [claim] = candidate_of(body).claims
    assert (claim.text, claim.span) == ("", None)


def test_searched_but_no_chunks_and_no_supports() -> None:
    [row] = rows_of(
        response(TIN, webSearchQueries=["zinn"], searchEntryPoint={"renderedContent": "<b>"})
    ).answers
    assert row.web_search_queries == ("zinn",)
    assert row.search_suggestions_html == "<b>"
    assert (row.chunk_count, row.claim_count, row.support_coverage) == (0, 0, 0.0)
    assert row.uris_expire_at is None


def test_chunks_missing_while_supports_point_at_them() -> None:
    rows = rows_of(response(TIN, groundingSupports=[support(TIN, 0, 0, 3)]))
    [claim] = rows.claim_supports
    assert claim.chunk_index is None
    assert any("none of the chunks" in warning for warning in rows.answers[0].warnings)
    assert any("cites chunk 0, 3, of 0 chunks" in warning for warning in rows.answers[0].warnings)


def test_no_metadata_at_all_is_an_answer_without_grounding() -> None:
    rows = rows_of(response(TIN), record=SEARCH)
    assert rows.answered
    assert rows.answers[0].retrieval == ()
    assert rows.answers[0].uris_expire_at is None


@pytest.mark.parametrize("streamed", [False, True])
def test_a_model_that_decides_not_to_search_leaves_the_metadata_empty(streamed: bool) -> None:
    body = response(TIN)
    body["candidates"][0]["groundingMetadata"] = {}
    rows = rows_of([body] if streamed else body, record=SEARCH)
    [row] = rows.answers
    assert (row.answer_text, row.retrieval, row.billed_searches, row.chunk_count) == (TIN, (), 0, 0)
    assert row.warnings == ()


def test_a_stream_without_any_metadata_is_an_answer_without_grounding() -> None:
    rows = rows_of([response(f"{TIN} "), response(LEAD), {"usageMetadata": {"totalTokenCount": 3}}])
    assert rows.answered
    assert (rows.answers[0].answer_text, rows.answers[0].chunk_count) == (f"{TIN} {LEAD}", 0)


def test_a_field_nobody_knows_is_kept_in_the_source_metadata() -> None:
    chunk = {**WEB, "chunkMetadata": {"query": "zinn", "rank": 2, "good": True}}
    [row] = rows_of(response(TIN, groundingChunks=[chunk])).support_chunks
    assert row.source_metadata == {
        "chunkMetadata.query": "zinn",
        "chunkMetadata.rank": "2",
        "chunkMetadata.good": "true",
    }


def test_redirect_links_expire_and_no_domain_is_guessed() -> None:
    rows = rows_of(response(TIN, groundingChunks=[WEB]))
    [row] = rows.support_chunks
    assert (row.kind, row.uri, row.title, row.domain) == ("web", REDIRECT, "metals.example", None)
    assert row.uris_expire_at == rows.answers[0].uris_expire_at == NOON + timedelta(days=30)
    lasting = rows_of(response(TIN, groundingChunks=[{"web": {"uri": "https://a.example/"}}]), record=SEARCH)
    assert lasting.answers[0].uris_expire_at is None


def ended(reason: str | None, **more: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model"}, **({"finishReason": reason} if reason else {}), **more}
    return {"candidates": [candidate], "usageMetadata": {"totalTokenCount": 7}}


@pytest.mark.parametrize(
    ("body", "code", "retryable"),
    [
        (ended("STOP"), "EMPTY_ANSWER", True),
        (ended("OTHER"), "EMPTY_ANSWER", True),
        (ended(None), "EMPTY_ANSWER", True),
        (ended("MALFORMED_FUNCTION_CALL"), "EMPTY_ANSWER", True),
        (ended("UNEXPECTED_TOOL_CALL", finishMessage="The tool run is not there."), "EMPTY_ANSWER", True),
        (ended("SOMETHING_NEW"), "EMPTY_ANSWER", True),
        (ended("MAX_TOKENS"), "TRUNCATED", False),
        (ended("RECITATION", citationMetadata={"citations": [{"uri": "u"}]}), "ANSWER_BLOCKED", False),
        (ended("SAFETY"), "ANSWER_BLOCKED", False),
        ({"candidates": [{"finishReason": "SPII"}]}, "ANSWER_BLOCKED", False),
        (response({"text": "Hm.", "thought": True}), "EMPTY_ANSWER", True),
        ({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "No."}}, "PROMPT_BLOCKED", False),
        ({"usageMetadata": {}}, "NO_CANDIDATES", False),
        ({}, "NO_CANDIDATES", False),
        ([], "NO_CANDIDATES", False),
        ([{"promptFeedback": {"blockReason": "OTHER"}}, {"usageMetadata": {}}], "PROMPT_BLOCKED", False),
    ],
)
def test_no_text_is_a_failure_that_says_why(body: object, code: str, retryable: bool) -> None:
    rows = rows_of(body)
    [failure] = rows.failures
    assert (failure.code, failure.retryable) == (code, retryable)
    assert rows.answers == ()
    assert said(body) is None


def test_what_the_service_says_of_a_refusal_is_in_the_message() -> None:
    assert "run is not there" in rows_of(ended("OTHER", finishMessage="run is not there")).failures[0].message
    blocked = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "Not\nthis."}}
    assert "SAFETY: Not this." in rows_of(blocked).failures[0].message
    assert "max_output_tokens" in rows_of(ended("MAX_TOKENS")).failures[0].message


@pytest.mark.parametrize("reason", ["SAFETY", "MAX_TOKENS", "SOMETHING_NEW", "CONTINUATION"])
def test_text_is_an_answer_whatever_it_ends_for(reason: str) -> None:
    body = response(TIN)
    body["candidates"][0] |= {"finishReason": reason, "finishMessage": "So."}
    [row] = rows_of(body).answers
    assert (row.answer_text, row.finish_reason, row.finish_message) == (TIN, reason, "So.")
    assert bool(row.warnings) == (reason in ("MAX_TOKENS", "CONTINUATION"))


def test_marks_that_the_model_wrote_stay_in_the_text() -> None:
    assert candidate_of(response("It melts. [cite: 5]")).text == "It melts. [cite: 5]"


def test_tokens_outside_prompt_and_answer_are_counted_apart() -> None:
    body = response(TIN)
    body |= {
        "usageMetadata": {
            "promptTokenCount": 9,
            "candidatesTokenCount": "27",
            "thoughtsTokenCount": 61,
            "toolUsePromptTokenCount": 18329,
            "cachedContentTokenCount": 4,
            "totalTokenCount": 18426,
            "trafficType": "ON_DEMAND",
        },
        "modelVersion": "gemini-2.5-flash-001",
        "responseId": "r1",
    }
    [row] = rows_of(body).answers
    assert (row.prompt_tokens, row.answer_tokens, row.thought_tokens) == (9, 27, 61)
    assert (row.tool_tokens, row.cached_tokens, row.total_tokens) == (18329, 4, 18426)
    assert (row.traffic_type, row.model_version, row.response_id) == (
        "ON_DEMAND",
        "gemini-2.5-flash-001",
        "r1",
    )
    assert (row.service, row.model_id) == ("gemini", MODEL)


def test_tokens_of_a_response_stand_in_the_row_of_its_first_candidate() -> None:
    body = response(TIN)
    body["candidates"].append({**response(LEAD)["candidates"][0], "index": 1})
    body["usageMetadata"] = {"totalTokenCount": 5}
    assert [row.total_tokens for row in rows_of(body).answers] == [5, None]


def test_queries_are_kept_as_sent_and_billed_once() -> None:
    [row] = rows_of(response(TIN, webSearchQueries=["zinn", "zinn", "", " ", "blei"])).answers
    assert row.web_search_queries == ("zinn", "zinn", "", " ", "blei")
    assert row.billed_searches == 2


def test_citations_ratings_and_urls() -> None:
    body = response(TIN)
    body["candidates"][0] |= {
        "citationMetadata": {"citations": [{"startIndex": 3, "endIndex": 9, "uri": "u", "license": "mit"}]},
        "safetyRatings": [{"category": "C", "probability": "LOW", "probabilityScore": 0.25, "blocked": True}],
        "urlContextMetadata": {
            "urlMetadata": [
                {"retrievedUrl": "https://a.example/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}
            ]
        },
        "avgLogprobs": -0.5,
    }
    [row] = rows_of(body).answers
    assert row.citations == (Citation(3, 9, "u", None, "mit"),)
    assert row.safety_ratings == (SafetyRating("C", "LOW", 0.25, None, None, True),)
    assert row.urls == (FetchedUrl("https://a.example/", "URL_RETRIEVAL_STATUS_SUCCESS"),)
    assert row.avg_logprobs == -0.5


def test_addresses_that_were_read_may_be_told_above_the_candidates_and_in_a_part_of_a_stream() -> None:
    read = {"urlMetadata": [{"retrievedUrl": "https://a.example/", "urlRetrievalStatus": "OK"}]}
    expected = (FetchedUrl("https://a.example/", "OK"),)
    [row] = rows_of({**response(TIN), "urlContextMetadata": read}).answers
    assert row.urls == expected
    [row] = rows_of([response(TIN), {"urlContextMetadata": read}]).answers
    assert row.urls == expected
    body = {**response(TIN), "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "https://b.example/"}]}}
    body["candidates"][0]["urlContextMetadata"] = read
    [row] = rows_of(body).answers
    assert row.urls == expected


def test_a_passage_of_a_store_need_not_say_where_in_the_document_it_stands() -> None:
    passage = {"retrievedContext": {"uri": "gs://b/terms.pdf", "title": "Terms", "text": "Paid."}}
    [row] = rows_of(response(TIN, groundingChunks=[passage])).support_chunks
    assert (row.chunk_text, row.page_identifier, row.document_id) == ("Paid.", None, None)


def test_a_passage_of_a_store_has_text_document_and_page() -> None:
    passage = {
        "retrievedContext": {
            "uri": "gs://b/terms.pdf",
            "title": "Terms",
            "text": "Paid within 14 days.",
            "documentName": "projects/p/documents/x",
            "ragChunk": {"text": "Paid.", "fileId": "f", "pageSpan": {"firstPage": 3, "lastPage": 4}},
        }
    }
    rows = rows_of(response(TIN, retrievalQueries=["refund"], groundingChunks=[passage]))
    [row] = rows.support_chunks
    assert (row.kind, row.chunk_text, row.document_id) == (
        "retrieved",
        "Paid within 14 days.",
        "projects/p/documents/x",
    )
    assert (row.page_identifier, row.source_metadata) == ("3-4", {"fileId": "f"})
    assert rows.answers[0].retrieval == (Retrieval("VERTEX_AI_SEARCH", None, None),)
    assert rows.answers[0].retrieval_queries == ("refund",)


def test_a_place_on_a_map_and_an_image() -> None:
    chunks = [
        {
            "maps": {
                "uri": "https://maps.example/1",
                "title": "Café",
                "text": "Good.",
                "placeId": "places/1",
                "placeAnswerSources": {"reviewSnippets": [{"reviewId": "r", "title": "Nice"}]},
            }
        },
        {"image": {"imageUri": "https://i.example/1.png", "sourceUri": "https://i.example/", "title": "I"}},
    ]
    rows = rows_of(response(TIN, groundingChunks=chunks))
    place, image = rows.support_chunks
    assert (place.kind, place.place_id, place.chunk_text) == ("maps", "places/1", "Good.")
    assert place.source_metadata["placeAnswerSources.reviewSnippets.0.reviewId"] == "r"
    assert (image.kind, image.uri) == ("image", "https://i.example/")
    assert image.source_metadata == {"imageUri": "https://i.example/1.png"}
    [shown] = rows.answers[0].images
    assert shown.image is not None
    assert shown.image.uri == "https://i.example/1.png"


def test_scores_belong_to_chunks_and_none_are_made_up() -> None:
    scored = {**support(TIN, 0, 0, 1), "confidenceScores": [0.9, 0.4]}
    body = response(TIN, groundingChunks=[WEB, WEB], groundingSupports=[scored])
    assert [row.support_score for row in rows_of(body).claim_supports] == [0.9, 0.4]
    scored["confidenceScores"] = []
    assert [row.support_score for row in rows_of(body).claim_supports] == [None, None]
    scored["confidenceScores"] = [1.5]
    rows = rows_of(body)
    assert [row.support_score for row in rows.claim_supports] == [None, None]
    assert "1.5" in rows.answers[0].warnings[0]


def test_the_web_is_named_by_the_tool_that_was_asked_for() -> None:
    record = {"id": "q", "question": "When?", "grounding_sources": [{"enterprise_web_retrieval_source": {}}]}
    body = response(
        TIN, webSearchQueries=["zinn"], retrievalMetadata={"googleSearchDynamicRetrievalScore": 0.5}
    )
    [row] = rows_of(body, record=record, api_version="v1").answers
    assert row.retrieval == (Retrieval("ENTERPRISE_WEB_RETRIEVAL", None, 0.5),)
    [row] = rows_of(body, record=SEARCH).answers
    assert row.retrieval == (Retrieval("GOOGLE_SEARCH", None, 0.5),)


FACTS = {
    "id": "q",
    "question": "When?",
    "facts": ["Tin melts.", {"fact_text": "Lead, too.", "attributes": {"title": "T"}}],
}


def test_facts_are_chunks_and_no_claim_is_made_up() -> None:
    rows = rows_of(response(TIN), record=FACTS)
    assert [(row.kind, row.chunk_text, row.title) for row in rows.support_chunks] == [
        ("fact", "Tin melts.", None),
        ("fact", "Lead, too.", "T"),
    ]
    [row] = rows.answers
    assert (row.claim_count, row.support_coverage, rows.claim_supports) == (0, None, ())
    assert row.retrieval == (Retrieval("INLINE_CONTENT", None, None),)
    assert any("support_coverage is left out" in warning for warning in row.warnings)


def test_facts_stand_behind_the_chunks_that_claims_cite() -> None:
    record = {**FACTS, "grounding_sources": [{"google_search_source": {}}]}
    rows = rows_of(
        response(TIN, groundingChunks=[WEB], groundingSupports=[support(TIN, 0, 0)]), record=record
    )
    assert [row.kind for row in rows.support_chunks] == ["web", "fact", "fact"]
    assert rows.answers[0].support_coverage == 1.0


# -- streams


def test_a_stream_adds_chunks_up_and_counts_from_the_start_of_the_text() -> None:
    first = response(f"{TIN} ", groundingChunks=[{"web": {"uri": "a"}}])
    del first["candidates"][0]["finishReason"]
    last = response(
        LEAD,
        groundingChunks=[{"web": {"uri": "b"}}],
        groundingSupports=[support(LEAD, len(TIN.encode()) + 1, 1)],
    )
    usage = {"usageMetadata": {"totalTokenCount": 24}}
    rows = rows_of([first, last, usage])
    [row] = rows.answers
    assert (row.answer_text, row.finish_reason, row.total_tokens) == (f"{TIN} {LEAD}", "STOP", 24)
    assert [chunk.uri for chunk in rows.support_chunks] == ["a", "b"]
    [claim] = rows.claim_supports
    assert row.answer_text[claim.claim_start : claim.claim_end] == LEAD
    assert claim.chunk_uri == "b"
    assert row.warnings == ()


def test_metadata_in_an_early_part_survives_the_last_one() -> None:
    early = response(
        TIN, webSearchQueries=["zinn"], groundingChunks=[WEB], groundingSupports=[support(TIN, 0, 0)]
    )
    late = {
        "candidates": [{"content": {"role": "model", "parts": [{"text": " So."}]}, "finishReason": "STOP"}]
    }
    [row] = rows_of([early, late]).answers
    assert (row.chunk_count, row.claim_count, row.web_search_queries) == (1, 1, ("zinn",))


def test_metadata_sent_again_whole_is_not_counted_twice() -> None:
    metadata = {
        "webSearchQueries": ["zinn"],
        "groundingChunks": [WEB],
        "groundingSupports": [support(TIN, 0, 0)],
    }
    parts = [response(TIN, **metadata), {"candidates": [{"groundingMetadata": metadata}]}]
    [row] = rows_of(parts).answers
    assert (row.chunk_count, row.claim_count, row.web_search_queries) == (1, 1, ("zinn",))
    longer = {**metadata, "groundingChunks": [WEB, {"web": {"uri": "b"}}]}
    rows = rows_of([*parts, {"candidates": [{"groundingMetadata": longer}]}])
    assert len(rows.support_chunks) == 2


def test_metadata_without_content_and_usage_without_candidates() -> None:
    parts = [
        response(TIN),
        {
            "candidates": [
                {"groundingMetadata": {"groundingChunks": [WEB], "groundingSupports": [support(TIN, 0, 0)]}}
            ]
        },
        {"usageMetadata": {"totalTokenCount": 3}},
    ]
    rows = rows_of(parts)
    assert rows.answers[0].answer_text == TIN
    assert rows.answers[0].total_tokens == 3
    assert rows.claim_supports[0].chunk_uri == REDIRECT


def test_a_stream_of_two_candidates_keeps_them_apart() -> None:
    def part(index: int, text: str) -> dict[str, Any]:
        return {"candidates": [{"index": index, "content": {"parts": [{"text": text}]}}]}

    rows = rows_of([part(1, "b1"), part(0, "a1"), part(1, "b2"), part(0, "a2")])
    assert [row.answer_text for row in rows.answers] == ["a1a2", "b1b2"]


# -- the whole response


def test_the_history_is_the_text_without_thoughts() -> None:
    assert said(response({"text": "Hm.", "thought": True}, TIN, LEAD)) == TIN + LEAD


def test_half_of_a_surrogate_pair_costs_no_answer() -> None:
    raw = rb'{"candidates":[{"content":{"parts":[{"text":"Tin \ud83d melts \ud83d\ude42"}]}}]}'
    assert candidate_of(raw).text == "Tin \ufffd melts 🙂"
    assert rows_of(raw).answered


def test_values_of_another_kind_are_told() -> None:
    body = response(TIN, groundingChunks="none", webSearchQueries=[1])
    [warning] = rows_of(body).answers[0].warnings
    assert "groundingChunks, webSearchQueries" in warning


def test_what_is_no_response_is_a_failure() -> None:
    for raw in (b"", b"7", b'"text"', b'{"candidates": [{', b"\xff", b"null", b"[" * 5000):
        assert rows_of(raw).failures[0].code == "UNDECODABLE_RESPONSE", raw


def test_a_response_is_kept_as_it_came() -> None:
    raw = b'{"candidates": [ {"content":{"parts":[{"text":"x"}]}} ],"new": 1.50}'
    assert rows_of(raw).answers[0].response_json == raw.decode()


def test_a_ledger_shows_a_stored_response_as_json() -> None:
    assert stored_json(b'{"candidates": []}') == '{"candidates":[]}'
    assert stored_json(b'[{"candidates": []}, {}]') == '[{"candidates":[]},{}]'


def test_usage_alone_is_read_of_a_failure() -> None:
    assert read(ended("MAX_TOKENS")).usage.total == 7
