"""Whatever a protobuf response can hold becomes rows that can be written, and none of its text is lost.

The responses are drawn from the library's own descriptors: any field set or not, to anything its type allows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundrows.schemas.discoveryengine.messages import ApiVersion, response_class
from groundrows.schemas.question import Question
from groundrows.schemas.rows import (
    AnswerRow,
    ClaimSupportRow,
    FailureRow,
    GroundingCheckRow,
    Row,
    SupportChunkRow,
)
from tests.contract.descriptors import is_map, is_message
from tests.contract.flattened import ANSWER_TEXT, of_an_answer, question_of, response_of, rows_of

VERSIONS: tuple[ApiVersion, ...] = ("v1", "v1beta", "v1alpha")
UNKNOWN_FIELD = b"\xc2\xa6\x1d\x03new"  # field 60008, three bytes

SAMPLES = [
    "",
    " ",
    "Tin melts at 232 °C.",
    "Tin  melts at 232\u00a0°C.\n",
    "Iron melts at 1538 °C.",
    "**",
    "水は沸騰する。🙂",
    "הבדיל נמס.",
    "\u202eTin\u202c",
    "e\u0301tain",
    "👩‍👩‍👧",
    "a\x00b",
]
TEXTS = st.one_of(st.sampled_from(SAMPLES), st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
KEYS = st.one_of(st.sampled_from(["uri", "title", "domain", "document_id", "page_identifier"]), TEXTS)
SMALL = st.integers(-5, 6)
NUMBERS = st.one_of(SMALL, st.integers(0, 60), st.integers(-(2**31), 2**31 - 1))
SCORES = [0.0, 1.0, 0.9, -0.0, -1.0, 1.5, float("nan"), float("inf"), float("-inf")]


def scalars(field: Any) -> st.SearchStrategy[Any]:
    match field.type:
        case FieldDescriptor.TYPE_STRING if field.name == "source":
            return st.one_of(st.sampled_from(["0", "1", "-1", "7", "01", "٣", "²", "9" * 5000]), TEXTS)
        case FieldDescriptor.TYPE_STRING:
            return TEXTS
        case FieldDescriptor.TYPE_BYTES:
            return st.binary(max_size=5)
        case FieldDescriptor.TYPE_FLOAT:
            return st.one_of(st.sampled_from(SCORES), st.floats(width=32))
        case FieldDescriptor.TYPE_DOUBLE:
            return st.one_of(st.sampled_from(SCORES), st.floats())
        case FieldDescriptor.TYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.TYPE_INT32 if field.is_repeated:
            return st.one_of(SMALL, NUMBERS)
        case FieldDescriptor.TYPE_INT32 | FieldDescriptor.TYPE_ENUM:
            return NUMBERS
    raise AssertionError(f"nothing is drawn for {field.full_name}")


def fill(draw: st.DrawFn, message: Any) -> None:
    """Set any of a message's fields to anything."""
    for field in message.DESCRIPTOR.fields:
        if not draw(st.integers(0, 3)):
            continue
        value = getattr(message, field.name)
        if is_map(field):
            value.update(draw(st.dictionaries(KEYS, TEXTS, max_size=2)))
        elif is_message(field) and field.is_repeated:
            for _ in range(draw(st.integers(0, 3))):
                fill(draw, value.add())
        elif is_message(field):
            value.SetInParent()
            fill(draw, value)
        elif field.is_repeated:
            value.extend(draw(st.lists(scalars(field), max_size=4)))
        else:
            setattr(message, field.name, draw(scalars(field)))


@st.composite
def responses(draw: st.DrawFn, version: ApiVersion, method: Any) -> bytes:
    message = response_of(version, method)
    fill(draw, message)
    data: bytes = message.SerializeToString()
    return data + draw(st.sampled_from([b"", UNKNOWN_FIELD]))


def rows_kept_or_not(question: Question, received: bytes, **changes: Any) -> list[Row]:
    """The rows; those that carry the response beside them say the same."""
    rows = rows_of(question, received, **changes)
    keeping = rows_of(question, received, keep_response=True, **changes)
    assert len(keeping) == len(rows)
    kept = [text for row in keeping if (text := getattr(row, "response_json", None)) is not None]
    for text in kept:
        body = json.loads(text, parse_constant=pytest.fail)
        assert ("rawResponseBase64" in body) == received.endswith(UNKNOWN_FIELD)
    assert bool(kept) == any(isinstance(row, AnswerRow | GroundingCheckRow) for row in rows)
    return rows


SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("version", VERSIONS)
@SETTINGS
@given(data=st.data())
def test_any_answer_becomes_rows(version: ApiVersion, data: st.DataObject) -> None:
    received = data.draw(responses(version, "generate"))
    sent: Any = response_class(version).FromString(received)
    rows = rows_kept_or_not(question_of(version, "generate"), received, streamed=data.draw(st.booleans()))
    answers = [row for row in rows if isinstance(row, AnswerRow)]
    assert len(answers) == len(sent.candidates)
    assert sorted(row.candidate_index for row in answers) == list(range(len(answers)))
    assert [row.code for row in rows if isinstance(row, FailureRow)] == ["NO_CANDIDATES"][: not answers]
    for row, candidate in zip(answers, sent.candidates, strict=True):
        chunks = [
            each for each in rows if isinstance(each, SupportChunkRow) and each.answer_id == row.answer_id
        ]
        claims = [
            each for each in rows if isinstance(each, ClaimSupportRow) and each.answer_id == row.answer_id
        ]
        check_answer(row, candidate, chunks, claims)


