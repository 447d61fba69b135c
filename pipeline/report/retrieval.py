"""Dynamic retrieval: how many answers would be grounded at each threshold, and the prompts around it."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

# The slider's steps: hundredths.
STEPS = 100
PROMPTS_A_STEP = 5
# What the service uses when dynamic retrieval is asked for without a threshold.
SERVICE_THRESHOLD = 0.7


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with its prediction, the step it is in, and whether the service searched for it."""

    step: int
    prediction: float
    searched: bool
    text: str


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What the predictions allow to say.

    Attributes:
        predictions: Answers with a prediction.
        answers: All answers.
        grounded: How many of those would be grounded at each threshold: 0, 0.01 … 1.
        threshold: The one most of them were asked with, or the service's own when the request named none.
        named: Whether the request named it.
        searched: How many of them the service did search for.
        prompts: Up to `PROMPTS_A_STEP` prompts of each step, by prediction.
        sampled: Whether there are more prompts than those.
    """

    predictions: int
    answers: int
    grounded: list[int]
    threshold: float
    named: bool
    searched: int
    prompts: list[Prompt]
    sampled: bool


# The first candidate stands for its call. Predictions were 32-bit floats: 0.7 is a little less as a double.
_PREDICTED = f"""
    SELECT *, greatest(least(floor(prediction * {STEPS} + 1e-4), {STEPS}), 0)::INT AS step FROM answers
    WHERE prediction IS NOT NULL AND candidate_index = 0
"""


def retrieval(db: duckdb.DuckDBPyConnection) -> Retrieval | None:
    """Draw up what there is; None when no answer has a prediction."""
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
