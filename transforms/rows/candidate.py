"""One candidate of a response → its answer row, its support chunks and its claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from groundrows.schemas import ids
from groundrows.schemas.outcome import Answer
from groundrows.schemas.question import Question
from groundrows.schemas.rows import (
    AnswerRow,
    ClaimSupportRow,
    Image,
    ImageFile,
    Retrieval,
    SupportChunkRow,
    Video,
    Website,
)
from groundrows.transforms.rows.spans import Span, coverage, locate
from groundrows.transforms.rows.values import enum_name, score_of, shortened, source_metadata, valid_indices

URI_LIFETIME = timedelta(days=30)
"""How long redirect links from Google Search work, as the service documents it."""

_NOWHERE = (None, None)


@dataclass(frozen=True, slots=True)
class Turn:
    """What all candidates of one response share.

    Attributes:
        run_id: The id of this run.
        question: The question asked.
        answer: The response as it came, and how.
        model_id: The model the request named, if it named one.
        asked_google: Whether Google Search was the request's grounding source.
        request_json: The request as sent.
        response_json: The whole response, if rows are to carry it.
        warnings: What was odd about the response as a whole.
    """

    run_id: str
    question: Question
    answer: Answer
    model_id: str | None
    asked_google: bool
    request_json: str
    response_json: str | None
    warnings: tuple[str, ...]


def numbered(candidates: Sequence[Any]) -> Iterator[tuple[int, Any, tuple[str, ...]]]:
    """Yield each candidate with its index and, where its own index would not do, a warning."""
    own = [candidate.index for candidate in candidates]
    if own == [0] or sorted(own) == list(range(len(own))):
        for index, candidate in zip(own, candidates, strict=True):
            yield index, candidate, ()
        return
    for position, candidate in enumerate(candidates):
        warning = (
            f"The candidate's index is {candidate.index}; the {len(own)} candidates of the response are "
            "numbered by position instead, as their indices are not distinct or leave gaps."
        )
        yield position, candidate, (warning,)


def text_of(candidate: Any) -> str:
    """Return the candidate's text parts, joined."""
    return "".join(part.text for part in candidate.content.parts)


def answer_id_of(question: Question, answer: Answer, candidate_index: int) -> str:
    """Return the id of a candidate, which all its rows bear."""
    return ids.answer_id(
        question.question_id,
        answer.request,
        question.api_version,
        answer.turn_index,
        candidate_index,
        question.user_context,
    )


