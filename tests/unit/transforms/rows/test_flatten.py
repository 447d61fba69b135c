from __future__ import annotations

import base64
import dataclasses
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from groundrows.schemas.discoveryengine.messages import request_class, response_class
from groundrows.schemas.outcome import Answer, Failure, Outcome
from groundrows.schemas.question import Question
from groundrows.schemas.response import Candidate, Chunk, Claim
from groundrows.schemas.rows import AnswerRow, Image, ImageFile, Retrieval, Video, Website, encode
from groundrows.schemas.tables import tables_made_by
from groundrows.transforms.rows.answer_rows import Turn, candidate_rows
from groundrows.transforms.rows.flatten import (
    FailureRows,
    FlattenAnswers,
    FlattenSettings,
    Rows,
    flatten,
)
from tests.support.read_back import read_back

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def the_time() -> datetime:
    return LATER


SETTINGS = FlattenSettings("run-1", now=the_time)
KEEPING = FlattenSettings("run-1", keep_response=True, now=the_time)


def request(api_version: str = "v1", *, google: bool = False, model_id: str = "") -> bytes:
    message: Any = request_class(api_version)()
    message.location = "projects/p/locations/global"
    message.contents.add(role="user").parts.add(text="When does tin melt?")
    if google:
        message.grounding_spec.grounding_sources.add().google_search_source.SetInParent()
    if model_id:
        message.generation_spec.model_id = model_id
    return message.SerializeToString(deterministic=True)


QUESTION = Question(
    question_id="q1",
    turns=("When does tin melt?", "And iron?"),
    request=request(),
    api_version="v1",
    user_context=None,
    metadata='{"team": "metals"}',
    record=b'{"question": "When does tin melt?"}',
    origin="metals.jsonl:7",
)
FAILURE = Failure(
    question_id="q1",
    turn_index=1,
    stage="generate",
    code="UNAVAILABLE",
    message="The service was unavailable five times; ask again later.",
    retryable=True,
    attempts=5,
    origin="metals.jsonl:7",
    record=b'{"question": "When does tin melt?"}',
    metadata='{"team": "metals"}',
)


def response(api_version: str = "v1") -> Any:
    return response_class(api_version)()


def candidate_of(message: Any, text: str | None = "Tin melts at 232 °C. Iron melts at 1538 °C.") -> Any:
    candidate = message.candidates.add()
    if text is not None:
        candidate.content.role = "model"
        candidate.content.parts.add(text=text)
    return candidate


def answer_to(message: Any, turn_index: int = 0, **changes: Any) -> Answer:
    answer = Answer(
        turn_index=turn_index,
        request=request(),
        response=message if isinstance(message, bytes) else message.SerializeToString(),
        api_version="v1",
        streamed=False,
        attempts=2,
        latency_ms=812.5,
        asked_at=NOON,
        answered_at=NOON + timedelta(seconds=1),
        from_ledger=False,
    )
    return dataclasses.replace(answer, **changes)


def outcome_of(*answers: Answer, question: Question = QUESTION, failure: Failure | None = None) -> Outcome:
    return Outcome(question, answers, failure, None, (), len(answers))


def rows_of(message: Any, settings: FlattenSettings = SETTINGS, **changes: Any) -> Rows:
    """The rows of one response, each of which a writer takes."""
    rows = flatten(outcome_of(answer_to(message, **changes)), settings)
    for row in rows:
        encode(row)
    return rows


def only_answer(rows: Rows) -> AnswerRow:
    (row,) = rows.answers
    return row


def citations(rows: Rows) -> list[tuple[int, int | None]]:
    return [(row.claim_index, row.chunk_index) for row in rows.claim_supports]


# What an ordinary response becomes


def ordinary() -> Any:
    message = response()
    candidate = candidate_of(message)
    candidate.grounding_score = 0.9
    metadata = candidate.grounding_metadata
    metadata.support_chunks.add(
        chunk_text="Tin: 232 °C.", source="0", uri="https://tin.test", title="Tin", domain="tin.test"
    )
    about = {
        "uri": "gs://iron/1.pdf",
        "title": "Iron",
        "domain": "iron.test",
        "document_id": "doc-1",
        "page_identifier": "3",
        "author": "A. Smith",
    }
    metadata.support_chunks.add(chunk_text="Iron: 1538 °C.", source="1", source_metadata=about)
    metadata.grounding_support.add(
        claim_text="Tin melts at 232 °C.", support_chunk_indices=[0], support_score=0.75
    )
    metadata.grounding_support.add(claim_text="Iron melts at 1538 °C.", support_chunk_indices=[1, 0])
    metadata.web_search_queries.extend(["tin", "iron"])
    metadata.search_entry_point.rendered_content = "<div>\n  <b>tin</b> &amp; iron</div>\n"
    metadata.search_entry_point.sdk_blob = b"\x00\x01"
    retrieval = metadata.retrieval_metadata.add(source=2)
    retrieval.dynamic_retrieval_metadata.predictor_metadata.version = 1
    retrieval.dynamic_retrieval_metadata.predictor_metadata.prediction = 0.6
    return message


