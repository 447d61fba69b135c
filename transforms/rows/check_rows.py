"""One response of a grounding check → its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.schemas.outcome import Answer
from groundrows.schemas.question import Question
from groundrows.schemas.response import CheckedClaim, CheckResponse, CitedFact
from groundrows.schemas.rows import CitedChunk, GroundingCheckRow
from groundrows.transforms.rows.values import score_of, shortened, valid_indices


@dataclass(frozen=True, slots=True)
class Check:
    """What all claims of one response share.

    Attributes:
        run_id: The id of this run.
        question: The check as it was asked.
        answer: The response as it came, and how.
        question_id: The id of the record whose answer was checked.
        turn_index: Which turn's answer was checked.
        answer_id: The id of the checked answer.
        candidate_index: Which candidate the answer is.
        check_id: The id of the check.
        chunk_indices: For each fact of the request, in order, the chunk that citations of it name.
        citation_threshold: What the request asked for, if it did.
        request_json: The request as sent.
        response_json: The whole response, if rows are to carry it.
        warnings: What was odd about the response as a whole.
    """

    run_id: str
    question: Question
    answer: Answer
    question_id: str
    turn_index: int
    answer_id: str
    candidate_index: int
    check_id: str
    chunk_indices: Sequence[int]
    citation_threshold: float | None
    request_json: str
    response_json: str | None
    warnings: tuple[str, ...]


def check_rows(check: Check, response: CheckResponse) -> list[GroundingCheckRow]:
    """Return the rows of a response, whatever it holds.

    Nothing is made up and no text is lost: what was not sent is null, and so is a score that is no score
    (NaN, or outside [0, 1]) or a place that is none in the answer; a citation of a chunk that does not exist
    is left out. Each of these but the first adds a warning. The chunks that no claim cites are in one more
    row, which has no claim. A response without claims has that row, too.
    """
    about_response = list(check.warnings)
    support_score = score_of(response.score, "support_score", about_response)
    chunks = [_cited_chunk(fact, check.chunk_indices) for fact in response.cited]
    answer_text = check.question.turns[0]
    uncited = dict.fromkeys(range(len(chunks)))
    found: list[tuple[int | None, CheckedClaim, float | None, list[int], list[str]]] = []
    for index, claim in enumerate(response.claims):
        oddities: list[str] = []
        cited = valid_indices(claim.cited, len(chunks), index, oddities)
        oddities += claim.warnings
        score = score_of(claim.score, "score", oddities, f" of claim {index}")
        for chunk_index in cited:
            uncited.pop(chunk_index, None)
        found.append((index, claim, score, cited, oddities))
    if uncited or not found:
        found.append((None, _NO_CLAIM, None, list(uncited), []))

    rows = []
    for place, (claim_index, claim, score, cited, oddities) in enumerate(found):
        is_first = not place
        start, end = claim.span or (None, None)
        rows.append(
            GroundingCheckRow(
                run_id=check.run_id,
                question_id=check.question_id,
                turn_index=check.turn_index,
                answer_id=check.answer_id,
                candidate_index=check.candidate_index,
                check_id=check.check_id,
                claim_index=claim_index,
                claim_text=None if claim_index is None else claim.text,
                claim_start=start,
                claim_end=end,
                grounding_check_required=claim.check_required,
                claim_score=score,
                support_score=support_score,
                citation_threshold=check.citation_threshold,
                citations=tuple([chunks[chunk_index] for chunk_index in cited]),
                cited_chunk_count=len(chunks),
                answer_text=answer_text if is_first else None,
                api_version=check.question.api_version,
                attempts=check.answer.attempts,
                latency_ms=check.answer.latency_ms,
                asked_at=check.answer.asked_at,
                checked_at=check.answer.answered_at,
                from_ledger=check.answer.from_ledger,
                warnings=shortened([*about_response, *oddities] if is_first else oddities),
                metadata=check.question.metadata,
                request_json=check.request_json if is_first else None,
                response_json=check.response_json if is_first else None,
            )
        )
    return rows


# What the row of the chunks that belong to no claim says of a claim.
_NO_CLAIM = CheckedClaim("", None, None, None, (), ())


def _cited_chunk(fact: CitedFact, chunk_indices: Sequence[int]) -> CitedChunk:
    index = fact.fact_index
    return CitedChunk(
        chunk_index=chunk_indices[index] if index is not None and index < len(chunk_indices) else None,
        chunk_text=fact.text,
        source=fact.source,
        uri=fact.uri,
        title=fact.title,
        domain=fact.domain,
        source_metadata=fact.metadata,
        fact_text=fact.fact_text,
    )
