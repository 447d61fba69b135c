"""A service in virtual time that refuses calls, and the real gate, breaker and pacer in front of it."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.breaker import Breaker
from groundrows.transforms.generate.calling.gate import Gate, Slots
from groundrows.transforms.generate.pacing.base import Pacer

LATENCY = 0.8


@dataclass
class Service:
    """Refuses what is above a limit, and some calls at random.

    Attributes:
        per_minute: The limit, with a second's worth of burst; None for no limit.
        chances: By code, the share of calls that end in it at random; `HANG` ends after `deadline`.
        told: Whether a refusal says when to come back.
        told_at_random: What a refusal by chance says.
        log: When each call arrived and what it ended in, `OK` or a code.
    """

    per_minute: float | None = None
    chances: dict[str, float] = field(default_factory=dict)
    told: bool = False
    told_at_random: float | None = None
    deadline: float = 10.0
    seed: int = 1
    log: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._filled = 1.0
        self._filled_at = -math.inf

    async def call(self) -> None:
        now = time.monotonic()
        wait = self._over(now)
        if wait is not None:
            self.log.append((now, "RESOURCE_EXHAUSTED"))
            await asyncio.sleep(self._random.uniform(0.01, 0.1))
            raise CallError("RESOURCE_EXHAUSTED", "over", wait if self.told else None)
        code = self._drawn()
        self.log.append((now, code))
        if code == "OK":
            await asyncio.sleep(self._random.lognormvariate(math.log(LATENCY), 0.4))
        elif code == "HANG":
            await asyncio.sleep(self.deadline)
            raise CallError("DEADLINE_EXCEEDED", "late")
        else:
            await asyncio.sleep(self._random.uniform(0.01, 0.1))
            raise CallError(code, "by chance", self.told_at_random)

    def _over(self, now: float) -> float | None:
        if self.per_minute is None:
            return None
        rate = self.per_minute / 60
        self._filled = min(max(1.0, rate), self._filled + (now - self._filled_at) * rate)
        self._filled_at = now
        if self._filled >= 1:
            self._filled -= 1
            return None
        return (1 - self._filled) / rate

    def _drawn(self) -> str:
        left = self._random.random()
        for code, share in self.chances.items():
            if left < share:
                return code
            left -= share
        return "OK"

    def answered(self, since: float, until: float) -> float:
        """Answers a second, by when their calls arrived; seconds since the first call."""
        return self._rate(since, until, lambda code: code == "OK")

    def accepted(self, since: float, until: float) -> float:
        """Calls a second that were not refused for the quota."""
        return self._rate(since, until, lambda code: code != "RESOURCE_EXHAUSTED")

    def arrived(self, since: float, until: float) -> float:
        """Calls a second."""
        return self._rate(since, until, lambda code: True)

    def _rate(self, since: float, until: float, counts: Callable[[str], bool]) -> float:
        start = self.log[0][0]
        return sum(counts(code) for at, code in self.log if since <= at - start < until) / (until - since)


async def keep_asking(
    service: Service,
    pacer: Pacer,
    seconds: float,
    *,
    slots: int = 64,
    paced: bool = False,
    changes: dict[float, float] | None = None,
) -> Service:
    """Ask for so long, with always something left to ask, and retries as they come.

    Args:
        service: Whom to ask.
        pacer: The pacer.
        seconds: For how long.
        slots: Calls out at once.
        paced: Whether there is a limit from the start.
        changes: By second, the service's new limit per minute.
    """
    gate = Gate(Slots(slots), pacer, paced=paced, breaker=Breaker(time.monotonic))
    ends = time.monotonic() + seconds
    pending = deque(sorted((changes or {}).items()))

    async def change() -> None:
        started = time.monotonic()
        for at, per_minute in pending:
            await asyncio.sleep(started + at - time.monotonic())
            service.per_minute = per_minute

    async def ask() -> None:
        retry = False
        while time.monotonic() < ends:
            await gate.enter(retry=retry)
            sent_at = time.monotonic()
            try:
                await service.call()
                gate.answered()
                gate.leave()
                retry = False
            except CallError as error:
                gate.leave()
                gate.failed(error, sent_at)
                retry = True
                await asyncio.sleep(random.Random(sent_at).uniform(0, 1) + (error.retry_after or 0.0))

    changing = asyncio.create_task(change())
    # Twice the window, as the engine has it.
    asking = [asyncio.create_task(ask()) for _ in range(2 * slots)]
    await asyncio.sleep(seconds)
    for task in (changing, *asking):
        task.cancel()
    await asyncio.gather(changing, *asking, return_exceptions=True)
    await gate.close()
    return service