def test_an_answer_row_says_what_was_asked_and_answered() -> None:
    rows = rows_of(ordinary())
    row = only_answer(rows)
    assert rows.answered
    assert rows.failures == ()
    assert (row.run_id, row.question_id, row.turn_index, row.candidate_index) == ("run-1", "q1", 0, 0)
    assert (row.question, row.role) == ("When does tin melt?", "model")
    assert row.answer_text == "Tin melts at 232 °C. Iron melts at 1538 °C."
    assert row.grounding_score == 0.9, "the shortest number that is the 32-bit float sent"
    assert row.support_coverage == 42 / 43, "all but the space between the sentences"
    assert (row.claim_count, row.supported_claim_count, row.chunk_count) == (2, 2, 2)
    assert row.web_search_queries == ("tin", "iron")
    assert row.search_suggestions_html == "<div>\n  <b>tin</b> &amp; iron</div>\n"
    assert row.search_sdk_blob == b"\x00\x01"
    assert row.retrieval == (Retrieval("INLINE_CONTENT", "V1_INDEPENDENT", 0.6),)
    assert (row.images, row.videos, row.warnings) == ((), (), ())
    assert (row.model_id, row.api_version, row.metadata) == (None, "v1", '{"team": "metals"}')
    assert json.loads(row.request_json)["contents"] == [
        {"role": "user", "parts": [{"text": "When does tin melt?"}]}
    ]
    assert (row.response_json, row.uris_expire_at) == (None, None)


def test_how_the_answer_came_is_copied() -> None:
    row = only_answer(rows_of(ordinary(), streamed=True, from_ledger=True, attempts=0, first_part_ms=95.5))
    assert (row.streamed, row.from_ledger, row.attempts, row.latency_ms) == (True, True, 0, 812.5)
    assert row.first_part_ms == 95.5
    assert (row.asked_at, row.answered_at) == (NOON, NOON + timedelta(seconds=1))


def test_chunk_rows_take_from_the_source_metadata_what_the_chunk_does_not_say() -> None:
    tin, iron = rows_of(ordinary()).support_chunks
    assert (tin.chunk_index, tin.chunk_text, tin.source) == (0, "Tin: 232 °C.", "0")
    assert (tin.uri, tin.title, tin.domain) == ("https://tin.test", "Tin", "tin.test")
    assert (tin.document_id, tin.page_identifier, tin.source_metadata) == (None, None, {})
    assert (iron.uri, iron.title, iron.domain) == ("gs://iron/1.pdf", "Iron", "iron.test")
    assert (iron.document_id, iron.page_identifier) == ("doc-1", "3")
    assert iron.source_metadata["author"] == "A. Smith"


def test_claim_rows_pair_each_claim_with_each_chunk_it_cites() -> None:
    first, second, third = rows_of(ordinary()).claim_supports
    assert (first.claim_index, first.claim_text, first.claim_start, first.claim_end) == (
        0,
        "Tin melts at 232 °C.",
        0,
        20,
    )
    assert (first.support_score, first.chunk_index) == (0.75, 0)
    assert (first.chunk_uri, first.chunk_title, first.chunk_source) == ("https://tin.test", "Tin", "0")
    assert (second.claim_index, second.chunk_index, second.chunk_uri) == (1, 1, "gs://iron/1.pdf")
    assert (third.claim_index, third.chunk_index, third.claim_start, third.claim_end) == (1, 0, 21, 43)
    assert third.support_score is None


def test_all_rows_of_an_answer_carry_its_id_and_its_time() -> None:
    rows = rows_of(ordinary())
    row = only_answer(rows)
    assert {(each.answer_id, each.answered_at) for each in (*rows.support_chunks, *rows.claim_supports)} == {
        (row.answer_id, row.answered_at)
    }


def test_the_same_question_asked_the_same_way_has_the_same_answer_id_in_every_run() -> None:
    other = dataclasses.replace(SETTINGS, run_id="run-2")
    once = only_answer(rows_of(ordinary()))
    again = only_answer(rows_of(ordinary(), other, answered_at=LATER, attempts=1))
    changed = only_answer(rows_of(ordinary(), request=request(model_id="m")))
    assert once.answer_id == again.answer_id != changed.answer_id
    assert again.run_id == "run-2"


def test_the_model_is_the_one_the_request_named() -> None:
    for model_id in ("some-model", "another", "some-model"):
        row = only_answer(rows_of(ordinary(), request=request(model_id=model_id)))
        assert row.model_id == model_id


def test_the_user_context_is_part_of_the_request_shown_and_of_the_id() -> None:
    question = dataclasses.replace(QUESTION, user_context='{"languageCode": "fr"}')
    (row,) = flatten(outcome_of(answer_to(ordinary()), question=question), SETTINGS).answers
    assert json.loads(row.request_json)["userContext"] == {"languageCode": "fr"}
    assert json.loads(row.request_json)["location"] == "projects/p/locations/global"
    assert row.answer_id != only_answer(rows_of(ordinary())).answer_id


def test_v1alpha_answers_are_read_with_the_messages_of_v1_and_say_v1alpha() -> None:
    question = dataclasses.replace(QUESTION, api_version="v1alpha")
    (row,) = flatten(outcome_of(answer_to(ordinary()), question=question), SETTINGS).answers
    assert row.api_version == "v1alpha"


