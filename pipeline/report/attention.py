"""The answers that most need a look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from groundrows.pipeline.pages.views import AnswerView, answer_view
from groundrows.pipeline.query.run import Run
from groundrows.pipeline.report.read import ANSWER, whole_rows

# Characters of text that shown answers may bring into the page together.
MOST_TEXT = 6_000_000

# What makes an answer worth a look: who counts, who is worst, and how that is called. Of two that are as bad
# the longer answer comes first.
MEASURES = (
    ("score < 1", "score, length DESC, key", "lowest grounding scores"),
    ("coverage < 1", "coverage, length DESC, key", "least of the text supported"),
    ("claims > supported", "claims - supported DESC, length DESC, key", "most claims without support"),
    ("warnings > 0", "warnings DESC, length DESC, key", "most warnings"),
)

_ANSWER = (
    "question_id",
    "turn_index",
    "candidate_index",
    "question",
    "answer_text",
    "grounding_score",
    "support_coverage",
    "claim_count",
    "supported_claim_count",
    "chunk_count",
    "web_search_queries",
    "search_suggestions_html",
    "model_id",
    "latency_ms",
    "answered_at",
    "uris_expire_at",
    "warnings",
    "metadata",
)
_CHUNK = (
    "chunk_index",
    "chunk_text",
    "uri",
    "title",
    "domain",
    "document_id",
    "page_identifier",
    "uris_expire_at",
)
_SUPPORT = ("claim_index", "claim_text", "claim_start", "claim_end", "support_score", "chunk_index")


@dataclass(frozen=True, slots=True)
class Attention:
    """The answers shown, the worst first, and how many there are that any measure finds fault with."""

    shown: list[AnswerView]
    count: int


def attention(db: duckdb.DuckDBPyConnection, run: Run, most: int) -> Attention:
    """Rank the answers of the schema in use and read the worst: each stands where it stands worst.

    Raises:
        UsageError: A file can't be read.
    """
    faulty = " OR ".join(condition for condition, _, _ in MEASURES)
    count = db.execute(f"SELECT count(*) FROM answers WHERE {faulty}").fetchall()[0][0]
    return Attention(fitting(_views(db, run, worst(db, most))), count)


def worst(db: duckdb.DuckDBPyConnection, most: int) -> dict[int, str]:
    """Keys of the answers that are worst by any measure, the worst first, with what puts them there."""
    best_rank: dict[int, tuple[int, int, str]] = {}
    for number, (condition, order, name) in enumerate(MEASURES):
        rows = db.execute(
            f"SELECT key FROM answers WHERE {condition} ORDER BY {order} LIMIT {most}"
        ).fetchall()
        for rank, (key,) in enumerate(rows):
            best_rank[key] = min(best_rank.get(key, (rank, number, name)), (rank, number, name))
    ranked = sorted(best_rank.items(), key=lambda item: (item[1], item[0]))
    return {key: name for key, (_, _, name) in ranked[:most]}


def _views(db: duckdb.DuckDBPyConnection, run: Run, chosen: dict[int, str]) -> Iterator[AnswerView]:
    rows = {row["key"]: row for row in whole_rows(run, "answers", _ANSWER, ANSWER, chosen)}
    chunks = _by_key(whole_rows(run, "support_chunks", _CHUNK, ANSWER, chosen))
    supports = _by_key(whole_rows(run, "claim_supports", _SUPPORT, ANSWER, chosen))
    checks = _check_scores(db, chosen)
    for key, why in chosen.items():
        yield answer_view(rows[key], chunks[key], supports[key], checks.get(key), why)


def fitting(views: Iterator[AnswerView] | Sequence[AnswerView]) -> list[AnswerView]:
    """The first of them, as many as the page has room for."""
    shown: list[AnswerView] = []
    size = 0
    for view in views:
        size += view.size
        if size > MOST_TEXT and shown:
            break
        shown.append(view)
    return shown


def _by_key(rows: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    grouped: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[row["key"]].append(row)
    return grouped


def _check_scores(db: duckdb.DuckDBPyConnection, keys: Collection[int]) -> dict[int, float]:
    # Answers of one id are told apart by what was checked.
    rows = db.execute(
        """
        SELECT key, any_value(checks.score) FROM answers JOIN (
          SELECT any_value(answer_key) AS answer_key, any_value(text) AS text, any_value(score) AS score
          FROM grounding_checks GROUP BY check_key
        ) AS checks USING (answer_key, text)
        WHERE checks.score IS NOT NULL AND list_contains(?, key) GROUP BY key
        """,
        [list(keys)],
    ).fetchall()
    return dict(rows)
