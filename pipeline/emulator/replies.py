"""How a call that was taken is answered: in what time, with which answer, and with what wrong about it."""

from __future__ import annotations

from random import Random
from typing import Any, Protocol

from groundrows.pipeline.emulator.broken import break_parts, break_response
from groundrows.pipeline.emulator.broken_check import break_check
from groundrows.pipeline.emulator.calls import Ending, Origin, Reply
from groundrows.pipeline.emulator.canned import canned_answer, canned_check, canned_stream
from groundrows.pipeline.emulator.faults import BROKEN, ERRORS, Fault
from groundrows.pipeline.emulator.grounding_check import check
from groundrows.pipeline.emulator.latency import Latency
from groundrows.pipeline.emulator.status import Refusal, refuse
from groundrows.pipeline.emulator.streaming import parts_of

SLOW_FACTOR = 10
SLOW_AT_LEAST_SECONDS = 1.0  # so that a slow call is slow where the others take no time at all


class Answerer(Protocol):
    """Turns a valid request for a grounded answer into a response message."""

    def answer(self, request: Any, *, wide: bool) -> Any:
        """Answer one request; `wide` allows what v1beta's responses hold and v1's do not."""


class Replies:
    """Makes the replies.

    Args:
        answerer: What answers; None for the canned answers, which look into no request.
        latency: How long a call takes.
        seed: Decides the latencies.
    """

    def __init__(self, answerer: Answerer | None, latency: Latency, seed: int) -> None:
        self._answerer = answerer
        self._latency = latency
        self._draws = Random(seed)

    def reply(self, origin: Origin, request: Any, fault: Fault | None) -> Reply:
        """Reply to a call that was taken.

        Args:
            origin: What was called.
            request: The request message; not looked at by canned answers.
            fault: What is to go wrong, if anything. A stream may be some parts along by then.
        """
        delay = self._latency.draw(self._draws)
        streams = origin.method == "StreamGenerateGroundedContent"
        if fault is None or fault.name == "slow":
            if fault is not None:
                delay = max(SLOW_FACTOR * delay, SLOW_AT_LEAST_SECONDS)
            if streams:
                return _told(delay, self._parts(origin, request))
            return Reply(delay, self._whole(origin, request))
        if fault.name in BROKEN:
            body = self._whole(origin, request)
            if streams:
                return _told(delay, break_parts(fault.name, fault.variety, body))
            breaking = break_check if origin.method == "CheckGrounding" else break_response
            return Reply(delay, breaking(fault.name, fault.variety, body))
        before: tuple[bytes, ...] = ()
        if streams:
            parts = self._parts(origin, request)
            before = parts[: fault.variety % len(parts)]
        return Reply(delay, _ending(fault.name), before)

    def _whole(self, origin: Origin, request: Any) -> bytes:
        """The serialized answer in one."""
        if self._answerer is None:
            return canned_check() if origin.method == "CheckGrounding" else canned_answer()
        body: bytes = self._message(origin, request, self._answerer).SerializeToString(deterministic=True)
        return body

    def _parts(self, origin: Origin, request: Any) -> tuple[bytes, ...]:
        """The serialized answer in parts."""
        if self._answerer is None:
            return canned_stream()
        parts = parts_of(self._message(origin, request, self._answerer))
        return tuple(part.SerializeToString(deterministic=True) for part in parts)

    def _message(self, origin: Origin, request: Any, answerer: Answerer) -> Any:
        if origin.method == "CheckGrounding":
            return check(request)
        return answerer.answer(request, wide=origin.version == "v1beta")


def _told(delay: float, parts: tuple[bytes, ...]) -> Reply:
    return Reply(delay, parts[-1], parts[:-1])


def _ending(name: str) -> Refusal | Ending:
    if name == "hang":
        return "hang"
    if name == "disconnect":
        return "disconnect"
    return refuse(*ERRORS[name])