def test_uris_expire_thirty_days_on_when_google_search_was_asked() -> None:
    assert only_answer(rows_of(ordinary(), request=request())).uris_expire_at is None
    rows = rows_of(ordinary(), request=request(google=True))
    expected = NOON + timedelta(days=30, seconds=1)
    assert {row.uris_expire_at for row in (*rows.answers, *rows.support_chunks)} == {expected}


def test_uris_expire_when_the_service_says_it_searched_google() -> None:
    message = ordinary()
    message.candidates[0].grounding_metadata.retrieval_metadata[0].source = 3
    rows = rows_of(message)
    assert {row.uris_expire_at for row in (*rows.answers, *rows.support_chunks)} == {
        NOON + timedelta(days=30, seconds=1)
    }


def test_images_and_videos_are_kept() -> None:
    message = response("v1beta")
    metadata = candidate_of(message).grounding_metadata
    image = metadata.images.add()
    image.image.uri, image.image.width = "https://img.test/a.png", 640
    image.source.uri, image.source.site_display_name = "https://img.test", "Images"
    metadata.images.add().thumbnail.height = 32
    metadata.videos.add(youtube_external_id="abc")
    row = only_answer(rows_of(message, api_version="v1beta", request=request("v1beta")))
    assert row.images == (
        Image(
            ImageFile("https://img.test/a.png", 640, None), None, Website("https://img.test", None, "Images")
        ),
        Image(None, ImageFile(None, None, 32), None),
    )
    assert row.videos == (Video("abc"),)


# Turns, failures and skips


def test_each_turn_has_rows_under_its_own_question() -> None:
    rows = flatten(outcome_of(answer_to(ordinary()), answer_to(ordinary(), 1)), SETTINGS)
    assert [(row.turn_index, row.question) for row in rows.answers] == [
        (0, "When does tin melt?"),
        (1, "And iron?"),
    ]
    assert len({row.answer_id for row in rows.answers}) == 2
    assert rows.answered


def test_a_failed_question_keeps_the_turns_that_were_answered_and_has_one_failure_row() -> None:
    rows = flatten(outcome_of(answer_to(ordinary()), failure=FAILURE), SETTINGS)
    assert not rows.answered
    assert [row.turn_index for row in rows.answers] == [0]
    (row,) = rows.failures
    assert (row.run_id, row.question_id, row.turn_index, row.stage, row.code) == (
        "run-1",
        "q1",
        1,
        "generate",
        "UNAVAILABLE",
    )
    assert (row.message, row.retryable, row.attempts) == (FAILURE.message, True, 5)
    assert (row.origin, row.record, row.metadata) == ("metals.jsonl:7", FAILURE.record, '{"team": "metals"}')
    assert (row.failed_at, row.generation) == (LATER, 0)
    encode(row)


def test_a_failure_has_the_same_id_in_every_run() -> None:
    (once,) = flatten(outcome_of(failure=FAILURE), SETTINGS).failures
    replayed = dataclasses.replace(
        FAILURE, history=("2026-11-29T20:00:00Z generate UNAVAILABLE after 5 attempts",)
    )
    (again,) = flatten(outcome_of(failure=replayed), FlattenSettings("run-2")).failures
    assert once.failure_id == again.failure_id
    assert (once.generation, once.history) == (0, ())
    assert (again.generation, again.history) == (1, replayed.history)
    assert again.failed_at.tzinfo is not None


def test_a_failure_from_a_file_with_an_odd_name_can_be_written() -> None:
    failure = dataclasses.replace(
        FAILURE, origin="caf\udce9.jsonl:1", message="In \udce9.", metadata='"\ud83d"'
    )
    (row,) = flatten(outcome_of(failure=failure), SETTINGS).failures
    assert read_back(row)["origin"] == "caf\\udce9.jsonl:1"


def test_an_answer_that_an_earlier_run_delivered_has_no_rows_again() -> None:
    there = dataclasses.replace(answer_to(ordinary()), unchecked=frozenset({"a"}))
    rows = flatten(outcome_of(there, answer_to(ordinary(), 1), failure=FAILURE), SETTINGS)
    assert {row.turn_index for row in (*rows.answers, *rows.support_chunks)} == {1}
    assert len(rows.failures) == 1
    broken = dataclasses.replace(there, response=b"\xff\xff")
    rows = flatten(Outcome(QUESTION, (there, broken), None, "already_answered", (), 0), SETTINGS)
    assert (list(rows), rows.answered) == ([], False)


@pytest.mark.parametrize("skip", ["duplicate", "already_answered"])
def test_a_skipped_question_has_no_rows_and_is_not_answered(skip: Any) -> None:
    rows = flatten(Outcome(QUESTION, (), None, skip, (), 0), SETTINGS)
    assert (list(rows), rows.answered) == ([], False)


def test_a_response_that_does_not_decode_is_a_failure_and_the_other_turns_stand() -> None:
    rows = flatten(outcome_of(answer_to(b"\xff\xff"), answer_to(ordinary(), 1)), SETTINGS)
    assert not rows.answered
    assert [row.turn_index for row in rows.answers] == [1]
    (row,) = rows.failures
    assert (row.turn_index, row.stage, row.code, row.retryable) == (
        0,
        "flatten",
        "UNDECODABLE_RESPONSE",
        False,
    )


