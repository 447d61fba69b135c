"""What the response of a grounding check becomes, claim by claim."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest

from groundrows.schemas.discoveryengine.check import check_request
from groundrows.schemas.question import Question
from groundrows.schemas.rows import CitedChunk, GroundingCheckRow
from tests.contract.flattened import NOON, of_an_answer, question_of, response_of, rows_of

TIN, IRON = "Tin melts at 232 °C.", "Iron melts at 1538 °C."
TEXT = f"{TIN} {IRON}"  # as tests.contract.flattened has it; each ° is two bytes
QUESTION = question_of("v1", "check")


def rows(message: Any, question: Question = QUESTION, **options: Any) -> list[GroundingCheckRow]:
    found = rows_of(question, message, **options)
    assert all(isinstance(row, GroundingCheckRow) for row in found)
    return found  # type: ignore[return-value]


def response() -> Any:
    return response_of("v1", "check")


def ordinary() -> Any:
    message = response()
    message.support_score = 0.9
    message.cited_chunks.add(chunk_text=IRON, source="1", source_metadata={"author": "A", "uri": "gs://iron"})
    message.cited_chunks.add(
        chunk_text=TIN, source="0", uri="https://tin.test", title="Tin", domain="tin.test"
    )
    message.claims.add(
        start_pos=0,
        end_pos=21,
        claim_text=TIN,
        citation_indices=[1],
        grounding_check_required=True,
        score=0.8999999761581421,
    )
    message.claims.add(start_pos=22, end_pos=45, claim_text=IRON, citation_indices=[0, 1])
    return message


def spans(found: Sequence[GroundingCheckRow]) -> list[tuple[int | None, int | None]]:
    return [(row.claim_start, row.claim_end) for row in found]


def test_each_claim_is_a_row_with_its_place_in_characters() -> None:
    found = rows(ordinary())
    assert [(row.claim_index, row.claim_text) for row in found] == [(0, TIN), (1, IRON)]
    assert spans(found) == [(0, 20), (21, 43)]
    assert [TEXT[row.claim_start : row.claim_end] for row in found] == [TIN, IRON]
    assert [row.warnings for row in found] == [(), ()]


def test_what_was_said_of_a_claim_and_of_the_answer() -> None:
    first, second = rows(ordinary())
    assert (first.grounding_check_required, first.claim_score) == (True, 0.8999999761581421)
    assert (second.grounding_check_required, second.claim_score) == (None, None)
    assert {row.support_score for row in (first, second)} == {0.9}, (
        "the shortest number that is the float sent"
    )
    assert {row.citation_threshold for row in (first, second)} == {0.6}
    assert {row.cited_chunk_count for row in (first, second)} == {2}


def test_citations_are_the_chunks_cited_in_the_order_sent() -> None:
    tin = CitedChunk(0, TIN, "0", "https://tin.test", "Tin", "tin.test", {}, None)
    iron = CitedChunk(1, IRON, "1", "gs://iron", None, None, {"author": "A", "uri": "gs://iron"}, None)
    first, second = rows(ordinary())
    assert (first.citations, second.citations) == ((tin,), (iron, tin))


def test_how_the_check_came_is_copied() -> None:
    (row, _) = rows(ordinary(), attempts=3, from_ledger=True, latency_ms=7.5)
    assert (row.attempts, row.from_ledger, row.latency_ms, row.api_version) == (3, True, 7.5, "v1")
    assert (row.asked_at, (row.checked_at - NOON).seconds) == (NOON, 1)


def test_what_is_long_is_in_the_first_row_alone() -> None:
    first, second = rows(ordinary(), keep_response=True)
    assert first.answer_text == TEXT
    assert first.request_json is not None
    sent = json.loads(first.request_json)
    assert sent["groundingConfig"] == "projects/p/locations/global/groundingConfigs/default_grounding_config"
    assert [fact["factText"] for fact in sent["facts"]] == [TIN, IRON]
    assert first.response_json is not None
    assert json.loads(first.response_json)["citedChunks"][1]["uri"] == "https://tin.test"
    assert (second.answer_text, second.request_json, second.response_json) == (None, None, None)


def test_a_threshold_left_to_the_service_is_null() -> None:
    request = check_request("v1", TEXT, [(TIN, {})], None)
    (row,) = rows(response(), Question("q", (TEXT,), request, "v1", None, None, b"", "", method="check"))
    assert row.citation_threshold is None


def test_a_response_without_claims_keeps_its_score() -> None:
    message = response()
    message.support_score = 0
    (row,) = rows(message)
    assert (row.claim_index, row.claim_text, row.claim_start, row.claim_end) == (None, None, None, None)
    assert (row.support_score, row.citations, row.cited_chunk_count) == (0, (), 0)
    assert row.answer_text == TEXT


def test_an_empty_response_is_a_row_of_nulls() -> None:
    (row,) = rows(b"")
    assert (row.claim_index, row.support_score, row.warnings) == (None, None, ())


def test_chunks_that_no_claim_cites_are_in_a_row_of_their_own() -> None:
    message = ordinary()
    del message.claims[1]
    claimed, left = rows(message)
    assert [cited.chunk_text for cited in claimed.citations] == [TIN]
    assert (left.claim_index, [cited.chunk_text for cited in left.citations]) == (None, [IRON])
    assert left.answer_text is None
    assert left.check_id == claimed.check_id


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1, -(2**31)])
def test_an_index_of_no_chunk_is_left_out_with_a_warning(index: int) -> None:
    message = ordinary()
    message.claims[1].citation_indices[:] = [0, index, 0]
    first, second = rows(message)
    assert [cited.chunk_text for cited in second.citations] == [IRON]
    assert second.warnings == (f"Claim 1 cites chunk {index}, of 2 chunks: left out.",)
    assert first.warnings == ()


# Places, which the service counts in bytes


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (18, 21),  # inside the degree sign
        (0, 18),
        (-1, 5),
        (0, 46),
        (2**31 - 2, 2**31 - 1),
        (-(2**31), 2**31 - 1),
        (21, 5),
    ],
)
def test_a_place_that_is_none_is_left_out_with_a_warning(start: int, end: int) -> None:
    message = response()
    message.claims.add(start_pos=start, end_pos=end, claim_text=TIN)
    (row,) = rows(message)
    assert (row.claim_start, row.claim_end) == (None, None)
    assert row.warnings == (
        f"Claim 0 is said to stand from byte {start} to {end}, which is no stretch of the answer's characters: "
        "left out.",
    )


def test_a_place_that_was_not_sent_is_null_without_a_warning() -> None:
    message = response()
    message.claims.add(claim_text=TIN)
    (row,) = rows(message)
    assert (row.claim_start, row.claim_end, row.warnings) == (None, None, ())


@pytest.mark.parametrize(("field", "value"), [("start_pos", 0), ("start_pos", 3), ("end_pos", 20)])
def test_half_a_place_is_none(field: str, value: int) -> None:
    message = response()
    message.claims.add(claim_text=TIN, **{field: value})
    (row,) = rows(message)
    assert (row.claim_start, row.claim_end) == (None, None)
    assert row.warnings == (f"Claim 0 has only {field}, {value}: its place is left out.",)


def test_a_start_that_was_left_out_is_0_where_the_claim_s_text_says_so() -> None:
    message = response()
    message.claims.add(claim_text=TIN, end_pos=len(TIN.encode()))
    (row,) = rows(message)
    assert (row.claim_start, row.claim_end, row.warnings) == (0, len(TIN), ())


def test_a_claim_worded_otherwise_keeps_its_place_and_is_warned_of() -> None:
    message = response()
    message.claims.add(start_pos=0, end_pos=21, claim_text="Tin melts early.")
    (row,) = rows(message)
    assert (row.claim_start, row.claim_end) == (0, 20)
    assert row.warnings == ("Claim 0 is worded differently from the answer at its place.",)


def test_a_place_without_wording_is_kept() -> None:
    message = response()
    message.claims.add(start_pos=0, end_pos=21)
    (row,) = rows(message)
    assert (row.claim_text, row.claim_start, row.claim_end, row.warnings) == ("", 0, 20, ())


@pytest.mark.parametrize(
    "sentences",
    [
        ["水は百度で沸騰する。", "鉄は溶ける。"],
        ["הבדיל נמס מוקדם.", "הברזל נמס מאוחר."],
        ["L'e\u0301tain fond.", "Le fer fond apre\u0300s."],
        ["👩‍👩‍👧 stay.", "a\x00b."],
    ],
)
def test_places_in_every_script_are_counted_in_characters(sentences: list[str]) -> None:
    text = " ".join(sentences)
    message = response()
    at = 0
    for sentence in sentences:
        end = at + len(sentence.encode())
        message.claims.add(start_pos=at, end_pos=end, claim_text=sentence)
        at = end + 1
    found = rows(message, question_of("v1", "check", text))
    assert [text[row.claim_start : row.claim_end] for row in found] == sentences
    assert [row.warnings for row in found] == [(), ()]


# Scores


@pytest.mark.parametrize("score", [math.nan, 1.5, -0.25, math.inf])
def test_what_is_no_score_is_null_with_a_warning(score: float) -> None:
    message = response()
    message.support_score = score
    message.claims.add(claim_text=TIN, score=score)
    (row,) = rows(message)
    assert (row.support_score, row.claim_score) == (None, None)
    assert row.warnings == (
        f"support_score is {score}, which is not in [0, 1]: left out.",
        f"score of claim 0 is {score}, which is not in [0, 1]: left out.",
    )


def test_a_claim_that_needs_no_check_says_so() -> None:
    message = response()
    message.claims.add(claim_text=TIN, grounding_check_required=False)
    (row,) = rows(message)
    assert row.grounding_check_required is False


# Which chunk a citation is of


@pytest.mark.parametrize(
    ("source", "expected"),
    [("0", 4), ("1", 7), ("2", None), ("-1", None), ("", None), ("١", None), ("²", None), ("x", None),
     ("9" * 5000, None)],
)  # fmt: skip
def test_a_source_names_the_support_chunk_that_was_that_fact(source: str, expected: int | None) -> None:
    message = response()
    message.cited_chunks.add(chunk_text=TIN, source=source)
    (row,) = rows(message, of_an_answer(QUESTION, chunk_indices=(4, 7)))
    assert [(cited.chunk_index, cited.source) for cited in row.citations] == [(expected, source or None)]


def test_facts_cited_are_read_where_chunks_are_not_sent() -> None:
    message = response()
    message.cited_facts.add(chunk_text=IRON)
    message.claims.add(claim_text=IRON, citation_indices=[0])
    (row,) = rows(message)
    assert row.citations == (CitedChunk(None, IRON, None, None, None, None, {}, None),)
    assert row.warnings == ()


@pytest.mark.parametrize(
    ("chunk", "fact", "texts"), [(TIN, TIN, (TIN, None)), ("", TIN, (TIN, None)), (TIN, IRON, (TIN, IRON)),
                                 (TIN, "", (TIN, None))]
)  # fmt: skip
def test_a_fact_beside_its_chunk_adds_what_the_chunk_does_not_say(
    chunk: str, fact: str, texts: tuple[str, str | None]
) -> None:
    message = response()
    message.cited_chunks.add(chunk_text=chunk, source="0")
    message.cited_facts.add(chunk_text=fact)
    (row,) = rows(message)
    (cited,) = row.citations
    assert (cited.chunk_text, cited.fact_text) == texts


# Fields that this version does not know


def test_fields_unknown_to_this_version_are_named_in_the_first_row() -> None:
    received = ordinary().SerializeToString() + b"\xc2\xa6\x1d\x03new"
    first, second = rows(received, keep_response=True)
    assert first.response_json is not None
    assert "rawResponseBase64" in json.loads(first.response_json)
    assert len(first.warnings) == 1
    assert "fields unknown to this version" in first.warnings[0]
    assert second.warnings == ()


def test_thousands_of_warnings_are_cut_short() -> None:
    message = response()
    message.claims.add(claim_text=TIN, citation_indices=range(1000))
    (row,) = rows(message)
    assert len(row.warnings) == 1
    assert len(row.warnings[0]) < 100
