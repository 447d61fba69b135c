"""What becomes of a call, decided the moment it arrives: the same for every API and transport."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from groundrows.pipeline.emulator.calllog import CallLog
from groundrows.pipeline.emulator.calls import (
    Ending,
    Origin,
    Received,
    Refusal,
    Reply,
    Violation,
    bad_request,
    day_quota_exhausted,
    quota_exhausted,
    refuse,
)
from groundrows.pipeline.emulator.discoveryengine.api import DiscoveryEngine
from groundrows.pipeline.emulator.faults import BROKEN, DAY_QUOTA, ERRORS, ODD, Fault, FaultMix
from groundrows.pipeline.emulator.gemini.api import Gemini
from groundrows.pipeline.emulator.options import EmulatorOptions
from groundrows.pipeline.emulator.pace import MinuteLimit, read_limits_file

if TYPE_CHECKING:
    from groundrows.pipeline.emulator.answering.retrieval import SentenceIndex

SLOW_FACTOR = 10
SLOW_AT_LEAST_SECONDS = 1.0  # so that a slow call is slow where the others take no time at all


class Api(Protocol):
    """What only an API's own folder knows: how its requests are read and its answers written."""

    def asked(self, origin: Any, request: Any) -> tuple[str, int]:
        """What the call log shows of a request: the prompt, and how many user turns it holds."""

    def violations(self, origin: Any, request: Any, routing: str | None) -> list[Violation]:
        """Everything wrong with a request."""

    def tokens(self, origin: Any, request: Any) -> int:
        """How many tokens the answer reports; 0 for an API that reports none."""

    def whole(self, origin: Any, request: Any) -> bytes:
        """The answer in one."""

    def parts(self, origin: Any, request: Any) -> tuple[bytes, ...]:
        """The answer in parts, at least one."""

    def broken(self, origin: Any, request: Any, name: str, variety: int) -> tuple[bytes, ...]:
        """The answer with a fault of `BROKEN` or `ODD`: in parts for a stream, else as the only part."""


class Service:
    """The emulated service: validation, quota, faults, latency, answers and the call log.

    A call that the service would not take (an invalid request) does not count against the quota; one that
    it takes does, also when a fault follows.

    Raises:
        ValueError: One sentence: a file named by the options is missing or wrong.
    """

    def __init__(self, options: EmulatorOptions) -> None:
        self._options = options
        corpus = _corpus(options)
        self._apis: Mapping[str, Api] = {
            "discoveryengine": DiscoveryEngine(options, corpus),
            "gemini": Gemini(options, corpus),
        }
        self._validates = corpus is not None
        self._latencies = Random(options.seed)
        self._limit = MinuteLimit(options.requests_per_minute)
        self._check_limit = MinuteLimit(options.check_requests_per_minute)
        self._token_limit = MinuteLimit(options.tokens_per_minute)
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
        api = self._apis[origin.api]
        request = user_context = None
        prompt, turn = "", 0
        refusal: Refusal | None = None
        if self._reads_requests:
            received = read()
            if isinstance(received, Refusal):
                refusal = received
            else:
                request, user_context = received.request, received.user_context
                prompt, turn = api.asked(origin, request)
                if self._validates:
                    wrong = api.violations(origin, request, routing() if routing else None)
                    refusal = bad_request(wrong) if wrong else None
        limit = self._check_limit if origin.is_check else self._limit
        if refusal is None:
            retry_seconds = limit.admit(now)
            if retry_seconds is not None:
                told = retry_seconds if self._options.retry_info else math.inf
                refusal = quota_exhausted(limit.per_minute, told)
        tokens = 0
        if refusal is None and (self._token_limit.per_minute is not None or self._log):
            tokens = api.tokens(origin, request)
            retry_seconds = self._token_limit.admit(now, tokens)
            if retry_seconds is not None:
                told = retry_seconds if self._options.retry_info else math.inf
                refusal = quota_exhausted(self._token_limit.per_minute, told, "tokens")
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
                tokens=tokens if refusal is None and _logged_code(fault) == "OK" else 0,
            )
        if refusal is not None:
            return Reply(0.0, refusal)
        return self._reply(api, origin, request, fault)

    def _reply(self, api: Api, origin: Origin, request: Any, fault: Fault | None) -> Reply:
        """Answer a call that was taken: in what time, and with what going wrong, if anything."""
        delay = self._options.latency.draw(self._latencies)
        if fault is not None and fault.name == "slow":
            delay = max(SLOW_FACTOR * delay, SLOW_AT_LEAST_SECONDS)
        if fault is None or fault.name == "slow":
            *before, last = api.parts(origin, request) if origin.streams else [api.whole(origin, request)]
            return Reply(delay, last, tuple(before))
        if fault.name in BROKEN or fault.name in ODD:
            *before, last = api.broken(origin, request, fault.name, fault.variety)
            return Reply(delay, last, tuple(before))
        told: tuple[bytes, ...] = ()
        if origin.streams:  # it may be some parts along by then
            parts = api.parts(origin, request)
            told = parts[: fault.variety % len(parts)]
        return Reply(delay, _ending(fault.name), told)


def _corpus(options: EmulatorOptions) -> SentenceIndex | None:
    """What extractive answers are looked up in; None for canned ones."""
    if options.answers == "canned":
        return None
    # Ranking brings numpy with it, which a canned emulator need not load.
    from groundrows.pipeline.emulator.answering.corpus import BUNDLED, load_passages
    from groundrows.pipeline.emulator.answering.retrieval import SentenceIndex

    return SentenceIndex(load_passages(options.corpus or BUNDLED))


def _ending(name: str) -> Refusal | Ending:
    if name == "hang":
        return "hang"
    if name == "disconnect":
        return "disconnect"
    if name == DAY_QUOTA:
        return day_quota_exhausted()
    return refuse(*ERRORS[name])


def _logged_code(fault: Fault | None) -> str:
    if fault is None:
        return "OK"
    if fault.name in ERRORS:
        return ERRORS[fault.name][0]
    if fault.name == DAY_QUOTA:
        return "RESOURCE_EXHAUSTED"
    return fault.name.upper() if fault.name in ("hang", "disconnect") else "OK"