# What responses really contain


def test_zero_candidates_fail_the_question() -> None:
    rows = rows_of(response())
    assert not rows.answered
    assert (rows.answers, rows.support_chunks, rows.claim_supports) == ((), (), ())
    (row,) = rows.failures
    assert (row.turn_index, row.stage, row.code, row.retryable) == (0, "flatten", "NO_CANDIDATES", False)
    assert (row.attempts, row.record, row.metadata) == (2, QUESTION.record, QUESTION.metadata)


def test_zero_candidates_in_one_turn_give_one_failure_row_even_if_a_later_turn_failed() -> None:
    rows = flatten(outcome_of(answer_to(response()), failure=FAILURE), SETTINGS)
    assert [(row.turn_index, row.code) for row in rows.failures] == [(0, "NO_CANDIDATES")]


def test_citations_without_any_chunk_are_dropped_and_the_claims_stay() -> None:
    message = response()
    metadata = candidate_of(message).grounding_metadata
    metadata.grounding_support.add(claim_text="Tin melts at 232 °C.", support_chunk_indices=[0, 1])
    rows = rows_of(message)
    row = only_answer(rows)
    assert citations(rows) == [(0, None)]
    assert (row.claim_count, row.supported_claim_count, row.support_coverage) == (1, 0, 0)
    assert row.warnings == ("Claim 0 cites chunk 0, 1, of 0 chunks: left out.",)


def test_an_empty_chunk_is_a_row_and_can_be_cited() -> None:
    message = response()
    metadata = candidate_of(message).grounding_metadata
    metadata.support_chunks.add()
    metadata.grounding_support.add(claim_text="Tin melts at 232 °C.", support_chunk_indices=[0])
    rows = rows_of(message)
    (chunk,) = rows.support_chunks
    assert (chunk.chunk_index, chunk.chunk_text, chunk.source_metadata) == (0, "", {})
    assert {chunk.source, chunk.uri, chunk.title, chunk.domain, chunk.document_id, chunk.index_in_stream} == {
        None
    }
    assert citations(rows) == [(0, 0)]


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1, -(2**31)])
def test_an_index_of_no_chunk_is_dropped_with_a_warning(index: int) -> None:
    message = ordinary()
    message.candidates[0].grounding_metadata.grounding_support[0].support_chunk_indices[:] = [index, 1]
    rows = rows_of(message)
    assert citations(rows) == [(0, 1), (1, 1), (1, 0)]
    assert only_answer(rows).warnings == (f"Claim 0 cites chunk {index}, of 2 chunks: left out.",)


def test_an_index_of_minus_one_is_not_the_last_chunk() -> None:
    message = ordinary()
    message.candidates[0].grounding_metadata.grounding_support[0].support_chunk_indices[:] = [-1]
    first = rows_of(message).claim_supports[0]
    assert (first.chunk_index, first.chunk_uri, first.chunk_title, first.chunk_source) == (
        None,
        None,
        None,
        None,
    )


def test_thousands_of_warnings_are_cut_short_and_counted() -> None:
    message = response()
    metadata = candidate_of(message).grounding_metadata
    for _ in range(1000):
        metadata.grounding_support.add(claim_text="Tin", support_chunk_indices=range(100))
    warnings = only_answer(rows_of(message)).warnings
    assert len(warnings) == 51
    assert warnings[-1] == "950 more warnings were left out."
    assert max(map(len, warnings)) < 100


def test_a_claim_that_lost_its_space_before_an_emoji_is_found() -> None:
    message = response()
    metadata = candidate_of(message, "Tin melts early. 🙂 \n").grounding_metadata
    metadata.grounding_support.add(claim_text="Tin melts early.🙂 ")
    (claim,) = rows_of(message).claim_supports
    assert (claim.claim_start, claim.claim_end) == (0, 18)


def test_a_claim_that_is_not_in_the_answer_keeps_its_row() -> None:
    message = ordinary()
    message.candidates[0].grounding_metadata.grounding_support[0].claim_text = "Lead floats."
    rows = rows_of(message)
    first = rows.claim_supports[0]
    assert (first.claim_text, first.claim_start, first.claim_end, first.chunk_index) == (
        "Lead floats.",
        None,
        None,
        0,
    )
    row = only_answer(rows)
    assert row.supported_claim_count == 2
    assert row.support_coverage == 22 / 43


def test_the_same_chunk_twice_is_two_rows() -> None:
    message = ordinary()
    chunks = message.candidates[0].grounding_metadata.support_chunks
    chunks.add().CopyFrom(chunks[0])
    rows = rows_of(message)
    assert [row.chunk_index for row in rows.support_chunks] == [0, 1, 2]
    assert rows.support_chunks[2].chunk_text == rows.support_chunks[0].chunk_text


def test_a_chunk_cited_twice_by_one_claim_is_cited_once() -> None:
    message = ordinary()
    message.candidates[0].grounding_metadata.grounding_support[1].support_chunk_indices[:] = [1, 0, 1, 1, 0]
    rows = rows_of(message)
    assert citations(rows) == [(0, 0), (1, 1), (1, 0)]
    assert only_answer(rows).warnings == ()