def candidate_rows(
    turn: Turn, candidate: Any, candidate_index: int, warnings: Sequence[str]
) -> tuple[AnswerRow, list[SupportChunkRow], list[ClaimSupportRow]]:
    """Return the rows of one candidate, a plain protobuf `Candidate`, whatever it holds.

    Nothing is made up: what was not sent is null, a score that is no score (NaN, or outside [0, 1]) is null,
    a citation of a chunk that does not exist is left out. Each of these but the first adds a warning to
    `warnings`, which end up in the answer's row.
    """
    oddities = [*turn.warnings, *warnings]
    question, answer, metadata = turn.question, turn.answer, candidate.grounding_metadata
    answer_id = answer_id_of(question, answer, candidate_index)
    keys = (turn.run_id, question.question_id, answer.turn_index, answer_id, candidate_index)
    row_keys = (*keys, answer.answered_at)
    if candidate.HasField("content"):
        answer_text = text_of(candidate)
    else:
        answer_text = ""
        oddities.append("The candidate has no content: answer_text is empty.")
    grounding_score = score_of(candidate, "grounding_score", oddities)
    retrieval = _retrieval(metadata, oddities)
    by_google = turn.asked_google or any(one.source == "GOOGLE_SEARCH" for one in retrieval)
    uris_expire_at = answer.answered_at + URI_LIFETIME if by_google else None

    chunks = [
        _chunk_row(chunk, index, row_keys, answer.streamed, uris_expire_at)
        for index, chunk in enumerate(metadata.support_chunks)
    ]
    supports = list(metadata.grounding_support)  # protobuf makes each anew whenever it is asked
    texts = [claim.claim_text for claim in supports]
    spans = locate(answer_text, texts)
    claims: list[ClaimSupportRow] = []
    supported: list[Span | None] = []
    for claim_index, (claim, text, span) in enumerate(zip(supports, texts, spans, strict=True)):
        cited = valid_indices(claim.support_chunk_indices, len(chunks), claim_index, oddities)
        score = score_of(claim, "support_score", oddities, f" of claim {claim_index}")
        start, end = span or _NOWHERE
        said = (*row_keys, claim_index, text, start, end, score)
        for chunk_index in cited:
            chunk = chunks[chunk_index]
            claims.append(ClaimSupportRow(*said, chunk_index, chunk.uri, chunk.title, chunk.source))
        if cited:
            supported.append(span)
        else:
            claims.append(ClaimSupportRow(*said, None, None, None, None))

    entry_point = metadata.search_entry_point
    row = AnswerRow(
        *keys,
        question=question.turns[answer.turn_index],
        answer_text=answer_text,
        role=candidate.content.role or None,
        grounding_score=grounding_score,
        support_coverage=coverage(len(answer_text), [span for span in supported if span is not None]),
        claim_count=len(spans),
        supported_claim_count=len(supported),
        chunk_count=len(chunks),
        web_search_queries=tuple(metadata.web_search_queries),
        search_suggestions_html=entry_point.rendered_content or None,
        search_sdk_blob=entry_point.sdk_blob or None,
        retrieval=retrieval,
        images=tuple(_image(image) for image in metadata.images),
        videos=tuple(Video(video.youtube_external_id or None) for video in getattr(metadata, "videos", ())),
        model_id=turn.model_id,
        api_version=question.api_version,
        streamed=answer.streamed,
        attempts=answer.attempts,
        latency_ms=answer.latency_ms,
        first_part_ms=answer.first_part_ms,
        asked_at=answer.asked_at,
        answered_at=answer.answered_at,
        from_ledger=answer.from_ledger,
        uris_expire_at=uris_expire_at,
        warnings=shortened(oddities),
        metadata=question.metadata,
        request_json=turn.request_json,
        response_json=turn.response_json,
    )
    return row, chunks, claims


def _chunk_row(
    chunk: Any,
    chunk_index: int,
    keys: tuple[str, str, int, str, int, datetime],
    streamed: bool,
    uris_expire_at: datetime | None,
) -> SupportChunkRow:
    about = source_metadata(chunk)
    return SupportChunkRow(  # in the row's order: to name the fields would be a quarter of the time
        *keys,
        chunk_index,
        chunk.chunk_text,
        chunk.source or None,
        chunk.uri or about.get("uri") or None,
        chunk.title or about.get("title") or None,
        chunk.domain or about.get("domain") or None,
        about.get("document_id") or None,
        about.get("page_identifier") or None,
        about,
        # 0 and unset are one in this field: outside a stream, where it is not used, 0 means unset.
        chunk.index if streamed or chunk.index else None,
        uris_expire_at,
    )


def _retrieval(metadata: Any, warnings: list[str]) -> tuple[Retrieval, ...]:
    rows = []
    for index, one in enumerate(metadata.retrieval_metadata):
        version = prediction = None
        if one.dynamic_retrieval_metadata.HasField("predictor_metadata"):
            predictor = one.dynamic_retrieval_metadata.predictor_metadata
            version = enum_name(predictor, "version")
            prediction = score_of(predictor, "prediction", warnings, f" of retrieval {index}")
        rows.append(Retrieval(enum_name(one, "source"), version, prediction))
    return tuple(rows)


def _image(image: Any) -> Image:
    source = None
    if image.HasField("source"):
        # v1 has no site_display_name.
        site = getattr(image.source, "site_display_name", "")
        source = Website(image.source.uri or None, image.source.title or None, site or None)
    return Image(_image_file(image, "image"), _image_file(image, "thumbnail"), source)


def _image_file(image: Any, field: str) -> ImageFile | None:
    if not image.HasField(field):
        return None
    file = getattr(image, field)
    return ImageFile(file.uri or None, file.width or None, file.height or None)
