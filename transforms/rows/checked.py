"""One response of a grounding check → its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from groundrows.schemas.outcome import Answer
from groundrows.schemas.question import Question
from groundrows.schemas.rows import CitedChunk, GroundingCheckRow
from groundrows.transforms.rows.spans import places_of
from groundrows.transforms.rows.values import score_of, shortened, source_metadata, valid_indices


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


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a row says of a claim; the row of what belongs to none has `_NO_CLAIM`."""

    index: int | None
    text: str | None
    start: int | None
    end: int | None
    check_required: bool | None
    score: float | None


_NO_CLAIM = _Claim(None, None, None, None, None, None)


def check_rows(check: Check, response: Any) -> list[GroundingCheckRow]:
    """Return the rows of a response, a plain protobuf `CheckGroundingResponse`, whatever it holds.

    Nothing is made up and no text is lost: what was not sent is null, and so is a score that is no score
    (NaN, or outside [0, 1]) or a place that is none in the answer; a citation of a chunk that does not exist
    is left out. Each of these but the first adds a warning. The chunks that no claim cites are in one more
    row, which has no claim. A response without claims has that row, too.
    """
    about_response = list(check.warnings)
    support_score = score_of(response, "support_score", about_response)
    chunks = _cited_chunks(response, check.chunk_indices)
    answer_text = check.question.turns[0]
    ends = (offset for claim in response.claims for offset in (claim.start_pos, claim.end_pos))
    places = places_of(answer_text, ends)
    uncited = dict.fromkeys(range(len(chunks)))
    found: list[tuple[_Claim, list[int], list[str]]] = []
    for index, claim in enumerate(response.claims):
        oddities: list[str] = []
        cited = valid_indices(claim.citation_indices, len(chunks), index, oddities)
        for chunk_index in cited:
            uncited.pop(chunk_index, None)
        found.append((_claim(claim, index, answer_text, places, oddities), cited, oddities))
    if uncited or not found:
        found.append((_NO_CLAIM, list(uncited), []))

    rows = []
    for place, (claim, cited, oddities) in enumerate(found):
        is_first = not place
        rows.append(
            GroundingCheckRow(
                run_id=check.run_id,
                question_id=check.question_id,
                turn_index=check.turn_index,
                answer_id=check.answer_id,
                candidate_index=check.candidate_index,
                check_id=check.check_id,
                claim_index=claim.index,
                claim_text=claim.text,
                claim_start=claim.start,
                claim_end=claim.end,
                grounding_check_required=claim.check_required,
                claim_score=claim.score,
                support_score=support_score,
                citation_threshold=check.citation_threshold,
                citations=tuple(chunks[index] for index in cited),
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


def _cited_chunks(response: Any, chunk_indices: Sequence[int]) -> list[CitedChunk]:
    """Join `cited_chunks`, which citations name, with the texts of `cited_facts`, which stand beside them."""
    chunks = []
    for chunk, fact in zip_longest(response.cited_chunks, response.cited_facts):
        fact_text = "" if fact is None else fact.chunk_text
        if chunk is None:
            chunks.append(CitedChunk(None, fact_text, None, None, None, None, {}, None))
            continue
        about = source_metadata(chunk)
        text = chunk.chunk_text or fact_text
        chunks.append(
            CitedChunk(
                chunk_index=_named_chunk(chunk.source, chunk_indices),
                chunk_text=text,
                source=chunk.source or None,
                uri=chunk.uri or about.get("uri") or None,
                title=chunk.title or about.get("title") or None,
                domain=chunk.domain or about.get("domain") or None,
                source_metadata=about,
                fact_text=fact_text if fact_text and fact_text != text else None,
            )
        )
    return chunks


def _named_chunk(source: str, chunk_indices: Sequence[int]) -> int | None:
    """Return the chunk that is the request's fact number `source`; the field may hold any text."""
    if not (source.isascii() and source.isdecimal() and len(source) < _LONGEST_NUMBER):
        return None
    fact_index = int(source)
    return chunk_indices[fact_index] if fact_index < len(chunk_indices) else None


_LONGEST_NUMBER = 10


def _claim(
    claim: Any, index: int, answer_text: str, places: Mapping[int, int], warnings: list[str]
) -> _Claim:
    start, end = _span(claim, index, answer_text, places, warnings)
    return _Claim(
        index=index,
        text=claim.claim_text,
        start=start,
        end=end,
        check_required=claim.grounding_check_required if claim.HasField("grounding_check_required") else None,
        score=score_of(claim, "score", warnings, f" of claim {index}", is_float=False),
    )


def _span(
    claim: Any, index: int, answer_text: str, places: Mapping[int, int], warnings: list[str]
) -> tuple[int, int] | tuple[None, None]:
    """Return where the claim stands, in characters: the service counts bytes."""
    sent = [name for name in ("start_pos", "end_pos") if claim.HasField(name)]
    if not sent:
        return None, None
    start, end = claim.start_pos, claim.end_pos
    if len(sent) == 1:
        warnings.append(f"Claim {index} has only {sent[0]}, {start or end}: its place is left out.")
        return None, None
    if start not in places or end not in places or start > end:
        warnings.append(
            f"Claim {index} is said to stand from byte {start} to {end}, which is no stretch of the answer's "
            "characters: left out."
        )
        return None, None
    span = places[start], places[end]
    if claim.claim_text and claim.claim_text != answer_text[slice(*span)]:
        warnings.append(f"Claim {index} is worded differently from the answer at its place.")
    return span
