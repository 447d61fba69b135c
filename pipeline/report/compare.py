"""Compares a run with an earlier one, question by question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from groundrows.pipeline.pages.text import cut
from groundrows.pipeline.pages.words_apart import Piece, differing
from groundrows.pipeline.query.run import Run
from groundrows.pipeline.report.figures import Bin
from groundrows.pipeline.report.read import ANSWER, whole_rows

# The smallest difference of two scores that counts as a change.
TELLING = 0.005
MOST_SHOWN = 20
LONGEST_TEXT = 3_000
CHANGE_BINS = 40


@dataclass(frozen=True, slots=True)
class Change:
    """The answers of two runs to the same question. Long texts are cut.

    Attributes:
        question, question_before: The question as each run asked it.
        asked_before, asked_after: Both in pieces, those that differ marked; empty when they are the same.
        told_before, told_after: The answers' texts in pieces, those that differ marked.
    """

    question: str
    question_before: str
    asked_before: list[Piece]
    asked_after: list[Piece]
    told_before: list[Piece]
    told_after: list[Piece]
    question_id: str
    before: float | None
    after: float | None
    coverage_before: float | None
    coverage_after: float | None
    text_before: str
    text_after: str


@dataclass(frozen=True, slots=True)
class Turned:
    """A question that one run answered and that failed in the other: its question and the failure's code."""

    prompt: str
    code: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two runs. Answers with the same question ID, turn and candidate are compared.

    Attributes:
        both: Number of answers that both runs have.
        changed: Number of these whose text differs.
        scored: Number of these with a grounding score in both runs.
        better, worse: Number of these whose score is higher (or lower) by at least `TELLING`.
        mean_change: The mean change of the scores, or None.
        changes: The changes of the scores, in bins from -1 to 1; empty when there are none.
        newly_failing, newly_answered: Number of questions answered in only one run and failed in the other.
        only_here, only_before: Number of answers in only one run whose question the other run did not ask.
        largest: The answers with the largest changes of score, the losses first.
        failing, answered: Some of the newly failing and newly answered questions.
    """

    both: int
    changed: int
    scored: int
    better: int
    worse: int
    mean_change: float | None
    changes: list[Bin]
    newly_failing: int
    newly_answered: int
    only_here: int
    only_before: int
    largest: list[Change]
    failing: list[Turned]
    answered: list[Turned]


_LATEST = """
    CREATE OR REPLACE TEMP TABLE {name} AS
    SELECT question_key, turn_index, candidate_index, max_by(key, (answered, key)) AS key,
      max_by(text, (answered, key)) AS text, max_by(score, (answered, key)) AS score
    FROM {schema}.answers GROUP BY ALL