def test_scores_that_were_not_sent_are_null() -> None:
    message = response()
    metadata = candidate_of(message).grounding_metadata
    metadata.grounding_support.add(claim_text="Tin")
    metadata.retrieval_metadata.add(source=1)
    metadata.retrieval_metadata.add(source=1).dynamic_retrieval_metadata.predictor_metadata.SetInParent()
    rows = rows_of(message)
    row = only_answer(rows)
    assert row.grounding_score is None
    assert rows.claim_supports[0].support_score is None
    assert row.retrieval == (
        Retrieval("VERTEX_AI_SEARCH", None, None),
        Retrieval("VERTEX_AI_SEARCH", "VERSION_UNSPECIFIED", None),
    )
    assert row.warnings == ()


def test_scores_of_zero_that_were_sent_are_zero() -> None:
    message = response()
    candidate = candidate_of(message)
    candidate.grounding_score = 0
    candidate.grounding_metadata.grounding_support.add(claim_text="Tin", support_score=0)
    candidate.grounding_metadata.retrieval_metadata.add().dynamic_retrieval_metadata.predictor_metadata.prediction = 0
    rows = rows_of(message)
    row = only_answer(rows)
    assert (row.grounding_score, rows.claim_supports[0].support_score, row.retrieval[0].prediction) == (
        0,
        0,
        0,
    )


@pytest.mark.parametrize(
    ("score", "shown"), [(math.nan, "nan"), (1.5, "1.5"), (-0.25, "-0.25"), (math.inf, "inf")]
)
def test_what_is_no_score_is_null_with_a_warning_that_says_it(score: float, shown: str) -> None:
    message = response()
    candidate = candidate_of(message)
    candidate.grounding_score = score
    candidate.grounding_metadata.grounding_support.add(claim_text="Tin", support_score=score)
    candidate.grounding_metadata.retrieval_metadata.add().dynamic_retrieval_metadata.predictor_metadata.prediction = score
    rows = rows_of(message)
    row = only_answer(rows)
    assert (row.grounding_score, rows.claim_supports[0].support_score, row.retrieval[0].prediction) == (
        None,
    ) * 3
    assert row.warnings == (
        f"grounding_score is {shown}, which is not in [0, 1]: left out.",
        f"prediction of retrieval 0 is {shown}, which is not in [0, 1]: left out.",
        f"support_score of claim 0 is {shown}, which is not in [0, 1]: left out.",
    )


@given(st.floats(0, 1, width=32))
def test_a_score_is_the_same_32_bit_float_in_as_few_digits(score: float) -> None:
    message = response()
    candidate_of(message).grounding_score = score
    kept = only_answer(rows_of(message)).grounding_score
    assert kept is not None
    assert 0 <= kept <= 1
    again = response()
    again.candidates.add().grounding_score = kept
    assert again.candidates[0].grounding_score == score


@pytest.mark.parametrize("hundredths", range(0, 101, 7))
def test_a_score_of_two_digits_stays_one(hundredths: int) -> None:
    message = response()
    candidate_of(message).grounding_score = hundredths / 100
    assert only_answer(rows_of(message)).grounding_score == hundredths / 100


def test_a_candidate_without_content_is_an_empty_answer_with_a_warning() -> None:
    message = response()
    candidate_of(message, None).grounding_metadata.grounding_support.add(claim_text="Tin melts.")
    rows = rows_of(message)
    row = only_answer(rows)
    assert (row.answer_text, row.role, row.support_coverage) == ("", None, None)
    assert row.warnings == ("The candidate has no content: answer_text is empty.",)
    assert rows.answered
    assert citations(rows) == [(0, None)]


def test_an_empty_answer_text_has_no_coverage() -> None:
    message = ordinary()
    message.candidates[0].content.parts[0].text = ""
    row = only_answer(rows_of(message))
    assert (row.answer_text, row.support_coverage, row.supported_claim_count) == ("", None, 2)
    assert row.warnings == ()


def test_text_parts_are_joined_and_parts_without_text_are_nothing() -> None:
    message = response()
    parts = candidate_of(message, "Tin ").content.parts
    parts.add()
    parts.add(text="melts.")
    assert only_answer(rows_of(message)).answer_text == "Tin melts."


def test_several_candidates_are_several_answers_by_their_own_indices() -> None:
    message = response()
    for index, text in ((1, "Late."), (0, "Early.")):
        candidate = candidate_of(message, text)
        candidate.index = index
        candidate.grounding_metadata.support_chunks.add(chunk_text=text)
        candidate.grounding_metadata.grounding_support.add(claim_text=text, support_chunk_indices=[0])
    rows = rows_of(message)
    assert [(row.candidate_index, row.answer_text, row.warnings) for row in rows.answers] == [
        (1, "Late.", ()),
        (0, "Early.", ()),
    ]
    ids = {row.candidate_index: row.answer_id for row in rows.answers}
    assert len(set(ids.values())) == 2
    assert all(
        row.answer_id == ids[row.candidate_index] for row in (*rows.support_chunks, *rows.claim_supports)
    )
    assert [row.chunk_text for row in rows.support_chunks] == ["Late.", "Early."]