def check_answer(
    row: AnswerRow, candidate: Any, chunks: list[SupportChunkRow], claims: list[ClaimSupportRow]
) -> None:
    sent = candidate.grounding_metadata
    assert row.answer_text == "".join(part.text for part in candidate.content.parts)
    assert row.grounding_score is None or 0 <= row.grounding_score <= 1
    assert row.support_coverage is None or 0 <= row.support_coverage <= 1
    assert (row.support_coverage is None) == (row.answer_text == "")
    assert (row.chunk_count, row.claim_count) == (len(sent.support_chunks), len(sent.grounding_support))

    assert [chunk.chunk_text for chunk in chunks] == [chunk.chunk_text for chunk in sent.support_chunks]
    assert [chunk.source_metadata for chunk in chunks] == [
        dict(c.source_metadata) for c in sent.support_chunks
    ]
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))

    check_nothing_is_lost(row, sent, chunks)
    expected = []
    for index, claim in enumerate(sent.grounding_support):
        cited = valid(claim.support_chunk_indices, len(chunks))
        expected += [(index, claim.claim_text, chunk_index) for chunk_index in cited or [None]]
    assert [(claim.claim_index, claim.claim_text, claim.chunk_index) for claim in claims] == expected
    for claim in claims:
        assert claim.support_score is None or 0 <= claim.support_score <= 1
        assert (claim.claim_start is None) == (claim.claim_end is None)
        if claim.claim_start is not None:
            cut = row.answer_text[claim.claim_start : claim.claim_end]
            assert cut.split()
            assert bare(cut) == bare(claim.claim_text)
        if claim.chunk_index is not None:
            source = chunks[claim.chunk_index]
            said = (claim.chunk_uri, claim.chunk_title, claim.chunk_source)
            assert said == (source.uri, source.title, source.source)


def check_nothing_is_lost(row: AnswerRow, sent: Any, chunks: list[SupportChunkRow]) -> None:
    """Every text beside the answer is in its place, whatever it is; one that is empty is null."""
    assert row.web_search_queries == tuple(sent.web_search_queries)
    assert row.search_suggestions_html == (sent.search_entry_point.rendered_content or None)
    assert row.search_sdk_blob == (sent.search_entry_point.sdk_blob or None)
    assert len(row.images) == len(sent.images)
    for image, shown in zip(row.images, sent.images, strict=True):
        for file, field in ((image.image, "image"), (image.thumbnail, "thumbnail")):
            assert (file is not None) == shown.HasField(field)
            if file is not None:
                there = getattr(shown, field)
                assert (file.uri, file.width, file.height) == (
                    there.uri or None,
                    there.width or None,
                    there.height or None,
                )
        assert (image.source is not None) == shown.HasField("source")
        if image.source is not None:
            site = getattr(shown.source, "site_display_name", "")
            assert (image.source.uri, image.source.title, image.source.site_display_name) == (
                shown.source.uri or None,
                shown.source.title or None,
                site or None,
            )
    videos = [video.youtube_external_id or None for video in getattr(sent, "videos", ())]
    assert [video.youtube_external_id for video in row.videos] == videos
    assert len(row.retrieval) == len(sent.retrieval_metadata)
    for chunk, quoted in zip(chunks, sent.support_chunks, strict=True):
        assert chunk.source == (quoted.source or None)
        for name in ("uri", "title", "domain"):
            own, of_metadata = getattr(quoted, name), quoted.source_metadata.get(name)
            assert getattr(chunk, name) == (own or of_metadata or None)


@pytest.mark.parametrize("version", VERSIONS)
@SETTINGS
@given(data=st.data())
def test_any_check_becomes_rows(version: ApiVersion, data: st.DataObject) -> None:
    received = data.draw(responses(version, "check"))
    sent: Any = response_class(version, "check").FromString(received)
    text = data.draw(st.sampled_from([ANSWER_TEXT, "Tin melts.", "水は沸騰する。🙂", "e\u0301tain\x00"]))
    question = question_of(version, "check", text)
    if data.draw(st.booleans()):
        question = of_an_answer(question)
    rows = [row for row in rows_kept_or_not(question, received) if isinstance(row, GroundingCheckRow)]

    claims = [row for row in rows if row.claim_index is not None]
    assert [(row.claim_index, row.claim_text) for row in claims] == [
        (index, claim.claim_text) for index, claim in enumerate(sent.claims)
    ]
    assert [row.answer_text for row in rows] == [text] + [None] * (len(rows) - 1)
    count = max(len(sent.cited_chunks), len(sent.cited_facts))
    for row, claim in zip(claims, sent.claims, strict=True):
        check_claim(row, claim, text, count)

    assert {row.cited_chunk_count for row in rows} == {count}
    texts = [text for row in rows for cited in row.citations for text in (cited.chunk_text, cited.fact_text)]
    for cited in (*sent.cited_chunks, *sent.cited_facts):
        assert not cited.chunk_text or cited.chunk_text in texts, "no text is lost"
    (score,) = {row.support_score for row in rows}
    is_score = sent.HasField("support_score") and 0 <= sent.support_score <= 1
    assert (score is not None) == is_score


def check_claim(row: GroundingCheckRow, claim: Any, text: str, count: int) -> None:
    assert len(row.citations) == len(valid(claim.citation_indices, count))
    assert row.claim_score is None or 0 <= row.claim_score <= 1
    assert (row.claim_start is None) == (row.claim_end is None)
    if row.claim_start is not None and row.claim_end is not None:
        assert 0 <= row.claim_start <= row.claim_end <= len(text)
        start, end = (len(text[:place].encode()) for place in (row.claim_start, row.claim_end))
        assert (start, end) == (claim.start_pos, claim.end_pos)
    for cited in row.citations:
        assert cited.chunk_index in (None, 0, 1)


def valid(indices: Sequence[int], count: int) -> list[int]:
    return [index for index in dict.fromkeys(indices) if index in range(count)]


def bare(text: str) -> str:
    return "".join(text.split())
