"""Decides when to stop all calling, so that a run does not fail all its questions for nothing.

Two kinds of streaks show that no call can succeed. Permanent errors (credentials, an unknown location, the
wrong region) stop the run after a few in a row with the same message. Transient errors (a quota of zero, a
server that is down) stop it when nothing else came back for longer than a minute, the period of a quota.

The reason is logged. A message of the service may quote a prompt, so it is part of the reason only when many
calls in a row ended with the same message.
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
# When the service rejects a request, the question is mostly the cause. Only when no call of the run ever
# succeeded is a wrong setting assumed to be the cause.
REJECTED_STREAK = 20
TRANSIENT_STREAK = 10
# A single error that asks for a long wait may concern one question; so many in a row concern the service.
LONG_WAIT_STREAK = 5
# A single refusal may name the quota of a model that few questions use.
DAY_QUOTA_STREAK = 3
# At most this much of the time between two failures counts. In a longer gap, as between the bundles of a
# stream, there were mostly no calls.
LONGEST_GAP_SECONDS = 60.0


class Halt:
    """Watches how attempts end, and decides when to stop. Several threads may use it.

    Args:
        exhausted_seconds: The run stops when only transient errors came back for so long.
        longest_wait_seconds: The run stops when several errors in a row ask for a longer wait than this.
        clock: Returns seconds on a monotonic clock.

    Attributes:
        reason: One sentence that says why calling stopped, or None.
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
        """Note that an attempt was answered. Every streak ends."""
        with self._lock:
            self._succeeded_once = True
            self._streak = 0
            self._end_transient()

    def failed(self, error: CallError) -> None:
        """Note that an attempt failed. This may set `reason`."""
        if error.code == EMPTY_ANSWER:  # the service works
            self.succeeded()
            return
        with self._lock:
            if error.code in RETRYABLE_CODES:
                self._count_transient(error)
            else:
                self._count_permanent(error)

    def stop(self, reason: str) -> None:
        """Stop for a reason other than failed calls. The first reason is kept."""
        if self.reason is None:
            self.reason = reason

    def _count_transient(self, error: CallError) -> None:
        now = self._clock()
        if error.day_quota is not None:
            self._day_quotas += 1
            if self._day_quotas >= DAY_QUOTA_STREAK:
                self.stop(
                    f"Calling stopped: a daily quota is used up ({error.day_quota}): run the same command "
                    "again tomorrow, or raise the quota."
                )
        if error.retry_after is not None and error.retry_after > self._longest_wait_seconds:
            self._long_waits += 1
            if self._long_waits >= LONG_WAIT_STREAK:
                self.stop(
                    f"Calling stopped: the service asks to wait {error.retry_after:.0f} s ({error.code})."
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
                f"Calling stopped: only transient errors came back for {lasted:.0f} s, the last of them "
                f"{error.code}."
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
                f"Calling stopped: {self._streak} calls in a row failed with {error.code}: {error.message}"
            )
