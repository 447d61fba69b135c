"""One candidate of a response → its answer row, its support chunks and its claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from groundrows.schemas import ids
from groundrows.schemas.outcome import Answer
from groundrows.schemas.question import Question
from groundrows.schemas.response import NO_USAGE, Candidate, Chunk, Claim, Span, Usage
from groundrows.schemas.rows import AnswerRow, ClaimSupportRow, Retrieval, SupportChunkRow
from groundrows.transforms.rows.reference import agreement
from groundrows.transforms.rows.spans import coverage, locate
from groundrows.transforms.rows.values import score_of, shortened, valid_indices

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
        usage: What the response took.
        model_version: The model that answered, as the service names it.
        response_id: The service's own id of the response.
    """

    run_id: str
    question: Question
    answer: Answer
    model_id: str | None
    asked_google: bool
    request_json: str
    response_json: str | None
    warnings: tuple[str, ...]
    usage: Usage = NO_USAGE
    model_version: str | None = None
    response_id: str | None = None


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
    turn: Turn, candidate: Candidate
) -> tuple[AnswerRow, list[SupportChunkRow], list[ClaimSupportRow]]:
    """Return the rows of one candidate, whatever it holds.

    Nothing is made up: what was not sent is null, a score that is no score (NaN, or outside [0, 1]) is null,
    a citation of a chunk that does not exist is left out. Each of these but the first adds a warning to the
    answer's row.
    """
    oddities = [*turn.question.warnings, *turn.warnings, *candidate.warnings]
    question, answer, candidate_index = turn.question, turn.answer, candidate.index
    answer_id = answer_id_of(question, answer, candidate_index)
    keys = (turn.run_id, question.question_id, answer.turn_index, answer_id, candidate_index)
    row_keys = (*keys, answer.answered_at)
    answer_text = candidate.text
    if answer_text is None:
        answer_text = ""
        oddities.append("The candidate has no content: answer_text is empty.")
    grounding_score = score_of(candidate.score, "grounding_score", oddities)
    retrieval = _retrieval(candidate.retrieval, oddities)
    expire = candidate.links_expire
    if expire is None:
        expire = turn.asked_google or any(one.source == "GOOGLE_SEARCH" for one in retrieval)
    uris_expire_at = answer.answered_at + URI_LIFETIME if expire else None

    chunks = [
        _chunk_row(chunk, index, row_keys, uris_expire_at) for index, chunk in enumerate(candidate.chunks)
    ]
    spans = _spans(answer_text, candidate.claims)
    claims: list[ClaimSupportRow] = []
    supported: list[Span | None] = []
    for claim_index, (claim, span) in enumerate(zip(candidate.claims, spans, strict=True)):
        cited = valid_indices(claim.cited, len(chunks), claim_index, oddities)
        score = score_of(claim.score, "support_score", oddities, f" of claim {claim_index}")
        start, end = span or _NOWHERE
        said = (*row_keys, claim_index, claim.text, start, end)
        scores = _chunk_scores(claim, claim_index, oddities) if claim.chunk_scores else {}
        for chunk_index in cited:
            chunk = chunks[chunk_index]
            about = (chunk_index, chunk.uri, chunk.title, chunk.source)
            claims.append(ClaimSupportRow(*said, scores.get(chunk_index, score), *about))
        if cited:
            supported.append(span)
        else:
            claims.append(ClaimSupportRow(*said, score, None, None, None, None))

    covered = None
    if candidate.has_claims:
        covered = coverage(len(answer_text), [span for span in supported if span is not None])
    # Tokens are of the whole response: in one row, so that a sum counts them once.
    usage = turn.usage if candidate_index == 0 else NO_USAGE

    # References are the record's own: they are for the answer that the conversation was led to.
    references = question.references if answer.turn_index == len(question.turns) - 1 else ()
    compared = agreement(answer_text, references)

    row = AnswerRow(
        *keys,
        question=question.turns[answer.turn_index],
        answer_text=answer_text,
        role=candidate.role,
        grounding_score=grounding_score,
        support_coverage=covered,
        claim_count=len(spans),
        supported_claim_count=len(supported),
        chunk_count=len(chunks),
        web_search_queries=candidate.queries,
        search_suggestions_html=candidate.suggestions_html,
        search_sdk_blob=candidate.search_blob,
        retrieval=retrieval,
        images=candidate.images,
        videos=candidate.videos,
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
        service=answer.service,
        finish_reason=candidate.finish_reason,
        finish_message=candidate.finish_message,
        model_version=turn.model_version,
        response_id=turn.response_id,
        prompt_tokens=usage.prompt,
        answer_tokens=usage.answer,
        thought_tokens=usage.thoughts,
        tool_tokens=usage.tool,
        cached_tokens=usage.cached,
        total_tokens=usage.total,
        traffic_type=turn.usage.traffic_type,
        retrieval_queries=candidate.retrieval_queries,
        billed_searches=candidate.billed_searches,
        safety_ratings=candidate.safety_ratings,
        citations=candidate.citations,
        urls=candidate.urls,
        avg_logprobs=candidate.avg_logprobs,
        thoughts=candidate.thoughts,
        reference_answers=references,
        reference_exact=compared.exact if compared else None,
        reference_contained=compared.contained if compared else None,
        reference_f1=compared.f1 if compared else None,
    )
    return row, chunks, claims


def _chunk_row(
    chunk: Chunk,
    chunk_index: int,
    keys: tuple[str, str, int, str, int, datetime],
    uris_expire_at: datetime | None,
) -> SupportChunkRow:
    return SupportChunkRow(  # in the row's order: to name the fields would be a quarter of the time
        *keys,
        chunk_index,
        chunk.text,
        chunk.source,
        chunk.uri,
        chunk.title,
        chunk.domain,
        chunk.document_id,
        chunk.page_identifier,
        chunk.metadata,
        chunk.index_in_stream,
        uris_expire_at,
        chunk.kind,
        chunk.place_id,
    )


def _chunk_scores(claim: Claim, claim_index: int, warnings: list[str]) -> dict[int, float | None]:
    """How well each chunk supports a claim, where the service scores chunks; of one cited twice the first."""
    scores: dict[int, float | None] = {}
    for chunk_index, sent in zip(claim.cited, claim.chunk_scores, strict=False):
        score = score_of(sent, "support_score", warnings, f" of claim {claim_index}")
        scores.setdefault(chunk_index, score)
    return scores


def _spans(answer_text: str, claims: Sequence[Claim]) -> list[Span | None]:
    """Where claims stand: as the service says, or else where their wording is found."""
    unplaced = [claim.text for claim in claims if claim.span is None]
    found = locate(answer_text, unplaced)
    if len(found) == len(claims):
        return found
    rest = iter(found)
    return [next(rest) if claim.span is None else claim.span for claim in claims]


def _retrieval(sent: Sequence[Retrieval], warnings: list[str]) -> tuple[Retrieval, ...]:
    rows = []
    for index, one in enumerate(sent):
        prediction = score_of(one.prediction, "prediction", warnings, f" of retrieval {index}")
        rows.append(one if prediction == one.prediction else replace(one, prediction=prediction))
    return tuple(rows)
