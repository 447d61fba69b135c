"""Makes the attempts of a turn: calls the service, retries, and gives up."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from groundrows.schemas.codes import EMPTY_ANSWER, INTERNAL_ERROR, LEFT_TO_ANOTHER, NOT_ATTEMPTED
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.budget import Budget
from groundrows.transforms.generate.calling.fares import FREE, Expectations, Fare
from groundrows.transforms.generate.calling.gate import Gate, Halted
from groundrows.transforms.generate.calling.halt import Halt
from groundrows.transforms.generate.calling.retry import RetryPolicy
from groundrows.transforms.generate.calling.rights import Right
from groundrows.transforms.generate.calling.unit_budget import EMPTY_PURSE, Purse
from groundrows.transforms.generate.clients.base import Call, Client, Reply
from groundrows.transforms.generate.ledger.base import Entry

_LOGGER = logging.getLogger(__name__)
EMPTY_RETRIES = 2
"""The number of retries after empty answers. It is low, because each empty answer is paid for."""
_LEFT = "Another worker may have this question's message by now, so this worker did not ask it."
_SPENT = "The budget of --{flag} was spent before this question was asked."


@dataclass(frozen=True, slots=True)
class Success:
    """The response to a turn.

    Attributes:
        reply: The response.
        attempts: Number of attempts, including the successful one.
        latency_ms: Milliseconds of the successful attempt alone.
        asked_at: When that attempt started, in UTC.
        answered_at: When its response was complete, in UTC.
        retry_codes: The error codes of the attempts before it.
    """

    reply: Reply
    attempts: int
    latency_ms: float
    asked_at: datetime
    answered_at: datetime
    retry_codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A turn without a response.

    Attributes:
        error: The error of the last attempt, or the reason why there was none.
        retryable: Whether the question may succeed when it is asked again later.
        attempts: Number of attempts.
        retry_codes: The error codes of the attempts before the last one.
    """

    error: CallError
    retryable: bool
    attempts: int
    retry_codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """What the calls of one shard share: the gate that lets them out, and the budgets that count them.

    Attributes:
        gate: The gate.
        budget: The budget of calls, or None.
        purse: The budgets of tokens and searches, which all shards of the process share.
    """

    gate: Gate
    budget: Budget | None
    purse: Purse = EMPTY_PURSE


