"""When to stop calling altogether, so that a queue is never burned.

Two kinds of streak say that nothing can work. Errors that no retry mends (credentials, an unknown location,
the wrong region) stop the run after a handful in a row that all say the same. Transient ones (a quota at
zero, a server that is down) stop it when nothing else has come back for longer than a quota's minute.

The reason is logged, and the service's words may quote a prompt: they are repeated only where many calls in
a row ended in the same ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from groundrows.schemas.codes import EMPTY_ANSWER, RETRYABLE_CODES
from groundrows.schemas.errors import CallError

HOPELESS_CODES = frozenset(
    {"UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED"}
)
HOPELESS_STREAK = 5
# A request the service rejects is mostly that question's own fault; only a run in which nothing else
# ever came back is taken for a wrong setting.
REJECTED_STREAK = 20
TRANSIENT_STREAK = 10
# One answer may ask for any wait, and the others go on; so many in a row speak for the whole service.
LONG_WAIT_STREAK = 5
# One refusal may name the quota of a model that few questions ask.
DAY_QUOTA_STREAK = 3
# Of the time between two failures so much counts: in a longer gap, as between the bundles of a stream,
# mostly nothing was asked, which proves nothing.
LONGEST_GAP_SECONDS = 60.0


class Halt:
    """Watches how attempts end and says when to stop. Safe to use from several threads.

    Args:
        exhausted_seconds: How long nothing but transient errors may come back.
        longest_wait_seconds: A service that asks, several times in a row, to come back later than this has
            nothing for this run.
        clock: Seconds, monotonic.

    Attributes:
        reason: One sentence that says why to stop, or None.
    """

    def __init__(
        self,
        exhausted_seconds: float,
        longest_wait_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exhausted_seconds = exhausted_seconds
        self._longest_wait_seconds = longest_wait_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._succeeded_once = False
        self._streak = 0
        self._streak_of = ("", "")
        self._transient = 0
        self._long_waits = 0
        self._day_quotas = 0
        self._transient_seconds = 0.0
        self._transient_last = 0.0
        self.reason: str | None = None

    def succeeded(self) -> None:
        """An attempt was answered: every streak ends."""
        with self._lock:
            self._succeeded_once = True
            self._streak = 0
            self._end_transient()

    def failed(self, error: CallError) -> None:
        """An attempt failed: may set `reason`."""
        if error.code == EMPTY_ANSWER:  # the service works
            self.succeeded()
            return
        with self._lock:
            if error.code in RETRYABLE_CODES:
                self._count_transient(error)
            else:
                self._count_permanent(error)

    def stop(self, reason: str) -> None:
        """Stop for a reason that lies outside the calls. The first reason stays."""
        if self.reason is None:
            self.reason = reason

    def _count_transient(self, error: CallError) -> None:
        now = self._clock()
        if error.day_quota is not None:
            self._day_quotas += 1
            if self._day_quotas >= DAY_QUOTA_STREAK:
                self.stop(
                    f"Calling stopped: a quota of the day is used up ({error.day_quota}): run it again "
                    "tomorrow, or raise the quota."
                )
        if error.retry_after is not None and error.retry_after > self._longest_wait_seconds:
            self._long_waits += 1
            if self._long_waits >= LONG_WAIT_STREAK:
                self.stop(
                    f"Calling stopped: the service asks to come back in {error.retry_after:.0f} s "
                    f"({error.code})."
                )
        else:
            self._long_waits = 0
        if self._transient:
            self._transient_seconds += min(now - self._transient_last, LONGEST_GAP_SECONDS)
        self._transient += 1
        self._transient_last = now
        lasted = self._transient_seconds
        if self._transient >= TRANSIENT_STREAK and lasted >= self._exhausted_seconds:
            self.stop(
                f"Calling stopped: nothing but passing errors came back for {lasted:.0f} s, "
                f"the last of them {error.code}."
            )

    def _end_transient(self) -> None:
        self._transient = 0
        self._day_quotas = 0
        self._long_waits = 0
        self._transient_seconds = 0.0

    def _count_permanent(self, error: CallError) -> None:
        self._end_transient()
        says = (error.code, error.message)
        self._streak = self._streak + 1 if says == self._streak_of else 1
        self._streak_of = says
        hopeless = error.code in HOPELESS_CODES and self._streak >= HOPELESS_STREAK
        rejected = (
            error.code == "INVALID_ARGUMENT" and not self._succeeded_once and self._streak >= REJECTED_STREAK
        )
        if hopeless or rejected:
            self.stop(
                f"Calling stopped: {self._streak} calls in a row ended in {error.code}: {error.message}"
            )