@pytest.mark.parametrize("indices", [(0, 0), (1, 2), (-1, 0), (7, 7)])
def test_candidates_whose_indices_do_not_number_them_are_numbered_by_position(
    indices: tuple[int, int],
) -> None:
    message = response()
    for index in indices:
        candidate_of(message).index = index
    rows = rows_of(message)
    assert [row.candidate_index for row in rows.answers] == [0, 1]
    for row, index in zip(rows.answers, indices, strict=True):
        assert row.warnings[0].startswith(f"The candidate's index is {index};")


def test_tiny_claims_do_not_lead_the_others_astray() -> None:
    message = response()
    text = "Tin melts early. Iron melts late. **Lead** melts early. Iron melts late."
    metadata = candidate_of(message, text).grounding_metadata
    for claim in ("Tin melts early.", "**", "Iron melts late.", "Lead"):
        metadata.grounding_support.add(claim_text=claim)
    spans = [(row.claim_start, row.claim_end) for row in rows_of(message).claim_supports]
    assert spans == [(0, 16), (34, 36), (17, 33), (36, 40)]


def test_the_same_sentence_twice_is_found_twice() -> None:
    message = response()
    metadata = candidate_of(message, "Tin melts. So does iron. Tin melts.").grounding_metadata
    metadata.support_chunks.add()
    for claim in ("Tin melts.", "Tin melts."):
        metadata.grounding_support.add(claim_text=claim, support_chunk_indices=[0])
    rows = rows_of(message)
    assert [row.claim_start for row in rows.claim_supports] == [0, 25]
    assert only_answer(rows).support_coverage == 20 / 35


def test_a_claim_stands_where_the_service_says_and_else_where_its_words_are() -> None:
    candidate = Candidate(
        index=0,
        text="Tin melts. Tin melts. Tin melts.",
        role="model",
        score=None,
        chunks=[Chunk("Tin melts.", None, None, None, None, None, None, {}, None)],
        claims=[
            Claim("Tin melts.", [0], None, (22, 32)),
            Claim("Tin melts.", [0], None),
            Claim("melts", [], None, (4, 9)),
        ],
        retrieval=[],
        queries=(),
        suggestions_html=None,
        search_blob=None,
        images=(),
        videos=(),
        warnings=(),
    )
    turn = Turn("run-1", QUESTION, answer_to(response()), None, False, "{}", None, ())
    row, _, claims = candidate_rows(turn, candidate)
    assert [(claim.claim_start, claim.claim_end) for claim in claims] == [(22, 32), (0, 10), (4, 9)]
    assert row.support_coverage == 20 / 32
    assert row.warnings == ()


def test_claims_over_the_same_words_count_them_once() -> None:
    message = response()
    metadata = candidate_of(message, "Tin melts early.").grounding_metadata
    metadata.support_chunks.add()
    for claim in ("Tin melts early.", "melts early."):
        metadata.grounding_support.add(claim_text=claim, support_chunk_indices=[0])
    assert only_answer(rows_of(message)).support_coverage == 1


def test_an_unknown_enum_number_is_kept_as_its_number() -> None:
    message = response()
    retrieval = candidate_of(message).grounding_metadata.retrieval_metadata.add(source=77)
    retrieval.dynamic_retrieval_metadata.predictor_metadata.version = 9
    assert only_answer(rows_of(message)).retrieval == (Retrieval("77", "9", None),)


def test_nul_in_text_is_kept() -> None:
    message = response()
    metadata = candidate_of(message, "Tin\x00melts. Iron melts.").grounding_metadata
    metadata.support_chunks.add(chunk_text="\x00")
    metadata.grounding_support.add(claim_text="Tin\x00melts.", support_chunk_indices=[0])
    rows = rows_of(message)
    assert only_answer(rows).answer_text == "Tin\x00melts. Iron melts."
    assert (rows.claim_supports[0].claim_start, rows.claim_supports[0].claim_end) == (0, 10)
    assert rows.support_chunks[0].chunk_text == "\x00"


def test_an_answer_of_megabytes_is_flattened() -> None:
    sentences = [
        f"Metal number {number} melts at {number} degrees, says {'a long ' * 40}table."
        for number in range(4000)
    ]
    message = response()
    metadata = candidate_of(message, " ".join(sentences)).grounding_metadata
    metadata.support_chunks.add()
    for sentence in sentences:
        metadata.grounding_support.add(claim_text=sentence.replace(" ", "  "), support_chunk_indices=[0])
    rows = rows_of(message)
    row = only_answer(rows)
    assert len(row.answer_text) > 1_000_000
    assert row.support_coverage == (len(row.answer_text) - 3999) / len(row.answer_text)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 1, 0)])
