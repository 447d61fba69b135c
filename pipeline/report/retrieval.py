"""Figures on dynamic retrieval: how many answers would be grounded at each threshold.

With dynamic retrieval, the service predicts from 0 to 1 how much a search would help with a prompt, and
searches only when the prediction reaches a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

# The slider has steps of 0.01.
STEPS = 100
PROMPTS_A_STEP = 5
# The service's threshold when a request asks for dynamic retrieval and names none.
SERVICE_THRESHOLD = 0.7


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, its prediction, the slider's step for it, and whether the service searched for it."""

    step: int
    prediction: float
    searched: bool
    text: str


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The figures on dynamic retrieval.

    Attributes:
        predictions: Number of answers with a prediction.
        answers: Number of all answers.
        grounded: Number of answers that would be grounded at each threshold: 0, 0.01 … 1.
        threshold: The threshold of most requests, or the service's default when the requests name none.
        named: Whether the requests name the threshold.
        searched: Number of answers with a prediction that the service searched for.
        prompts: Up to `PROMPTS_A_STEP` prompts for each step, ordered by prediction.
        sampled: Whether there are more prompts than these.
    """

    predictions: int
    answers: int
    grounded: list[int]
    threshold: float
    named: bool
    searched: int
    prompts: list[Prompt]
    sampled: bool


# Only the first candidate of a call counts. A 32-bit float of 0.7 is slightly less as a 64-bit float.
_PREDICTED = f"""
    SELECT *, greatest(least(floor(prediction * {STEPS} + 1e-4), {STEPS}), 0)::INT AS step FROM answers
    WHERE prediction IS NOT NULL AND candidate_index = 0
"""


def retrieval(db: duckdb.DuckDBPyConnection) -> Retrieval | None:
    """Compute the figures; None when no answer has a prediction."""
    counts = dict(db.execute(f"SELECT step, count(*) FROM ({_PREDICTED}) GROUP BY step").fetchall())
    if not counts:
        return None
    grounded, so_far = [0] * (STEPS + 1), 0
    for step in range(STEPS, -1, -1):
        so_far += counts.get(step, 0)
        grounded[step] = so_far
    threshold = db.execute(
        f"SELECT threshold FROM ({_PREDICTED}) WHERE threshold BETWEEN 0 AND 1 "
        "GROUP BY threshold ORDER BY count(*) DESC LIMIT 1"
    ).fetchone()
    answers = db.execute("SELECT count(*) FROM answers WHERE candidate_index = 0").fetchall()[0][0]
    searched = db.execute(f"SELECT count(*) FROM ({_PREDICTED}) WHERE {_SEARCHED}").fetchall()[0][0]
    prompts = _prompts(db)
    return Retrieval(
        predictions=so_far,
        answers=answers,
        grounded=grounded,
        threshold=threshold[0] if threshold else SERVICE_THRESHOLD,
        named=threshold is not None,
        searched=searched,
        prompts=prompts,
        sampled=len(prompts) < so_far,
    )


_SEARCHED = "(searches > 0 OR chunks > 0)"


def _prompts(db: duckdb.DuckDBPyConnection) -> list[Prompt]:
    rows = db.execute(
        f"""
        SELECT step, prediction, {_SEARCHED}, prompt FROM ({_PREDICTED})
        QUALIFY row_number() OVER (PARTITION BY step ORDER BY key) <= {PROMPTS_A_STEP}
        ORDER BY prediction, key
        """
    ).fetchall()
    return [Prompt(*row) for row in rows]
