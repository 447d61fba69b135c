"""An entry with all that is shown of it: the answer with its claims and sources, or the failure's record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb

from groundrows.pipeline.browse.index import CHUNK, SUPPORT
from groundrows.pipeline.browse.search import Entry
from groundrows.pipeline.browse.shelf import OTHER, THIS, Shelf
from groundrows.pipeline.pages.templates import counted, share
from groundrows.pipeline.pages.text import cut
from groundrows.pipeline.pages.views import AnswerView, answer_view
from groundrows.pipeline.pages.words_apart import Piece, differing

LONGEST_RECORD = 20_000
LONGEST_REFERENCE = 300
MOST_REFERENCES = 20
# What makes one look at once; the report lists every answer below 1.
LOW = 0.5

_SHOWN = (
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


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure, its texts cut."""

    message: str
    origin: str
    attempts: int
    retryable: bool
    failed_at: datetime
    record: str
    metadata: str | None


@dataclass(frozen=True, slots=True)
class Behind:
    """What is behind an entry: its answer or its failure, and what belongs to it.

    Attributes:
        answer: The answer, of an entry that is one.
        failure: The failure, of an entry that is one.
        references: The right answers that its record holds, cut.
        other: The other run's answer to the same question, or None.
        apart: How the two texts differ: the other's and this one's, in pieces; None without both.
    """

    answer: AnswerView | None = None
    failure: Failure | None = None
    references: tuple[str, ...] = ()
    other: AnswerView | None = None
    apart: tuple[list[Piece], list[Piece]] | None = None


def behind(shelf: Shelf, entry: Entry) -> Behind:
    """Everything that is shown of an entry."""
    other = _other_answer(shelf, entry)
    if entry.kind == "failure":
        return Behind(failure=_failure(shelf, entry.no), other=other)
    answer = _answer(shelf, entry.no, ", ".join(reasons(entry)) or "nothing that needs a look", THIS)
    apart = None
    if other is not None and answer is not None:
        apart = differing(_text(other), _text(answer))
    return Behind(answer=answer, references=_references(shelf, entry.no), other=other, apart=apart)


def _text(answer: AnswerView) -> str:
    return "".join(piece.text for piece in answer.segments)


def reasons(entry: Entry) -> list[str]:
    """Why one would look at an entry, the weightiest first; none for one that nothing is wrong with."""
    if entry.kind == "failure":
        return [f"failed at {entry.stage}: {entry.code}"]
    said = []
    if entry.reference_contained is False:
        supported = entry.claims and not entry.unsupported
        said.append("supported and wrong" if supported else "does not contain the reference")
    if entry.reference_contained and (not entry.claims or entry.unsupported):
        said.append("right and unsupported")
    if not entry.sources:
        said.append("no source")
    if entry.unsupported:
        said.append(f"{entry.unsupported} of {counted(entry.claims or 0, 'claim')} without support")
    if entry.score is not None and entry.score < LOW:
        said.append(f"score {entry.score:.2f}")
    if entry.coverage is not None and entry.coverage < LOW:
        said.append(f"{share(entry.coverage)} of the text supported")
    if entry.warnings:
        said.append(counted(entry.warnings, "warning"))
    if not entry.length:
        said.append("empty answer")
    return said


def _answer(shelf: Shelf, number: int, why: str, schema: str) -> AnswerView | None:
    """An answer of one of the runs with its claims and sources; None where there is none of that number."""
    with shelf.opened() as db:
        found = _rows(db, schema, "answers", _SHOWN, number)
        if not found:
            return None
        chunks = _rows(db, schema, "support_chunks", CHUNK, number)
        supports = _rows(db, schema, "claim_supports", SUPPORT, number)
    return answer_view(found[0], chunks, supports, None, why)


def _references(shelf: Shelf, number: int) -> tuple[str, ...]:
    """The right answers that the record of an answer holds, cut."""
    with shelf.opened() as db:
        rows = _rows(db, THIS, "answers", ("reference_answers",), number)
    said = (rows[0]["reference_answers"] if rows else None) or []
    return tuple(cut(each, LONGEST_REFERENCE) for each in said[:MOST_REFERENCES])


def _failure(shelf: Shelf, number: int) -> Failure | None:
    """A failure; None where there is none of that number."""
    columns = ("message", "origin", "attempts", "retryable", "failed_at", "record", "metadata")
    with shelf.opened() as db:
        rows = _rows(db, THIS, "failures", columns, number)
    if not rows:
        return None
    row = rows[0]
    record = row["record"][: 4 * LONGEST_RECORD].decode("utf-8", "replace")
    return Failure(
        message=cut(row["message"], 2_000),
        origin=cut(row["origin"], 500),
        attempts=row["attempts"],
        retryable=row["retryable"],
        failed_at=row["failed_at"],
        record=cut(record, LONGEST_RECORD),
        metadata=None if row["metadata"] is None else cut(row["metadata"], 600),
    )


def exchanged(shelf: Shelf, number: int, part: str) -> str | None:
    """The request or the response of an answer, as JSON with lines; None where it was not kept.

    Args:
        shelf: The runs.
        number: Of the answer.
        part: `request` or `response`.
    """
    column = {"request": "request_json", "response": "response_json"}[part]
    with shelf.opened() as db:
        rows = _rows(db, THIS, "answers", (column,), number)
    text = rows[0][column] if rows else None
    if text is None:
        return None
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return str(text)


def suggestions(shelf: Shelf, number: int) -> str | None:
    """The search suggestions that came with an answer, verbatim."""
    with shelf.opened() as db:
        rows = _rows(db, THIS, "answers", ("search_suggestions_html",), number)
    return rows[0]["search_suggestions_html"] if rows else None


def _other_answer(shelf: Shelf, entry: Entry) -> AnswerView | None:
    """The other run's answer to the same question, where it has one."""
    if entry.other is None or "newly_answered" in entry.standing:
        return None
    return _answer(shelf, entry.other, "", OTHER)


def _rows(
    db: duckdb.DuckDBPyConnection, schema: str, table: str, columns: tuple[str, ...], number: int
) -> list[dict[str, Any]]:
    """Some columns of an entry's rows; null where no file has such a column."""
    view = f"memory.{schema}_{table}"
    there = {name for name, *_ in db.execute(f"DESCRIBE {view}").fetchall()}
    chosen = ", ".join(name if name in there else f"NULL AS {name}" for name in columns)
    rows = db.execute(f"SELECT {chosen} FROM {view} WHERE no = ?", [number]).fetchall()
    return [dict(zip(columns, map(_in_utc, row), strict=True)) for row in rows]


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