"""


def compare(db: duckdb.DuckDBPyConnection, this: Run, earlier: Run) -> Comparison:
    """Compare the rows of two runs, which are in the database schemas `this` and `earlier`.

    When a run has several answers to one question, which is possible with `--append`, the latest one counts.

    Raises:
        UsageError: A file can't be read.
    """
    db.execute(_LATEST.format(name="here", schema="this"))
    db.execute(_LATEST.format(name="before", schema="earlier"))
    db.execute(
        """
        CREATE OR REPLACE TEMP TABLE pairs AS
        SELECT here.key AS here_key, before.key AS before_key, here.text != before.text AS changed,
          here.score - before.score AS change
        FROM here JOIN before USING (question_key, turn_index, candidate_index)
        """
    )
    both, changed, scored, better, worse, mean = db.execute(
        f"""
        SELECT count(*), count(*) FILTER (changed), count(change), count(*) FILTER (change >= {TELLING}),
          count(*) FILTER (change <= -{TELLING}), avg(change) FROM pairs
        """
    ).fetchall()[0]
    failing, newly_failing = _turned(db, "this", "earlier", earlier)
    answered, newly_answered = _turned(db, "earlier", "this", this)
    return Comparison(
        both=both,
        changed=changed,
        scored=scored,
        better=better,
        worse=worse,
        mean_change=mean,
        changes=_changes(db),
        newly_failing=newly_failing,
        newly_answered=newly_answered,
        only_here=_only(db, "here", "before", "earlier"),
        only_before=_only(db, "before", "here", "this"),
        largest=_largest(db, this, earlier),
        failing=failing,
        answered=answered,
    )


def _turned(db: duckdb.DuckDBPyConnection, failed: str, answered: str, run: Run) -> tuple[list[Turned], int]:
    """Return some questions that failed in one run and were answered in the other, and their number.

    `run` is the run that answered them.
    """
    rows = db.execute(
        f"""
        WITH failed AS (
          SELECT question_key, turn_index, max_by(code, (failed, code)) AS code FROM {failed}.failures
          ANTI JOIN {failed}.answers USING (question_key, turn_index) GROUP BY ALL
        )
        SELECT min(key), any_value(code), count(*) OVER () FROM failed
        JOIN {answered}.answers USING (question_key, turn_index)
        GROUP BY question_key, turn_index ORDER BY question_key, turn_index LIMIT {MOST_SHOWN}
        """
    ).fetchall()
    # The narrow tables hold the beginning of a question only.
    whole = whole_rows(run, "answers", ("question",), ANSWER, [key for key, _, _ in rows])
    questions = {row["key"]: cut(row["question"], LONGEST_TEXT) for row in whole}
    return [Turned(questions[key], code) for key, code, _ in rows], rows[0][2] if rows else 0


def _only(db: duckdb.DuckDBPyConnection, name: str, other: str, other_schema: str) -> int:
    rows = db.execute(
        f"SELECT count(*) FROM {name} ANTI JOIN {other} USING (question_key, turn_index, candidate_index) "
        f"WHERE question_key NOT IN (SELECT question_key FROM {other_schema}.failures)"
    ).fetchall()
    return int(rows[0][0])


def _changes(db: duckdb.DuckDBPyConnection) -> list[Bin]:
    width = 2 / CHANGE_BINS
    # As a float, a difference of 0.05 may be slightly less. It belongs to the bin that begins at 0.05.
    rows = db.execute(
        f"SELECT least(floor((change + 1) / {width!r} + 1e-6), {CHANGE_BINS - 1})::INT AS bin, count(*) "
        "FROM pairs WHERE change IS NOT NULL GROUP BY bin"
    ).fetchall()
    counts = dict(rows)
    if not counts:
        return []
    return [Bin(each * width - 1, (each + 1) * width - 1, counts.get(each, 0)) for each in range(CHANGE_BINS)]


_SHOWN = ("question_id", "question", "answer_text", "grounding_score", "support_coverage")


def _largest(db: duckdb.DuckDBPyConnection, this: Run, earlier: Run) -> list[Change]:
    """Return the largest changes: half losses and half gains, then other answers whose text changed."""
    chosen: dict[int, int] = {}
    half = MOST_SHOWN // 2
    for condition, order, most in (
        (f"change <= -{TELLING}", "change, here_key", half),
        (f"change >= {TELLING}", "change DESC, here_key", half),
        ("changed", "here_key", MOST_SHOWN),
    ):
        rows = db.execute(
            f"SELECT here_key, before_key FROM pairs WHERE {condition} ORDER BY {order} LIMIT {most}"
        ).fetchall()
        for here, before in rows:
            if len(chosen) < MOST_SHOWN:
                chosen.setdefault(here, before)
    after = {row["key"]: row for row in whole_rows(this, "answers", _SHOWN, ANSWER, chosen)}
    before_rows = {
        row["key"]: row for row in whole_rows(earlier, "answers", _SHOWN, ANSWER, set(chosen.values()))
    }
    return [_change(before_rows[before], after[here]) for here, before in chosen.items()]


def _change(before: dict[str, Any], after: dict[str, Any]) -> Change:
    question, question_before = (cut(row["question"], LONGEST_TEXT) for row in (after, before))
    text, text_before = (cut(row["answer_text"], LONGEST_TEXT) for row in (after, before))
    asked_before, asked_after = (
        differing(question_before, question) if question != question_before else ([], [])
    )
    told_before, told_after = differing(text_before, text)
    return Change(
        question=question,
        question_before=question_before,
        asked_before=asked_before,
        asked_after=asked_after,
        told_before=told_before,
        told_after=told_after,
        question_id=cut(after["question_id"], 300),
        before=before["grounding_score"],
        after=after["grounding_score"],
        coverage_before=before["support_coverage"],
        coverage_after=after["support_coverage"],
        text_before=text_before,
        text_after=text,
    )
