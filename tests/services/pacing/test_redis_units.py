"""A limit in tokens that several processes share through a real redis-server.

What is asserted of time is only ever that calls do not leave too early or too close together.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
import redis

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS, JITTER_SECONDS
from groundrows.transforms.generate.pacing.redis_units import AHEAD_SECONDS, RedisUnits
from tests.support.paths import ROOT
from tests.support.services import free_port, redis_server

PROCESSES = 4
QUESTIONS_EACH = 70
TOKENS_PER_MINUTE = 420_000
CANNED_TOKENS = 70
"""What the emulator's canned answer reports."""


def assert_never_over(taken: Iterable[tuple[float, int]], per_second: float, slack: float) -> None:
    """No stretch of time, short or long, holds more units than are filled in during it, but for the slack."""
    least, so_far = math.inf, 0
    for moment, units in sorted(taken):
        least = min(least, so_far - per_second * moment)
        so_far += units
        assert so_far - per_second * moment - least <= slack


ASK = """
import sys
from tests.support.engines import ask, engine_for, make_settings
from tests.support.gemini import AGENT, question_of
address, uri, name, limit, count = sys.argv[1:]
settings = make_settings(
    address, service="gemini", transport="rest", location=AGENT, tokens_per_minute=float(limit),
    rate_limiter=uri, max_in_flight=16,
)
questions = [
    question_of({"id": f"{name}{n}", "question": f"{name} {n}?"}, api_version="v1") for n in range(int(count))
]
with engine_for(settings) as engine:
    outcomes = ask(engine, questions)
print(sum(outcome.spent.total for outcome in outcomes))
"""


def test_four_processes_keep_one_limit_of_tokens_by_the_servers_own_log(
    redis_uri: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with running_emulator("--rest_port=0", "--answers=canned", f"--call_log={log}") as emulator:
        limit = (str(TOKENS_PER_MINUTE), str(QUESTIONS_EACH))
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", ASK, str(emulator.rest_address), redis_uri, name, *limit],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
            )
            for name in "abcd"[:PROCESSES]
        ]
        said = [int(process.communicate(timeout=200)[0]) for process in processes]
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    assert [call["code"] for call in calls] == ["OK"] * PROCESSES * QUESTIONS_EACH
    taken = [(call["t"], call["tokens"]) for call in calls]
    assert said == [QUESTIONS_EACH * CANNED_TOKENS] * PROCESSES
    per_second = TOKENS_PER_MINUTE / 60
    # Nothing was known of the answers before the first of them, and more was expected. A call leaves late where
    # processes wait for a core, and so does the next one less.
    slack = CATCH_UP_SECONDS + 2 * JITTER_SECONDS
    assert_never_over(taken, per_second, per_second * slack + CANNED_TOKENS)


def test_what_was_used_beyond_what_was_expected_is_waited_for_by_all(redis_uri: str) -> None:
    async def run() -> None:
        one, other = (RedisUnits(redis_uri, "quota", 60_000) for _ in range(2))
        await one.acquire(10)
        one.used(10, 1_510)
        assert one._telling is not None
        await one._telling
        asked = time.monotonic()
        await other.acquire(10)
        assert time.monotonic() - asked >= 1.5 - AHEAD_SECONDS / 2
        other.used(10, 10)
        await asyncio.gather(one.close(), other.close())

    asyncio.run(run())


def test_what_was_not_used_is_there_for_others(redis_uri: str) -> None:
    async def run() -> None:
        one, other = (RedisUnits(redis_uri, "quota", 600) for _ in range(2))
        await one.acquire(290)  # half a minute's worth
        one.used(290, 1)
        await asyncio.wait_for(other.acquire(1), 20)
        await asyncio.gather(one.close(), other.close())

    asyncio.run(run())


def test_a_new_bucket_starts_later_than_any_lost_booking_could_reach_and_does_not_stay(
    redis_uri: str,
) -> None:
    async def run() -> None:
        pacer = RedisUnits(redis_uri, "quota", 600)
        started = time.monotonic()
        await pacer.acquire(1)
        assert time.monotonic() - started >= AHEAD_SECONDS
        await pacer.close()

    asyncio.run(run())
    lives = redis.Redis.from_url(redis_uri).ttl("groundrows:pace:quota")
    assert 500 < int(lives) < 700  # type: ignore[arg-type]


def test_redis_going_away_pauses_calling_and_corrections_are_told_when_it_is_back() -> None:
    with redis_server() as server:

        async def run() -> None:
            pacer = RedisUnits(f"redis://127.0.0.1:{server.port}/0", "quota", 60_000)
            await pacer.acquire(1)
            server.process.kill()
            server.process.wait()
            pacer.used(1, 2_000)
            waiting = asyncio.create_task(pacer.acquire(1))
            done, _ = await asyncio.wait([waiting], timeout=0.5)
            assert not done
            with redis_server(server.port):
                await asyncio.wait_for(waiting, 30)
                await pacer.close()
                state = redis.Redis(port=server.port).hgetall("groundrows:pace:quota")
            assert pacer._untold == 0
            assert state  # both were told to the new server

        asyncio.run(run())


def test_what_is_no_redis_is_said_once(redis_uri: str) -> None:
    with pytest.raises(SetupError, match="--rate_limiter"):
        RedisUnits("redis://nowhere:port/0", "quota", 60)

    async def close_without_redis() -> None:
        pacer = RedisUnits(f"redis://127.0.0.1:{free_port()}/0", "quota", 60)
        pacer.used(1, 2)
        await pacer.close()

    asyncio.run(close_without_redis())
