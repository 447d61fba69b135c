"""When to try again: full jitter, bounded in number and in total time."""

from __future__ import annotations

import random
from dataclasses import dataclass

from groundrows.schemas.errors import CallError

LONGEST_BACKOFF_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Decides, after a failed attempt, how long to wait before the next.

    Attributes:
        max_attempts: Attempts a turn, the first included.
        total_seconds: No attempt starts later than this after the first one did.
        first_backoff_seconds: The longest wait before the second attempt; doubles with each further one.
    """

    max_attempts: int
    total_seconds: float
    first_backoff_seconds: float

    def wait_seconds(self, error: CallError, attempts: int, elapsed: float) -> float | None:
        """Seconds to wait before the next attempt, or None when there is to be none.

        Args:
            error: How the last attempt ended.
            attempts: Attempts made so far that count.
            elapsed: Seconds since the first attempt started.

        A server that says when to come back is taken at its word; a little jitter behind it keeps a crowd
        of waiting calls from returning in the same millisecond. A day's quota is not waited for: what the
        server says then is no time of its end. Otherwise the wait is drawn evenly from zero to a bound that
        doubles, which spreads a burst of failures best.
        """
        if not error.retryable or error.day_quota is not None or attempts >= self.max_attempts:
            return None
        if error.retry_after is not None:
            wait = error.retry_after * (1 + 0.02 * random.random())
        else:
            bound = min(LONGEST_BACKOFF_SECONDS, self.first_backoff_seconds * 2 ** max(0, attempts - 1))
            wait = random.uniform(0, bound)
        return wait if elapsed + wait <= self.total_seconds else None
