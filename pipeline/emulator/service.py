"""What becomes of a call, decided the moment it arrives and whatever transport it came by."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

from groundrows.pipeline.emulator.calllog import CallLog
from groundrows.pipeline.emulator.calls import Origin, Received, Reply
from groundrows.pipeline.emulator.faults import ERRORS, Fault, FaultMix
from groundrows.pipeline.emulator.limits import MinuteLimit, read_limits_file
from groundrows.pipeline.emulator.messages import user_turns
from groundrows.pipeline.emulator.options import EmulatorOptions
from groundrows.pipeline.emulator.replies import Answerer, Replies
from groundrows.pipeline.emulator.status import Refusal, bad_request, quota_exhausted
from groundrows.pipeline.emulator.validation import violations


class Service:
    """The emulated service: validation, quota, faults, latency, answers and the call log.

    A call that the service would not take (an invalid request) does not count against the quota; one that
    it takes does, also when a fault follows.

    Raises:
        ValueError: One sentence: a file named by the options is missing or wrong.
    """

    def __init__(self, options: EmulatorOptions) -> None:
        self._options = options
        answerer = _answerer(options)
        self._validates = answerer is not None
        self._replies = Replies(answerer, options.latency, options.seed)
        self._limit = MinuteLimit(options.requests_per_minute)
        self._check_limit = MinuteLimit(options.check_requests_per_minute)
        self._faults = FaultMix(options.faults, options.seed) if options.faults else None
        self._log = CallLog(options.call_log) if options.call_log else None
        # One clock for the log and the quota, so that the log itself shows that the quota was kept; it is
        # monotonic, so that a correction of the system's time cannot open or close the quota.
        self._epoch = time.time() - time.monotonic()
        # The canned answer is for measuring: it looks into a request only when something else asks for it.
        self._reads_requests = self._validates or bool(self._log or self._faults)
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

    def take(
        self, origin: Origin, read: Callable[[], Received | Refusal], routing: Callable[[], str | None] | None
    ) -> Reply:
        """Decide on a call that arrives now, and log it.

        Args:
            origin: What is called, and how.
            read: Gives the request, or a refusal when it cannot be read.
            routing: Gives the call's `x-goog-request-params` header; None where the path says it all.
        """
        now = self._epoch + time.monotonic()
        request = user_context = None
        prompt, turn = "", 0
        refusal: Refusal | None = None
        if self._reads_requests:
            received = read()
            if isinstance(received, Refusal):
                refusal = received
            else:
                request, user_context = received.request, received.user_context
                prompt, turn = _asked(origin, request)
                if self._validates:
                    wrong = violations(origin, request, routing() if routing else None)
                    refusal = bad_request(wrong) if wrong else None
        limit = self._check_limit if origin.method == "CheckGrounding" else self._limit
        if refusal is None:
            retry_seconds = limit.admit(now)
            if retry_seconds is not None:
                told = retry_seconds if self._options.retry_info else math.inf
                refusal = quota_exhausted(limit.per_minute, told)
        fault = self._faults.draw(prompt) if self._faults and refusal is None else None
        if self._log:
            self._log.write(
                t=now,
                origin=origin,
                prompt=prompt,
                turn=turn,
                code=refusal.code if refusal else _logged_code(fault),
                fault=fault.name if fault else None,
                user_context=user_context,
            )
        if refusal is not None:
            return Reply(0.0, refusal)
        return self._replies.reply(origin, request, fault)


def _asked(origin: Origin, request: Any) -> tuple[str, int]:
    if origin.method == "CheckGrounding":
        return request.answer_candidate, 0
    turns = user_turns(request)
    return turns[-1] if turns else "", len(turns)


def _answerer(options: EmulatorOptions) -> Answerer | None:
    if options.answers == "canned":
        return None
    # Not needed, and not paid for, by a canned emulator: ranking brings numpy with it.
    from groundrows.pipeline.emulator.answers import Extractive
    from groundrows.pipeline.emulator.corpus import BUNDLED, load_passages

    return Extractive(load_passages(options.corpus or BUNDLED))


def _logged_code(fault: Fault | None) -> str:
    if fault is None:
        return "OK"
    if fault.name in ERRORS:
        return ERRORS[fault.name][0]
    return fault.name.upper() if fault.name in ("hang", "disconnect") else "OK"