def test_a_stream_may_bring_metadata_before_between_or_after_the_text(order: tuple[int, ...]) -> None:
    """The text comes in two parts, the metadata in a message of its own."""
    pieces = [response().candidates.add() for _ in range(3)]
    pieces[0].content.parts.add(text="Tin melts early. " if order.index(0) < order.index(2) else "late. \n")
    pieces[2].content.parts.add(text="late. \n" if order.index(0) < order.index(2) else "Tin melts early. ")
    metadata = pieces[1].grounding_metadata
    metadata.support_chunks.add(chunk_text="Tin: 232 °C.", index=0)
    metadata.support_chunks.add(chunk_text="Iron: 1538 °C.", index=1)
    metadata.grounding_support.add(claim_text="Tin melts early. ", support_chunk_indices=[0])
    metadata.grounding_support.add(claim_text="late. \n", support_chunk_indices=[1])
    message = response()
    merged = message.candidates.add()
    for place in order:
        merged.MergeFrom(pieces[place])
    rows = rows_of(message, streamed=True)
    row = only_answer(rows)
    assert row.answer_text == "Tin melts early. late. \n"
    assert [(claim.claim_start, claim.claim_end) for claim in rows.claim_supports] == [(0, 16), (17, 22)]
    assert [chunk.index_in_stream for chunk in rows.support_chunks] == [0, 1]
    assert row.warnings == ()


@pytest.mark.parametrize(
    "sentences",
    [
        ["水は百度で沸騰する。", "鉄は溶ける。"],
        ["הבדיל נמס מוקדם.", "הברזל נמס מאוחר."],
        ["น้ำเดือดเร็ว", "เหล็กหลอมช้า"],
        ["L'e\u0301tain fond.", "Le fer fond apre\u0300s."],
    ],
)
def test_claims_in_every_script_are_found_by_characters(sentences: list[str]) -> None:
    text = "".join(sentences)
    message = response()
    metadata = candidate_of(message, text).grounding_metadata
    metadata.support_chunks.add()
    for sentence in sentences:
        metadata.grounding_support.add(claim_text=sentence, support_chunk_indices=[0])
    rows = rows_of(message)
    assert [text[row.claim_start : row.claim_end] for row in rows.claim_supports] == sentences
    assert only_answer(rows).support_coverage == 1


def test_an_empty_domain_is_null() -> None:
    message = ordinary()
    chunk = message.candidates[0].grounding_metadata.support_chunks[0]
    chunk.domain = ""
    chunk.source_metadata["domain"] = ""
    assert rows_of(message).support_chunks[0].domain is None


# The response as JSON


def test_the_response_is_kept_only_when_asked() -> None:
    kept = only_answer(rows_of(ordinary(), KEEPING)).response_json
    assert kept is not None
    body = json.loads(kept)
    assert body["candidates"][0]["groundingMetadata"]["supportChunks"][0]["chunkText"] == "Tin: 232 °C."
    assert "rawResponseBase64" not in body


def test_the_response_as_json_survives_nan_and_unknown_enum_numbers() -> None:
    message = response()
    candidate = candidate_of(message)
    candidate.grounding_score = math.nan
    candidate.grounding_metadata.retrieval_metadata.add(source=77)
    kept = only_answer(rows_of(message, KEEPING)).response_json
    assert kept is not None
    (shown,) = json.loads(kept, parse_constant=pytest.fail)["candidates"]
    assert shown["groundingScore"] == "NaN"
    assert shown["groundingMetadata"]["retrievalMetadata"] == [{"source": 77}]


UNKNOWN_FIELD = b"\xc2\xa6\x1d\x03new"  # field 60008, three bytes


def test_fields_unknown_to_this_version_are_kept_as_received_and_named_in_a_warning() -> None:
    message = ordinary()
    inner = message.candidates[0].grounding_metadata.SerializeToString() + UNKNOWN_FIELD
    message.candidates[0].grounding_metadata.ParseFromString(inner)
    received = message.SerializeToString()
    assert b"new" in received
    row = only_answer(rows_of(received, KEEPING))
    assert row.response_json is not None
    body = json.loads(row.response_json)
    assert base64.b64decode(body["rawResponseBase64"]) == received
    assert len(body["candidates"]) == 1
    (warning,) = row.warnings
    assert "fields unknown to this version" in warning
    assert "rawResponseBase64" in warning
    (warning,) = only_answer(rows_of(received)).warnings
    assert warning.endswith("they are not kept.")


UNREAD = '{"candidates": [{"content": {"parts": [{"text": "Tin."}]}, "mood": "sure"}], "cost": 1.50}'


def test_what_a_message_could_not_hold_of_json_is_kept_as_received() -> None:
    row = only_answer(rows_of(ordinary(), KEEPING, unread_json=UNREAD))
    assert row.response_json == UNREAD
    assert row.warnings == ("The response has parts unknown to this version: response_json has them.",)


HALF_WARNING = (
    "The response held half of a surrogate pair, which no text can: the replacement character, U+FFFD, stands "
    "in its place."
)


def test_half_a_surrogate_pair_is_replaced_with_a_warning() -> None:
    unread = json.dumps({"candidates": [{"content": {"parts": [{"text": "Tin \ud83d."}]}}]})
    row = only_answer(rows_of(ordinary(), KEEPING, unread_json=unread))
    assert row.warnings == (HALF_WARNING,)
    assert row.response_json == only_answer(rows_of(ordinary(), KEEPING)).response_json
    assert only_answer(rows_of(ordinary(), unread_json=f"[{unread}]")).warnings == (HALF_WARNING,)


