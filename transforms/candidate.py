"""One candidate of a response → its answer row, its support chunks and its claims."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from schemas import ids
from schemas.outcome import Answer
from schemas.question import Question
from schemas.rows import (
    AnswerRow,
    ClaimSupportRow,
    Image,
    ImageFile,
    Retrieval,
    SupportChunkRow,
    Video,
    Website,
)
from transforms.spans import coverage, locate

URI_LIFETIME = timedelta(days=30)
"""How long redirect links from Google Search work, as the service documents it."""

MOST_WARNINGS = 50
"""A row keeps this many warnings, and says how many there were beyond them."""

MOST_INDICES = 10
"""A warning names this many indices of a claim."""


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
    keys = (
        turn.run_id,
        question.question_id,
        answer.turn_index,
        ids.answer_id(
            question.question_id,
            answer.request,
            question.api_version,
            answer.turn_index,
            candidate_index,
            question.user_context,
        ),
        candidate_index,
    )
    if candidate.HasField("content"):
        answer_text = "".join(part.text for part in candidate.content.parts)
    else:
        answer_text = ""
        oddities.append("The candidate has no content: answer_text is empty.")
    grounding_score = _score(candidate, "grounding_score", "grounding_score", oddities)
    retrieval = _retrieval(metadata, oddities)
    by_google = turn.asked_google or any(one.source == "GOOGLE_SEARCH" for one in retrieval)
    uris_expire_at = answer.answered_at + URI_LIFETIME if by_google else None

    chunks = _chunk_rows(metadata.support_chunks, keys, answer.streamed, uris_expire_at)
    spans = locate(answer_text, [claim.claim_text for claim in metadata.grounding_support])
    claims: list[ClaimSupportRow] = []
    supported = []
    for claim_index, (claim, span) in enumerate(zip(metadata.grounding_support, spans, strict=True)):
        cited = _cited(claim.support_chunk_indices, len(chunks), claim_index, oddities)
        score = _score(claim, "support_score", f"support_score of claim {claim_index}", oddities)
        start, end = span or (None, None)
        said = (claim_index, claim.claim_text, start, end, score)
        if cited:
            supported.append(span)
        else:
            claims.append(ClaimSupportRow(*keys, *said, None, None, None, None))
        for chunk_index in cited:
            chunk = chunks[chunk_index]
            claims.append(ClaimSupportRow(*keys, *said, chunk_index, chunk.uri, chunk.title, chunk.source))

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
        asked_at=answer.asked_at,
        answered_at=answer.answered_at,
        from_ledger=answer.from_ledger,
        uris_expire_at=uris_expire_at,
        warnings=_shortened(oddities),
        metadata=question.metadata,
        request_json=turn.request_json,
        response_json=turn.response_json,
    )
    return row, chunks, claims


def _chunk_rows(
    chunks: Sequence[Any],
    keys: tuple[str, str, int, str, int],
    streamed: bool,
    uris_expire_at: datetime | None,
) -> list[SupportChunkRow]:
    rows = []
    for chunk_index, chunk in enumerate(chunks):
        about = dict(sorted(chunk.source_metadata.items()))  # a protobuf map has no order of its own
        rows.append(
            SupportChunkRow(
                *keys,
                chunk_index=chunk_index,
                chunk_text=chunk.chunk_text,
                source=chunk.source or None,
                uri=chunk.uri or about.get("uri") or None,
                title=chunk.title or about.get("title") or None,
                domain=chunk.domain or about.get("domain") or None,
                document_id=about.get("document_id") or None,
                page_identifier=about.get("page_identifier") or None,
                source_metadata=about,
                # 0 and unset are one in this field: outside a stream, where it is not used, 0 means unset.
                index_in_stream=chunk.index if streamed or chunk.index else None,
                uris_expire_at=uris_expire_at,
            )
        )
    return rows


def _cited(indices: Sequence[int], chunk_count: int, claim_index: int, warnings: list[str]) -> list[int]:
    """Return the chunks a claim cites, each once, in order, without those that do not exist."""
    distinct = dict.fromkeys(indices)
    cited = [index for index in distinct if 0 <= index < chunk_count]
    if len(cited) < len(distinct):
        wrong = [str(index) for index in distinct if not 0 <= index < chunk_count]
        named = ", ".join(wrong[:MOST_INDICES]) + (" …" if len(wrong) > MOST_INDICES else "")
        warnings.append(f"Claim {claim_index} cites chunk {named}, of {chunk_count} chunks: left out.")
    return cited


def _retrieval(metadata: Any, warnings: list[str]) -> tuple[Retrieval, ...]:
    rows = []
    for index, one in enumerate(metadata.retrieval_metadata):
        version = prediction = None
        if one.dynamic_retrieval_metadata.HasField("predictor_metadata"):
            predictor = one.dynamic_retrieval_metadata.predictor_metadata
            version = _enum_name(predictor, "version")
            prediction = _score(predictor, "prediction", f"prediction of retrieval {index}", warnings)
        rows.append(Retrieval(_enum_name(one, "source"), version, prediction))
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


def _enum_name(message: Any, field: str) -> str:
    """Return the value's name, or its number as text when the installed library does not know it."""
    number: int = getattr(message, field)
    known = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return known.name if known is not None else str(number)


def _score(message: Any, field: str, what: str, warnings: list[str]) -> float | None:
    """Return a score if it was sent and is one; reading an unset score gives 0.0, which was never sent."""
    if not message.HasField(field):
        return None
    value: float = getattr(message, field)
    if not 0 <= value <= 1:  # also true of NaN
        warnings.append(f"{what} is {value}, which is not in [0, 1]: left out.")
        return None
    return _shortest(value)


def _shortest(value: float) -> float:
    """Return the double with the fewest digits that is the same 32-bit float.

    The service sends 32-bit floats: 0.9 arrives as 0.8999999761581421, which `>= 0.9` would miss.
    """
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if _FLOAT.unpack(_FLOAT.pack(short))[0] == value:
            return short
    return float(f"{value:.9g}")  # nine digits tell any two floats apart


_FLOAT = struct.Struct("<f")


def _shortened(warnings: list[str]) -> tuple[str, ...]:
    if len(warnings) <= MOST_WARNINGS:
        return tuple(warnings)
    return (*warnings[:MOST_WARNINGS], f"{len(warnings) - MOST_WARNINGS} more warnings were left out.")
