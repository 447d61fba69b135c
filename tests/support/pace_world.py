"""A service that refuses calls, and a pacer in front of it, in virtual time: a minute takes milliseconds.

There is no event loop. The pacer's `acquire` is driven by hand: its sleep tells how long it wants to wait,
and the next event of the world comes first if it is earlier.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field

from groundrows.transforms.generate.pacing.base import Pacer

STARTED = 1_000.0


class Clock:
    """Seconds that pass only when the world says so."""

    def __init__(self) -> None:
        self.now = STARTED

    def __call__(self) -> float:
        """The time."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Tell whoever drives the coroutine for how long it wants to wait."""
        await _Wait(seconds)


class _Wait(Awaitable[None]):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        yield self._seconds


PacerOf = Callable[[Clock], Pacer]


@dataclass
class World:
    """What calls meet.

    Attributes:
        noise: The share of calls that is refused whatever our rate is.
        limits: By second since the start, the limit in calls a minute from then on; None for none.
        sliding: Whether the limit is on any sixty seconds; else it is a bucket that holds a second's worth.
        told: Whether a refusal for the limit says when to come back.
        told_by_chance: What a refusal by chance says, in seconds.
        errors: The share of calls that ends in another passing error.
        hangs: The share of calls that never answers and ends after ten seconds.
        in_flight: How many calls may be out at once.
        latency: The median of an answer's latency in seconds.
        refused_in: The shortest and the longest time until a refusal comes back, in seconds.
        seed: Of everything that is drawn.
    """

    noise: float = 0.0
    limits: Sequence[tuple[float, float | None]] = ((0.0, None),)
    sliding: bool = False
    told: bool = False
    told_by_chance: float | None = None
    errors: float = 0.0
    hangs: float = 0.0
    in_flight: int = 64
    latency: float = 0.8
    refused_in: tuple[float, float] = (0.01, 0.1)
    seed: int = 1
    calls: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._filled, self._filled_at = 1.0, -math.inf
        self._minute: deque[float] = deque()

    # -- figures, all by when calls arrived, in seconds since the start --

    def answered(self, since: float, until: float) -> float:
        """Answers a second."""
        return sum(since <= at < until and code == "OK" for at, code in self.calls) / (until - since)

    def accepted(self, since: float, until: float) -> float:
        """Calls a second that were not refused for the limit."""
        return sum(since <= at < until and code != "LIMIT" for at, code in self.calls) / (until - since)

    def arrived(self, since: float, until: float) -> float:
        """Calls a second."""
        return sum(since <= at < until for at, _ in self.calls) / (until - since)

    # -- the service --

    def outcome(self, now: float) -> tuple[str, float, float | None]:
        """What becomes of a call, after how many seconds, and what it says about coming back."""
        wait = self._over(now)
        quick = self._random.uniform(*self.refused_in)
        if wait is not None:
            return "LIMIT", quick, wait if self.told else None
        drawn = self._random.random()
        if drawn < self.noise:
            return "CHANCE", quick, self.told_by_chance
        if drawn < self.noise + self.errors:
            return "ERROR", quick, None
        if drawn < self.noise + self.errors + self.hangs:
            return "HANG", 10.0, None
        return "OK", self._random.lognormvariate(math.log(self.latency), 0.4), None

    def _over(self, now: float) -> float | None:
        limit = None
        for since, per_minute in self.limits:
            if now - STARTED >= since:
                limit = per_minute
        if limit is None:
            return None
        if not limit:
            return 60.0
        rate = limit / 60
        if self.sliding:
            while self._minute and self._minute[0] <= now - 60:
                self._minute.popleft()
            if len(self._minute) < limit:
                self._minute.append(now)
                return None
            return self._minute[len(self._minute) - int(limit)] + 60 - now
        self._filled = min(max(1.0, rate), self._filled + (now - self._filled_at) * rate)
        self._filled_at = now
        if self._filled >= 1:
            self._filled -= 1
            return None
        return (1 - self._filled) / rate

    def draw(self, low: float, high: float) -> float:
        """A number between two others."""
        return self._random.uniform(low, high)


def ask(
    world: World,
    pacer_of: PacerOf,
    seconds: float = math.inf,
    questions: float = math.inf,
) -> float:
    """Ask for so long, or so many questions; refused ones again, as soon as their turn comes.

    Returns:
        Seconds until the last answer came.
    """
    clock = Clock()
    pacer = pacer_of(clock)
    order = itertools.count()
    events: list[tuple[float, int, Callable[[], None]]] = []
    # Twice the window, as the engine has it: who waits to ask again is among them.
    backlog, free, left, answered = 2 * world.in_flight, world.in_flight, questions, 0
    waiting, finished_at = 0, STARTED

    def refill() -> None:
        nonlocal waiting, backlog, left
        new = int(min(backlog, left))
        backlog, left, waiting = backlog - new, left - new, waiting + new

    def at(moment: float, what: Callable[[], None]) -> None:
        heapq.heappush(events, (moment, next(order), what))

    def again() -> None:
        nonlocal waiting
        waiting += 1

    def ended(code: str, sent_at: float, told: float | None) -> None:
        nonlocal free, backlog, answered, finished_at
        free += 1
        if code == "OK":
            answered, backlog, finished_at = answered + 1, backlog + 1, clock.now
            refill()
            return
        if code in ("LIMIT", "CHANCE"):
            pacer.throttled(sent_at, told)
        at(clock.now + world.draw(0, 1) + (told or 0.0), again)

    def send() -> None:
        nonlocal free, waiting
        free, waiting = free - 1, waiting - 1
        sent_at = clock.now
        code, after, told = world.outcome(sent_at)
        world.calls.append((sent_at - STARTED, code))
        at(sent_at + after, lambda: ended(code, sent_at, told))

    refill()
    turn: Generator[float, None, None] | None = None
    wakes_at = math.inf
    while answered < questions and clock.now < STARTED + seconds:
        if turn is None and free and waiting:
            turn, wakes_at = pacer.acquire().__await__(), clock.now  # type: ignore[assignment]
        next_event = events[0][0] if events else math.inf
        if turn is not None and wakes_at <= next_event:
            clock.now = max(clock.now, wakes_at)
            try:
                wakes_at = clock.now + next(turn)
            except StopIteration:
                turn = None
                send()
            continue
        assert events, "everybody waits"
        moment, _, what = heapq.heappop(events)
        clock.now = max(clock.now, moment)
        what()
    return finished_at - STARTED