def test_half_a_surrogate_pair_beside_parts_unknown_to_this_version() -> None:
    row = only_answer(rows_of(ordinary(), KEEPING, unread_json=UNREAD.replace("sure", r"\uDC00\ud83d")))
    assert row.warnings == (
        HALF_WARNING,
        "The response has parts unknown to this version: response_json has them.",
    )
    assert row.response_json == UNREAD.replace("sure", r"\ufffd\ufffd")


def test_what_a_message_could_not_hold_of_json_is_missed_when_responses_are_not_kept() -> None:
    row = only_answer(rows_of(ordinary(), unread_json=UNREAD))
    assert row.response_json is None
    assert row.warnings == ("The response has parts unknown to this version: they are not kept.",)


def test_json_that_no_file_could_hold_is_escaped() -> None:
    row = only_answer(rows_of(ordinary(), KEEPING, unread_json='{"mood": "\ud83d"}'))
    assert row.response_json == '{"mood": "\\ud83d"}'
    assert json.loads(row.response_json) == {"mood": "\ud83d"}


# The transforms


def counted(result: Any) -> dict[str, int]:
    counters = result.metrics().query(MetricsFilter())["counters"]
    return {f"{c.key.metric.namespace}/{c.key.metric.name}": c.committed for c in counters}


def test_outcomes_become_tagged_rows_and_each_counts_once() -> None:
    outcomes = [
        outcome_of(answer_to(ordinary())),
        outcome_of(answer_to(ordinary()), failure=FAILURE),
        outcome_of(answer_to(response())),
        Outcome(QUESTION, (), None, "duplicate", (), 0),
        Outcome(QUESTION, (), None, "already_answered", (), 0),
        Outcome(QUESTION, (), None, "already_answered", (), 0),
    ]
    pipeline = beam.Pipeline()
    rows = pipeline | beam.Create(outcomes) | FlattenAnswers(SETTINGS)
    for table in tables_made_by("outcomes"):
        expected = [row for outcome in outcomes for row in flatten(outcome, SETTINGS) if table == row.TABLE]
        assert expected, f"the outcomes give rows for {table}"
        assert_that(rows[table], equal_to(expected), label=table)
    result = pipeline.run()
    result.wait_until_finish()
    answers = [row for outcome in outcomes for row in flatten(outcome, SETTINGS).answers]
    assert counted(result) == {
        "groundrows/answered": 1,
        "groundrows/failed": 2,
        "groundrows/duplicates": 1,
        "groundrows/already_answered": 2,
        "groundrows/question_characters": sum(len(row.question) for row in answers),
        "groundrows/answer_characters": sum(len(row.answer_text) for row in answers),
        "groundrows.failures_by_code/UNAVAILABLE": 1,
        "groundrows.failures_by_code/NO_CANDIDATES": 1,
    }


def test_failures_become_rows_and_each_counts_once() -> None:
    failures = [
        FAILURE,
        dataclasses.replace(FAILURE, code="INVALID_JSON", stage="parse", origin="metals.jsonl:8"),
    ]
    pipeline = beam.Pipeline()
    rows = pipeline | beam.Create(failures) | FailureRows("run-1", now=the_time)
    expected = [
        row for failure in failures for row in flatten(outcome_of(failure=failure), SETTINGS).failures
    ]
    assert_that(rows, equal_to(expected))
    result = pipeline.run()
    result.wait_until_finish()
    assert counted(result) == {
        "groundrows/failed": 2,
        "groundrows.failures_by_code/UNAVAILABLE": 1,
        "groundrows.failures_by_code/INVALID_JSON": 1,
    }


# Reference answers


def test_an_answer_is_compared_with_its_references() -> None:
    question = dataclasses.replace(QUESTION, turns=("When does tin melt?",), references=("232 °C", "505 K"))
    message = response()
    candidate_of(message, "At 232 °C.")
    candidate_of(message, "232 °C!")
    candidate_of(message, None)
    rows = flatten(outcome_of(answer_to(message), question=question), SETTINGS)
    assert [row.reference_answers for row in rows.answers] == [("232 °C", "505 K")] * 3
    assert [row.reference_exact for row in rows.answers] == [False, True, False]
    assert [row.reference_contained for row in rows.answers] == [True, True, False]
    assert [row.reference_f1 for row in rows.answers] == [pytest.approx(4 / 5), 1.0, 0.0]
    for row in rows:
        encode(row)


def test_the_references_of_a_conversation_are_for_its_last_turn() -> None:
    question = dataclasses.replace(QUESTION, references=("1538 °C",))
    message = response()
    candidate_of(message, "1538 °C")
    rows = flatten(outcome_of(answer_to(message), answer_to(message, 1), question=question), SETTINGS)
    assert [(row.turn_index, row.reference_answers) for row in rows.answers] == [(0, ()), (1, ("1538 °C",))]
    assert [row.reference_exact for row in rows.answers] == [None, True]


def test_without_references_there_are_no_measures() -> None:
    row = only_answer(rows_of(ordinary()))
    assert row.reference_answers == ()
    assert row.reference_exact is row.reference_contained is row.reference_f1 is None
