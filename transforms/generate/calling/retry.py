"""Decides when to retry: after a random wait, with a limit on the number of attempts and on the time."""

from __future__ import annotations

import random
from dataclasses import dataclass

from groundrows.schemas.errors import CallError

LONGEST_BACKOFF_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Decides, after a failed attempt, how long to wait before the next.

    Attributes:
        max_attempts: Maximum number of attempts per turn, including the first one.
        total_seconds: No attempt starts later than this after the start of the first one.
        first_backoff_seconds: The longest wait before the second attempt. It doubles with each attempt.
    """

    max_attempts: int
    total_seconds: float
    first_backoff_seconds: float

    def wait_seconds(self, error: CallError, attempts: int, elapsed: float) -> float | None:
        """Return the seconds to wait before the next attempt, or None when there is no further one.

        When the server says how long to wait, that time is used, with a little random time added, so that
        many waiting calls don't return in the same millisecond. A daily quota is never waited for, because
        the server does not say when it ends. Otherwise the wait is a random time between zero and a bound
        that doubles, which spreads a burst of failures best.

        Args:
            error: The error of the last attempt.
            attempts: Number of attempts so far, without uncounted probes.
            elapsed: Seconds since the first attempt started.
        """
        if not error.retryable or error.day_quota is not None or attempts >= self.max_attempts:
            return None
        if error.retry_after is not None:
            wait = error.retry_after * (1 + 0.02 * random.random())
        else:
            bound = min(LONGEST_BACKOFF_SECONDS, self.first_backoff_seconds * 2 ** max(0, attempts - 1))
            wait = random.uniform(0, bound)
        return wait if elapsed + wait <= self.total_seconds else None
