"""What becomes of a call, decided the moment it arrives and whatever transport it came by."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, Protocol

from google.protobuf.message import DecodeError

from pipeline.emulator.broken import break_response
from pipeline.emulator.calllog import CallLog
from pipeline.emulator.canned import canned_answer
from pipeline.emulator.faults import BROKEN, ERRORS, Fault, FaultMix
from pipeline.emulator.limits import MinuteLimit, read_limits_file
from pipeline.emulator.messages import Request, user_turns
from pipeline.emulator.options import EmulatorOptions
from pipeline.emulator.status import Refusal, bad_request, quota_exhausted, refuse
from pipeline.emulator.validation import violations

SLOW_FACTOR = 10
SLOW_AT_LEAST_SECONDS = 1.0  # so that a slow call is slow where the others take no time at all


@dataclass(frozen=True, slots=True)
class Reply:
    """How a call is to be answered.

    Attributes:
        delay_seconds: How long to wait first.
        outcome: A serialized response; a refusal; or `hang` (never answer) or `disconnect` (cut the
            connection).
    """

    delay_seconds: float
    outcome: bytes | Refusal | Literal["hang", "disconnect"]


class Answerer(Protocol):
    """Turns a valid request into a response message."""

    def answer(self, request: Any) -> Any:
        """Answer one request."""


class Service:
    """The emulated service: validation, quota, faults, latency, answers and the call log.

    A call that the service would not take (an invalid request) does not count against the quota; one that
    it takes does, also when a fault follows.

    Raises:
        ValueError: One sentence: a file named by the options is missing or wrong.
    """

    def __init__(self, options: EmulatorOptions) -> None:
        self._options = options
        self._answerer = _answerer(options)
        self._limit = MinuteLimit(options.requests_per_minute)
        self._faults = FaultMix(options.faults, options.seed) if options.faults else None
        self._latency_draws = Random(options.seed)
        self._log = CallLog(options.call_log) if options.call_log else None
        # One clock for the log and the quota, so that the log itself shows that the quota was kept; it is
        # monotonic, so that a correction of the system's time cannot open or close the quota.
        self._epoch = time.time() - time.monotonic()
        # The canned answer is for measuring: it looks into a request only when something else asks for it.
        self._reads_requests = self._answerer is not None or bool(self._log or self._faults)
        self.reload_limits(starting=True)

    def reload_limits(self, starting: bool = False) -> None:
        """Read the limits file again, when there is one; its limit holds from the next call on.

        A file that is missing changes nothing. One that is wrong ends the start with a ValueError; later
        on it changes nothing either, and is reported on stderr.
        """
        path = self._options.limits_file
        if path is None:
            return
        try:
            self._limit.per_minute = read_limits_file(path)
        except FileNotFoundError:
            print(f"--limits_file={path} does not exist; it is read again on SIGHUP.", file=sys.stderr)
        except ValueError as error:
            if starting:
                raise
            print(f"{error} The limit stays as it was.", file=sys.stderr)

    def generate(self, body: bytes, routing: Callable[[], str | None]) -> Reply:
        """Decide on a `GenerateGroundedContent` call that arrives now, and log it.

        Args:
            body: The serialized request.
            routing: Gives the call's `x-goog-request-params` header.
        """
        now = self._epoch + time.monotonic()
        request: Any = None
        turns: list[str] = []
        refusal: Refusal | None = None
        if self._reads_requests:
            try:
                request = Request.FromString(body)
                turns = user_turns(request)
            except DecodeError:
                refusal = refuse("INVALID_ARGUMENT", "The request is no GenerateGroundedContentRequest.")
            if self._answerer is not None and refusal is None:
                wrong = violations(request, routing())
                refusal = bad_request(wrong) if wrong else None
        if refusal is None:
            retry_seconds = self._limit.admit(now)
            if retry_seconds is not None:
                told = retry_seconds if self._options.retry_info else math.inf
                refusal = quota_exhausted(self._limit.per_minute, told)
        prompt = turns[-1] if turns else ""
        fault = self._faults.draw(prompt) if self._faults and refusal is None else None
        if self._log:
            self._log.write(
                t=now,
                method="GenerateGroundedContent",
                prompt=prompt,
                turn=len(turns),
                code=refusal.code if refusal else _logged_code(fault),
                fault=fault.name if fault else None,
            )
        if refusal is not None:
            return Reply(0.0, refusal)
        return self._taken(request, fault)

    def _taken(self, request: Any, fault: Fault | None) -> Reply:
        delay = self._options.latency.draw(self._latency_draws)
        if fault is not None:
            if fault.name in ERRORS:
                return Reply(delay, refuse(*ERRORS[fault.name]))
            if fault.name == "hang":
                return Reply(delay, "hang")
            if fault.name == "disconnect":
                return Reply(delay, "disconnect")
            if fault.name == "slow":
                delay = max(SLOW_FACTOR * delay, SLOW_AT_LEAST_SECONDS)
        if self._answerer is None:
            body = canned_answer()
        else:
            body = self._answerer.answer(request).SerializeToString(deterministic=True)
        if fault is not None and fault.name in BROKEN:
            body = break_response(fault.name, fault.variety, body)
        return Reply(delay, body)


def _answerer(options: EmulatorOptions) -> Answerer | None:
    if options.answers == "canned":
        return None
    # Not needed, and not paid for, by a canned emulator: ranking brings numpy with it.
    from pipeline.emulator.answers import Extractive
    from pipeline.emulator.corpus import BUNDLED, load_passages

    return Extractive(load_passages(options.corpus or BUNDLED))


def _logged_code(fault: Fault | None) -> str:
    if fault is None:
        return "OK"
    if fault.name in ERRORS:
        return ERRORS[fault.name][0]
    return fault.name.upper() if fault.name in ("hang", "disconnect") else "OK"
