"""An answer as a page shows it: its text divided at claims, its claims, and the sources that they cite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from groundrows.pipeline.pages.text import Segment, cut, safe_link, segments

# Longer texts are cut, so that one answer can't make the page too large.
LONGEST_QUESTION = 2_000
LONGEST_ANSWER = 20_000
LONGEST_CHUNK = 1_000
# A passage with more characters or lines has a scroll bar.
LONG_PASSAGE = 300
LONG_LINES = 6
LONGEST_CLAIM = 600
LONGEST_METADATA = 600
LONGEST_SUGGESTIONS = 64_000
MOST_CLAIMS = 100
MOST_SOURCES = 40


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source of an answer.

    Attributes:
        index: The index by which claims cite it.
        name: Its title, or else its address.
        link: Its URI if that is safe to link to, or None.
        uri: Its URI as the service sent it.
        site: Its domain.
        document: Its document and page in a data store.
        text: The passage; long passages are cut.
        expires: When the link stops working, or None.
        cited: Whether a claim cites it.
    """

    index: int
    name: str
    link: str | None
    uri: str | None
    site: str | None
    document: str | None
    text: str
    expires: datetime | None
    cited: bool

    @property
    def is_long(self) -> bool:
        """Whether its passage is so long that it gets a scroll bar."""
        return len(self.text) > LONG_PASSAGE or len(self.text.splitlines()) > LONG_LINES


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A claim: its text, whether the shown text contains it, its score, and the sources that it cites."""

    text: str
    found: bool
    supported: bool
    needs_support: bool
    score: float | None
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnswerView:
    """An answer with everything that the page shows of it. Attributes with a column's name hold its value."""

    question_id: str
    turn_index: int
    candidate_index: int
    question: str
    segments: list[Segment]
    length: int
    shown: int
    claims: list[ClaimView]
    claim_count: int
    supported_count: int
    sources: list[SourceView]
    source_count: int
    score: float | None
    coverage: float | None
    check_score: float | None
    model_id: str | None
    latency_ms: float | None
    answered_at: datetime | None
    suggestions: str | None
    suggestions_cut: bool
    queries: tuple[str, ...]
    warnings: tuple[str, ...]
    metadata: str | None
    why: str

    @property
    def size(self) -> int:
        """The approximate number of characters that the answer adds to the page."""
        texts = (self.question, self.suggestions or "", self.metadata or "", *self.queries, *self.warnings)
        return (
            self.shown
            + sum(map(len, texts))
            + sum(len(claim.text) for claim in self.claims)
            + sum(len(source.text) + 2 * len(source.uri or "") for source in self.sources)
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim from the rows. `span` is its place in the answer in code points, or None."""

    text: str
    span: tuple[int, int] | None
    score: float | None
    sources: tuple[int, ...]
    needs_support: bool = True


def span_of(row: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the place of a row's claim in the answer's text, in code points, or None."""
    start, end = row["claim_start"], row["claim_end"]
    return None if start is None or end is None else (start, end)


def claims_of(rows: Iterable[Mapping[str, Any]]) -> list[Claim]:
    """Return the claims in the `claim_supports` rows of one answer, in order."""
    by_index: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_index.setdefault(row["claim_index"], []).append(row)
    return [
        Claim(
            first["claim_text"],
            span_of(first),
            first["support_score"],
            tuple(sorted({row["chunk_index"] for row in same if row["chunk_index"] is not None})),
        )
        for _, same in sorted(by_index.items())
        for first in same[:1]
    ]


def source_view(row: Mapping[str, Any], index: int, expires: datetime | None, cited: bool) -> SourceView:
    """Make a source from a row of `support_chunks` or a citation of `grounding_checks`."""
    uri = row["uri"]
    document, page = row.get("document_id"), row.get("page_identifier")
    return SourceView(
        index=index,
        name=cut(row["title"] or row["domain"] or uri or document or "", 300),
        link=safe_link(uri),
        uri=None if uri is None else cut(uri, 500),
        site=row["domain"] or None,
        document=", page ".join(part for part in (document, page) if part) or None,
        text=cut(row["chunk_text"], LONGEST_CHUNK),
        expires=expires if uri else None,
        cited=cited,
    )


def pieces(text: str, claims: Sequence[Claim]) -> list[Segment]:
    """Divide the shown part of an answer at its shown claims."""
    return segments(text[:LONGEST_ANSWER], [claim.span for claim in claims[:MOST_CLAIMS]])


def claim_views(claims: Sequence[Claim], divided: Sequence[Segment]) -> list[ClaimView]:
    """Return the claims to show."""
    there = {position for segment in divided for position in segment.spans}
    return [
        ClaimView(
            text=cut(claim.text, LONGEST_CLAIM),
            found=position in there,
            supported=bool(claim.sources),
            needs_support=claim.needs_support,
            score=claim.score,
            sources=claim.sources,
        )
        for position, claim in enumerate(claims[:MOST_CLAIMS])
    ]


def answer_view(
    row: Mapping[str, Any],
    chunks: Sequence[Mapping[str, Any]],
    supports: Sequence[Mapping[str, Any]],
    check_score: float | None,
    why: str,
) -> AnswerView:
    """Make the view of an answer from its row and the rows of its chunks and claims."""
    text, suggestions = row["answer_text"], row["search_suggestions_html"]
    claims = claims_of(supports)
    divided = pieces(text, claims)
    cited = {index for claim in claims for index in claim.sources}
    # Cited chunks come first, because only so many are shown.
    shown = sorted(chunks, key=lambda chunk: (chunk["chunk_index"] not in cited, chunk["chunk_index"]))
    cut_suggestions = suggestions is not None and len(suggestions) > LONGEST_SUGGESTIONS
    return AnswerView(
        question_id=cut(row["question_id"], 300),
        turn_index=row["turn_index"],
        candidate_index=row["candidate_index"],
        question=cut(row["question"], LONGEST_QUESTION),
        segments=divided,
        length=len(text),
        shown=min(len(text), LONGEST_ANSWER),
        claims=claim_views(claims, divided),
        claim_count=row["claim_count"],
        supported_count=row["supported_claim_count"],
        sources=[
            source_view(
                chunk,
                chunk["chunk_index"],
                chunk["uris_expire_at"] or row["uris_expire_at"],
                chunk["chunk_index"] in cited,
            )
            for chunk in shown[:MOST_SOURCES]
        ],
        source_count=row["chunk_count"],
        score=row["grounding_score"],
        coverage=row["support_coverage"],
        check_score=check_score,
        model_id=row["model_id"],
        latency_ms=row["latency_ms"],
        answered_at=row["answered_at"],
        suggestions=None if cut_suggestions else suggestions,
        suggestions_cut=cut_suggestions,
        queries=tuple(cut(query, 300) for query in row["web_search_queries"][:20]),
        warnings=tuple(cut(warning, 500) for warning in row["warnings"][:20]),
        metadata=None if row["metadata"] is None else cut(row["metadata"], LONGEST_METADATA),
        why=why,
    )
