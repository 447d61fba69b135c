"""The names of everything that the steps count; whoever counts or reads a counter imports them from here.

A counter of Beam has a namespace and a name. A runner adds up its counters over all workers, and shows them
only when a run is over; `TALLY` holds the figures that a display of progress needs earlier.
"""

from __future__ import annotations

from dataclasses import dataclass

RECORDS = "groundrows"
"""Namespace of what became of the records, and of the calls made for them."""

CHECKS = "groundrows.checks"
"""Namespace of the checks, by the same names: each call of method `check` is counted here."""

ROWS = "groundrows.rows"
"""Namespace of the rows written, by table."""

REFUSED_ROWS = "groundrows.refused"
"""Namespace of the rows that BigQuery refused, by table."""


def retries_by_code(namespace: str) -> str:
    """Namespace of the retries of `RECORDS` or `CHECKS`, by the code of the attempt that failed."""
    return f"{namespace}.retries_by_code"


def failures_by_code(namespace: str) -> str:
    """Namespace of the failure rows of `RECORDS` or `CHECKS`, by their code."""
    return f"{namespace}.failures_by_code"


def spent_by_model(kind: str) -> str:
    """Namespace of what calls took, by model; `kind` is `QUESTIONS` or one of `schemas.spending.KINDS`."""
    return f"groundrows.spent.{kind}"


QUESTIONS = "questions"
"""Questions whose calls took anything."""


# The count law: the records read are the sum of the four that follow. Of checks, CHECKED stands for ANSWERED.
RECORDS_READ = "records_read"
ANSWERED = "answered"
FAILED = "failed"
DUPLICATES = "duplicates"
ALREADY_ANSWERED = "already_answered"

CHECKED = "checked"
SKIPPED = "skipped"
"""Answers that there is nothing to check against."""

HALTED = "halted"
"""Failures that stand for questions, or checks, that were not asked since calling had stopped (`halt.py`)."""

CALLS = "calls"
"""Requests that left, retries included."""
RETRIES = "retries"
THROTTLED_SECONDS = "cumulativeThrottlingSeconds"
"""Seconds spent waiting for the pace. Beam and Dataflow's autoscaler prescribe the name."""
FROM_LEDGER = "from_ledger"
"""Answers that an earlier run had stored, so that nothing was called for them."""
LATENCY_MS = "latency_ms"
"""Distribution of the milliseconds that successful calls took."""
FIRST_PART_MS = "first_part_ms"
"""Distribution of the milliseconds until the first part of a streamed response."""

QUESTION_CHARACTERS = "question_characters"
ANSWER_CHARACTERS = "answer_characters"


@dataclass(slots=True)
class Tally:
    """Counts of this process for people to look at: threads may lose one to each other.

    Attributes:
        broken: Records that became a failure without being asked.
        left_out: Records whose questions were answered already (`unanswered.py`).
    """

    broken: int = 0
    left_out: int = 0


TALLY = Tally()
"""The process's own."""
