"""Compares the answers with the reference answers of their records, and shows where the two disagree."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from groundrows.pipeline.pages.text import cut
from groundrows.pipeline.query.run import Run
from groundrows.pipeline.report.read import ANSWER, whole_rows

MOST_SHOWN = 10
MOST_REFERENCES = 10
LONGEST_TEXT = 3_000

# What a person should look at. Each kind has a name, a condition on the narrow table and the same condition
# on the columns of the rows, for `groundrows export --where`.
KINDS = (
    (
        "Supported and wrong",
        "supported > 0 AND NOT reference_contained",
        "supported_claim_count > 0 AND NOT reference_contained",
    ),
    (
        "Right and unsupported",
        "supported = 0 AND reference_contained",
        "supported_claim_count = 0 AND reference_contained",
    ),
)


@dataclass(frozen=True, slots=True)
class Example:
    """An answer beside the reference answers of its record. Long texts are cut."""

    question: str
    question_id: str
    answer: str
    references: list[str]
    f1: float


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Answers of one kind that disagree with their support or their reference.

    Attributes:
        name: What they are.
        count: Number of such answers.
        examples: Some of them.
        where: The condition by which `groundrows export` finds all of them.
    """

    name: str
    count: int
    examples: list[Example]
    where: str


@dataclass(frozen=True, slots=True)
class Referenced:
    """How the answers compare with their references.

    Attributes:
        answers: Number of answers that have a reference answer.
        exact: Number of these that equal a reference.
        contained: Number of these that contain a reference; an exact answer is among them.
        f1: The mean F1.
        disagreements: Answers that are supported and wrong, and answers that are right and unsupported.
    """

    answers: int
    exact: int
    contained: int
    f1: float
    disagreements: list[Disagreement]


def referenced(db: duckdb.DuckDBPyConnection, run: Run) -> Referenced | None:
    """Compare the answers of the current schema; None when no record had a reference answer.

    Raises:
        UsageError: A file can't be read.
    """
    answers, exact, contained, f1 = db.execute(
        "SELECT count(reference_f1), count(*) FILTER (reference_exact), "
        "count(*) FILTER (reference_contained), avg(reference_f1) FROM answers"
    ).fetchall()[0]
    if not answers:
        return None
    return Referenced(answers, exact, contained, f1, [_disagreement(db, run, *kind) for kind in KINDS])


def _disagreement(
    db: duckdb.DuckDBPyConnection, run: Run, name: str, condition: str, where: str
) -> Disagreement:
    # The first are those farthest from their reference, and of those that are right the least supported.
    rows = db.execute(
        f"SELECT key, count(*) OVER () FROM answers WHERE {condition} "
        f"ORDER BY reference_f1, coverage, key LIMIT {MOST_SHOWN}"
    ).fetchall()
    columns = ("question", "question_id", "answer_text", "reference_answers", "reference_f1")
    found = {row["key"]: row for row in whole_rows(run, "answers", columns, ANSWER, [key for key, _ in rows])}
    examples = [
        Example(
            question=cut(row["question"], LONGEST_TEXT),
            question_id=cut(row["question_id"], 300),
            answer=cut(row["answer_text"], LONGEST_TEXT),
            references=[cut(each, 300) for each in row["reference_answers"][:MOST_REFERENCES]],
            f1=row["reference_f1"],
        )
        for row in (found[key] for key, _ in rows)
    ]
    return Disagreement(name, rows[0][1] if rows else 0, examples, where)