@dataclass(slots=True)
class Attempts:
    """Makes attempts. One instance serves every turn of the process.

    Attributes:
        client: The client that calls the service.
        policy: Says when to retry.
        halt: Decides when no call can succeed any more.
        halted: Set when calling has stopped.
        on_halt: Called once, when calling stops.
        deadline_seconds: The time after which an attempt is cancelled.
        count_probes: Whether refused probes count as attempts. A probe is a call that tests a service that
            answers nothing (see `breaker.py`). Probes need not count, because the policy also limits time.
        out: Number of calls in flight.
        made: Number of calls made so far.
        spent_flag: The flag of the budget that is spent; empty while none is.
        waiting_to_retry: Number of turns that wait for their next attempt.
    """

    client: Client
    policy: RetryPolicy
    halt: Halt
    halted: asyncio.Event
    on_halt: Callable[[], None]
    deadline_seconds: float
    count_probes: bool = False
    out: int = 0
    made: int = 0
    spent_flag: str = ""
    waiting_to_retry: int = 0

    async def ask(
        self,
        call: Call,
        line: Line,
        keep: Callable[[Success], Awaitable[None]],
        right: Right | None = None,
        fare: Fare | None = None,
    ) -> Success | GaveUp | Entry:
        """Call the service until there is a response or no attempt is left.

        An attempt is made only while no other process can ask the same turn. This is checked after the
        attempt has its slot, because waiting for the slot may take long.

        Args:
            call: The request.
            line: The gate and the budgets of the question's shard.
            keep: Stores the response. The call keeps its slot until this returns, so that at most
                `max_in_flight` responses are lost when the process is killed.
            right: The turn's lease; None when no other process can ask the turn.
            fare: Estimates what the turn's attempts will use, and records what they used. None when the
                service does not report it.

        Returns:
            The response; or why there is none; or the ledger's entry when another process got a response.
        """
        attempts = probes = 0
        codes: list[str] = []
        first_at = math.inf
        last: CallError | None = None
        fare = fare or Fare(Expectations())
        full = ""
        while True:
            try:
                if right is not None and not right.is_sure() and (stored := await right.regain()) is not None:
                    return stored
                if full:
                    await line.purse.room(full)
                cost = fare.expected()
                is_probe = await line.gate.enter(retry=attempts > 0, units=cost.tokens)
            except Halted:
                return self._cut_short(last, attempts, codes)
            took, full, is_booked = FREE, "", False
            try:
                if right is not None and not right.is_wanted():
                    return GaveUp(CallError(LEFT_TO_ANOTHER, _LEFT), True, attempts, tuple(codes[:-1]))
                if right is not None and not right.is_sure():
                    continue
                if time.monotonic() - first_at > self.policy.total_seconds:
                    return self._cut_short(last, attempts, codes)
                # Answers that came meanwhile may have taught better.
                line.gate.used(cost.tokens, (cost := fare.expected()).tokens)
                came, full = await line.purse.book(cost)
                if came == "full":
                    continue
                if came == "spent":
                    self._is_spent(line, full)
                    return self._cut_short(last, attempts, codes)
                is_booked = True
                if not await self._pay(line):
                    return self._cut_short(last, attempts, codes)
                attempts += 1
                sent_at = time.monotonic()
                first_at = min(first_at, sent_at)
                took = cost  # unless it is known better, as when this ends in the middle
                success = await self._attempt(call, attempts, tuple(codes), sent_at)
                took = fare.ended(cost, success.reply)
                line.gate.answered()
                await keep(success)
                return success
            except CallError as error:
                last = error
                took = fare.ended(cost, error)
            finally:
                line.gate.leave()
                line.gate.used(cost.tokens, took.tokens)
                if is_booked:
                    line.purse.settle(cost, took)
            line.gate.failed(last, sent_at)
            self._note(last)
            probes += is_probe and not self.count_probes
            wait = self.policy.wait_seconds(last, attempts - probes, time.monotonic() - first_at)
            if last.code == EMPTY_ANSWER and codes.count(EMPTY_ANSWER) >= EMPTY_RETRIES:
                wait = None
            if wait is None:
                return _gave_up(last, attempts, codes)
            codes.append(last.code)
            await self._wait(wait)

    def stop(self, reason: str) -> None:
        """Stop all calling, for a reason other than failed calls."""
        self.halt.stop(reason)
        self._announce_halt()

    async def _pay(self, line: Line) -> bool:
        if line.budget is None:
            return self.halt.reason is None
        if not await line.budget.take():
            self._is_spent(line, "max_requests")
            return False
        if self.halt.reason is not None:
            line.budget.put_back()
            return False
        return True

    def _is_spent(self, line: Line, flag: str) -> None:
        # The budget is spent for all waiting calls, so they need not wait for the rate limit first. Calls
        # that another process gives back later are not used.
        self.spent_flag = flag
        line.gate.halt()

    async def _attempt(self, call: Call, attempts: int, codes: tuple[str, ...], sent_at: float) -> Success:
        asked_at = datetime.now(UTC)
        self.made += 1
        self.out += 1
        try:
            reply = await self.client.ask(call, self.deadline_seconds)
        except CallError:
            raise
        except Exception as error:
            # An internal error ends one question only. Its message is not shown: it may contain the prompt.
            what = type(error).__name__
            _LOGGER.error("A call failed by an internal error: %s", what)
            raise CallError(
                INTERNAL_ERROR, f"an internal error while calling ({what}); please report it"
            ) from None
        finally:
            self.out -= 1
        latency = time.monotonic() - sent_at
        self.halt.succeeded()
        return Success(reply, attempts, latency * 1000, asked_at, datetime.now(UTC), codes)

    def _note(self, error: CallError) -> None:
        self.halt.failed(error)
        self._announce_halt()

    def _announce_halt(self) -> None:
        if self.halt.reason is not None and not self.halted.is_set():
            self.halted.set()
            self.on_halt()

    async def _wait(self, seconds: float) -> None:
        """Sleep until the time is over or calling stops."""
        self.waiting_to_retry += 1
        try:
            await asyncio.wait_for(self.halted.wait(), seconds)
        except TimeoutError:
            pass
        finally:
            self.waiting_to_retry -= 1

    def _cut_short(self, last: CallError | None, attempts: int, codes: list[str]) -> GaveUp:
        """End a turn that may make no further attempt. It fails with its last error, if it had one."""
        if last is None:
            why = self.halt.reason or _SPENT.format(flag=self.spent_flag or "max_requests")
            return GaveUp(CallError(NOT_ATTEMPTED, why), True, attempts, ())
        # The last code was noted as the cause of another attempt, which was never made.
        return _gave_up(last, attempts, codes[:-1])


def _gave_up(last: CallError, attempts: int, codes: list[str]) -> GaveUp:
    # After an internal error is fixed, the question may succeed.
    retryable = last.retryable or last.code == INTERNAL_ERROR
    return GaveUp(last, retryable, attempts, tuple(codes))
