"""What refusals do to the pace in Redis: the scenarios of the local pacer.

The schedule runs on a real redis-server. Time is virtual, for the client and, through a key, for the schedule.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import redis

from groundrows.transforms.generate.pacing import redis as module
from groundrows.transforms.generate.pacing.base import Pacer
from groundrows.transforms.generate.pacing.local import LocalPacer
from groundrows.transforms.generate.pacing.redis import RedisPacer
from tests.support.paced_service import Service, keep_asking
from tests.support.virtual_time import run_virtually

HIGH, LOW = 600, 200
SECONDS = 60.0
SEEDS = range(1, 9)
CLOCK = "clock-of-the-test"
_REAL_CLOCK = "local time = redis.call('TIME')"
_TEST_CLOCK = (
    f"local at = redis.call('GET', '{CLOCK}') local time = {{math.floor(at / 1000000), at % 1000000}}"
)


class Paced(RedisPacer):
    """Runs the schedule by the virtual clock; to talk to the server takes no time."""

    def __init__(self, uri: str, quota_name: str, per_second: float) -> None:
        super().__init__(uri, quota_name, per_second)
        assert _REAL_CLOCK in module._SCHEDULE
        self._server_itself: Any = redis.Redis.from_url(uri)
        self._by_our_clock = self._server_itself.register_script(
            module._SCHEDULE.replace(_REAL_CLOCK, _TEST_CLOCK)
        )

    async def _call(self, mode: str, *args: float | str) -> list[Any]:
        self._server_itself.set(CLOCK, round(time.monotonic() * 1_000_000))
        reply: list[Any] = self._by_our_clock(keys=[self._key], args=[mode, *self._settings, *args])
        return reply


class Deaf(Paced):
    """Hears of no refusal: what the throughput would be if refusals cost nothing but themselves."""

    def throttled(self, sent_at: float, retry_after: float | None) -> None:
        pass


async def ask(
    service: Service, pacers: Sequence[Pacer], seconds: float, changes: Mapping[float, float] | None = None
) -> Service:
    """Ask the service through several pacers, as so many processes would."""
    slots = 64 // len(pacers)
    asking = [
        keep_asking(service, pacer, seconds, slots=slots, paced=True, changes=dict(changes or {}))
        for pacer in pacers
    ]
    await asyncio.gather(*asking)
    return service


def by_redis(uri: str, kind: type[Paced] = Paced) -> list[Pacer]:
    """Two processes' worth of pacers, which share one schedule."""
    redis.Redis.from_url(uri).flushall()
    return [kind(uri, "quota", HIGH / 60) for _ in range(2)]


def by_one() -> list[Pacer]:
    return [LocalPacer(HIGH / 60, time.monotonic, asyncio.sleep)]


def answers(
    monkeypatch: pytest.MonkeyPatch, pacers: Callable[[], list[Pacer]], chances: dict[str, float]
) -> float:
    """Answers a second, on average over some seeds."""

    async def asked(seed: int) -> Service:
        return await ask(Service(chances=chances, seed=seed), pacers(), SECONDS)

    return sum(run_virtually(asked(seed), monkeypatch).answered(0, SECONDS) for seed in SEEDS) / len(SEEDS)


@pytest.mark.parametrize("share", [0.03, 0.1, 0.2])
def test_refusals_by_chance_cost_little_but_themselves(
    monkeypatch: pytest.MonkeyPatch, redis_uri: str, share: float
) -> None:
    without = answers(monkeypatch, lambda: by_redis(redis_uri, Deaf), {})
    with_them = answers(monkeypatch, lambda: by_redis(redis_uri), {"RESOURCE_EXHAUSTED": share})
    assert with_them >= 0.8 * (1 - share) * without


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_refusals_by_chance_cost_no_more_than_they_do_in_one_process(
    monkeypatch: pytest.MonkeyPatch, redis_uri: str, share: float
) -> None:
    chances = {"RESOURCE_EXHAUSTED": share}
    alone = answers(monkeypatch, by_one, chances)
    assert answers(monkeypatch, lambda: by_redis(redis_uri), chances) >= 0.9 * alone


@pytest.mark.parametrize("told", [False, True], ids=["bare", "told when"])
@pytest.mark.parametrize("share", [0.0, 0.05], ids=["alone", "with some by chance"])
def test_a_limit_that_changes_is_followed_and_used(
    monkeypatch: pytest.MonkeyPatch, redis_uri: str, told: bool, share: float
) -> None:
    service = Service(HIGH, {"UNAVAILABLE": share}, told=told)
    lowered, raised, end = 60.0, 160.0, 240.0

    async def asked() -> Service:
        return await ask(service, by_redis(redis_uri), end, {lowered: LOW, raised: HIGH})

    run_virtually(asked(), monkeypatch)
    assert service.accepted(10, lowered) >= 0.97 * HIGH / 60
    # More than in one process: places that were leased before a cut are used after it.
    assert service.arrived(lowered + 10, raised) <= 1.3 * LOW / 60
    assert service.accepted(lowered + 10, raised) >= 0.97 * LOW / 60
    assert service.accepted(raised + 10, end) >= 0.97 * HIGH / 60
