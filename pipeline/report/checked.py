"""For runs that only check given answers: selects the answers that most need to be looked at by a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb

from groundrows.pipeline.pages.text import cut
from groundrows.pipeline.pages.views import (
    LONGEST_ANSWER,
    LONGEST_METADATA,
    AnswerView,
    Claim,
    SourceView,
    claim_views,
    pieces,
    source_view,
    span_of,
)
from groundrows.pipeline.query.run import Run
from groundrows.pipeline.report.attention import Attention, fitting
from groundrows.pipeline.report.read import whole_rows

_OF_CHECK = ("run_id", "check_id")
_CHECK = (
    "question_id",
    "turn_index",
    "candidate_index",
    "claim_index",
    "claim_text",
    "claim_start",
    "claim_end",
    "grounding_check_required",
    "claim_score",
    "support_score",
    "citations",
    "answer_text",
    "latency_ms",
    "checked_at",
    "warnings",
    "metadata",
)


def checked_attention(db: duckdb.DuckDBPyConnection, run: Run, most: int) -> Attention:
    """Read the answers of the current schema whose checks have the lowest scores, the lowest first.

    Raises:
        UsageError: A file can't be read.
    """
    rows = db.execute(
        f"""
        SELECT check_key, count(*) OVER () FROM grounding_checks
        GROUP BY check_key HAVING any_value(score) < 1 ORDER BY any_value(score), check_key LIMIT {most}
        """
    ).fetchall()
    keys = [key for key, _ in rows]
    grouped: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in whole_rows(run, "grounding_checks", _CHECK, _OF_CHECK, keys):
        grouped[row["key"]].append(row)
    return Attention(fitting(_views(grouped[key] for key in keys)), rows[0][1] if rows else 0)


def _views(checks: Iterator[list[dict[str, Any]]]) -> Iterator[AnswerView]:
    for rows in checks:
        yield checked_view(rows)


def checked_view(rows: Sequence[Mapping[str, Any]]) -> AnswerView:
    """Make the view of an answer from the rows of its check. The first row holds the answer's text."""
    first = next((row for row in rows if row["answer_text"] is not None), rows[0])
    text = first["answer_text"] or ""
    cited: dict[Any, int] = {}  # the place of each cited piece of text, by its content
    sources: list[SourceView] = []
    claims = []
    for row in sorted(rows, key=lambda row: (row["claim_index"] is None, row["claim_index"])):
        places = []
        for citation in row["citations"]:
            identity = (citation["chunk_text"], citation["source"], citation["uri"])
            if identity not in cited:
                cited[identity] = len(sources)
                sources.append(source_view(citation, len(sources), None, cited=True))
            places.append(cited[identity])
        if row["claim_index"] is not None:
            needed = row["grounding_check_required"] is not False
            claims.append(
                Claim(row["claim_text"] or "", span_of(row), row["claim_score"], tuple(places), needed)
            )
    divided = pieces(text, claims)
    return AnswerView(
        question_id=cut(first["question_id"], 300),
        turn_index=first["turn_index"],
        candidate_index=first["candidate_index"],
        question="",
        segments=divided,
        length=len(text),
        shown=min(len(text), LONGEST_ANSWER),
        claims=claim_views(claims, divided),
        claim_count=len(claims),
        supported_count=sum(bool(claim.sources) for claim in claims),
        sources=sources,
        source_count=len(sources),
        score=None,
        coverage=None,
        check_score=first["support_score"],
        model_id=None,
        latency_ms=first["latency_ms"],
        answered_at=first["checked_at"],
        suggestions=None,
        suggestions_cut=False,
        queries=(),
        warnings=tuple(cut(warning, 500) for row in rows for warning in row["warnings"])[:20],
        metadata=None if first["metadata"] is None else cut(first["metadata"], LONGEST_METADATA),
        why="lowest check scores",
    )
