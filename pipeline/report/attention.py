"""Selects the answers that most need to be looked at by a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from groundrows.pipeline.pages.views import AnswerView, answer_view
from groundrows.pipeline.query.run import Run
from groundrows.pipeline.report.read import ANSWER, whole_rows

# The largest number of characters of all answers on the page together.
MOST_TEXT = 6_000_000

# The measures by which an answer needs a look. Each has a condition, an order (worst first; of equal answers
# the longer one first), and a name for people.
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
    """The answers shown, the worst first, and the number of answers that meet any measure's condition."""

    shown: list[AnswerView]
    count: int


def attention(db: duckdb.DuckDBPyConnection, run: Run, most: int) -> Attention:
    """Read the worst answers of the current schema. An answer's place is its worst place by any measure.

    Raises:
        UsageError: A file can't be read.
    """
    faulty = " OR ".join(condition for condition, _, _ in MEASURES)
    count = db.execute(f"SELECT count(*) FROM answers WHERE {faulty}").fetchall()[0][0]
    return Attention(fitting(_views(db, run, worst(db, most))), count)


def worst(db: duckdb.DuckDBPyConnection, most: int) -> dict[int, str]:
    """Return the keys of the worst answers, the worst first, each with the measure that it is worst by."""
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
    """Return the first answers, as many as fit on the page."""
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
    # Several answers may have the same ID; the text that was checked tells them apart.
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
