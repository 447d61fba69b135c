"""Questions onto shards: how many, and which goes where."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import apache_beam as beam

from groundrows.schemas.question import Question

# What a shard's share must leave it: with fewer calls a minute the call that each share gives up for its
# boundary would cost a large part of the quota.
LEAST_CALLS_A_MINUTE = 2


def shards_needed(requests_per_minute: float | None, latency_seconds: float, max_in_flight: int) -> int:
    """How many shards carry a rate, by Little's law: calls in flight = rate x latency.

    Args:
        requests_per_minute: The limit over all workers; None for none.
        latency_seconds: What a call is expected to take, on average.
        max_in_flight: Calls a worker process keeps out at once.

    Mostly 1: one process carries hundreds of calls a second. Without a limit there is nothing to share, and
    one shard would keep all the work on one worker, so the answer is then as many as a small job has
    workers.
    """
    if requests_per_minute is None:
        return 8
    in_flight = requests_per_minute / 60 * latency_seconds
    most = max(1, int(requests_per_minute // LEAST_CALLS_A_MINUTE))
    return max(1, min(most, math.ceil(in_flight / max_in_flight)))


def shard_of(question_id: str, shards: int) -> int:
    """The shard of a question: the same on every machine, every time."""
    return int.from_bytes(hashlib.sha256(question_id.encode()).digest()[:8], "big") % shards


class KeyByShard(beam.PTransform):
    """PCollection[Question] -> PCollection[tuple[int, Question]].

    The key's coder is deterministic, so that a shard is one key on every worker.
    """

    def __init__(self, shards: int) -> None:
        super().__init__()
        self._shards = shards

    def expand(self, questions: Any) -> Any:
        """Key by the question's id."""
        shards = self._shards
        return questions | "KeyByShard" >> beam.Map(
            lambda question: (shard_of(question.question_id, shards), question)
        ).with_output_types(tuple[int, Question])
