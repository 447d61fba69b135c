"""The schedule in Redis, on a real redis-server.

What is asserted of time is only ever that calls do not leave too early or too close together: a slow machine
makes them leave later, which is always allowed.
"""

import asyncio
import contextlib
import math
import socket
import threading
import time
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest
import redis

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.pacing.adaptive import KEPT, LONGEST_PAUSE_SECONDS, Learnt
from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS, JITTER_SECONDS
from groundrows.transforms.generate.pacing.redis import AHEAD_SECONDS, RedisPacer
from tests.support.services import free_port, redis_server

KEY = "groundrows:pace:quota"


def assert_never_over(times: Sequence[float], per_second: float) -> None:
    """No stretch of time, short or long, holds more calls than the schedule has places in it."""
    slack = per_second * (CATCH_UP_SECONDS + JITTER_SECONDS)
    least = math.inf
    for index, at in enumerate(sorted(times)):
        ahead = index - per_second * at
        least = min(least, ahead)
        assert ahead - least <= slack, f"{ahead - least:.1f} calls too many at call {index}"


async def take(pacer: RedisPacer, count: int) -> list[float]:
    times = []
    for _ in range(count):
        await pacer.acquire()
        times.append(time.monotonic())
    return times


def in_threads(*work: Coroutine[Any, Any, None]) -> None:
    threads = [threading.Thread(target=asyncio.run, args=[one]) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_checker_tells_a_burst_from_a_schedule() -> None:
    assert_never_over([index / 100 for index in range(300)], 100)
    with pytest.raises(AssertionError):
        assert_never_over([*(index / 100 for index in range(300)), *([1.5] * 60)], 100)


@pytest.mark.parametrize(("per_second", "each"), [(150.0, 90), (8.0, 6)])
def test_four_event_loops_share_one_rate(redis_uri: str, per_second: float, each: int) -> None:
    times: list[float] = []

    async def client() -> None:
        pacer = RedisPacer(redis_uri, "quota", per_second)
        times.extend(await take(pacer, each))
        await pacer.close()

    in_threads(client(), client(), client(), client())
    assert len(times) == 4 * each
    assert_never_over(times, per_second)


def test_quotas_of_different_names_do_not_share(redis_uri: str) -> None:
    async def run() -> None:
        one, other = RedisPacer(redis_uri, "one", 1000), RedisPacer(redis_uri, "other", 1000)
        await asyncio.gather(one.acquire(), other.acquire())
        await asyncio.gather(one.close(), other.close())

    asyncio.run(run())
    assert set(redis.Redis.from_url(redis_uri).keys()) == {b"groundrows:pace:one", b"groundrows:pace:other"}


def test_a_new_schedule_starts_later_than_any_lost_lease_could_reach(redis_uri: str) -> None:
    async def run() -> None:
        pacer = RedisPacer(redis_uri, "quota", 50)
        started = time.monotonic()
        await pacer.acquire()
        assert time.monotonic() - started >= AHEAD_SECONDS + 1 / 50
        await pacer.close()

    asyncio.run(run())


def test_a_schedule_of_another_server_starts_late_too(redis_uri: str) -> None:
    """As after a restart from a snapshot, which may be older than what was leased since."""

    async def run() -> None:
        pacer = RedisPacer(redis_uri, "quota", 50)
        await pacer.acquire()
        redis.Redis.from_url(redis_uri).hset(KEY, "server", "another")
        await pacer.close()
        pacer = RedisPacer(redis_uri, "quota", 50)
        started = time.monotonic()
        await pacer.acquire()
        assert time.monotonic() - started >= AHEAD_SECONDS + 1 / 50
        await pacer.close()

    asyncio.run(run())


def test_redis_going_away_pauses_calling_and_never_opens_the_gate() -> None:
    with redis_server() as server:
        port = server.port
        uri = f"redis://127.0.0.1:{port}/0"

        async def run() -> tuple[list[float], float, float]:
            times: list[float] = []
            arrived = asyncio.Event()
            pacers = [RedisPacer(uri, "quota", 100) for _ in range(2)]

            async def client(pacer: RedisPacer) -> None:
                while True:
                    times.extend(await take(pacer, 1))
                    arrived.set()

            async def enough(count: int) -> None:
                while len(times) < count:
                    arrived.clear()
                    await arrived.wait()

            clients = [asyncio.create_task(client(pacer)) for pacer in pacers]
            await enough(60)
            server.process.kill()
            server.process.wait()
            gone = time.monotonic()
            await asyncio.sleep(1.5)
            back = time.monotonic()
            restarted = await asyncio.to_thread(outage.enter_context, redis_server(port))
            assert restarted.port == port
            before = len(times)
            await enough(before + 60)
            for one in clients:
                one.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
            await asyncio.gather(*(pacer.close() for pacer in pacers))
            return times, gone, back

        with contextlib.ExitStack() as outage:
            times, gone, back = asyncio.run(run())
    # What was leased before may still be used, and nothing else.
    paused = [at for at in times if gone + AHEAD_SECONDS + CATCH_UP_SECONDS + JITTER_SECONDS < at < back]
    assert not paused
    assert_never_over(times, 100)


def test_unused_places_are_given_back(redis_uri: str) -> None:
    client = redis.Redis.from_url(redis_uri)

    async def run() -> None:
        pacer = RedisPacer(redis_uri, "quota", 20)
        await take(pacer, 4)  # blocks of 1, 2 and 4
        before = int(client.hget(KEY, "next"))  # type: ignore[arg-type]
        await pacer.close()
        given_back = before - int(client.hget(KEY, "next"))  # type: ignore[arg-type]
        assert abs(given_back - 3 * 50_000) <= 2  # three places, to the microseconds lost in rounding

    asyncio.run(run())


def test_places_are_not_given_back_once_others_follow_them(redis_uri: str) -> None:
    client = redis.Redis.from_url(redis_uri)

    async def run() -> None:
        first, second = RedisPacer(redis_uri, "quota", 20), RedisPacer(redis_uri, "quota", 20)
        await take(first, 4)
        await second.acquire()
        after_second = client.hget(KEY, "next")
        await first.close()
        assert client.hget(KEY, "next") == after_second
        await second.close()

    asyncio.run(run())


def test_a_refusal_slows_every_process_down(redis_uri: str) -> None:
    async def run() -> None:
        refused, other = RedisPacer(redis_uri, "quota", 100), RedisPacer(redis_uri, "quota", 100)
        await take(refused, 100)
        refuse(refused, 20)
        await refused.acquire()
        await other.acquire()
        times = await take(other, 80)
        # At the full rate 0.8 s, less the quarter that a pause may be caught up by.
        assert times[-1] - times[0] >= 1.0
        await asyncio.gather(refused.close(), other.close())

    asyncio.run(run())


def refuse(pacer: RedisPacer, count: int, retry_after: float | None = None) -> None:
    """So many refusals of calls that have just left."""
    for _ in range(count):
        pacer.throttled(time.monotonic(), retry_after)


def test_a_crowd_of_refusals_cuts_once(redis_uri: str) -> None:
    client = redis.Redis.from_url(redis_uri)

    async def run() -> None:
        first, second = RedisPacer(redis_uri, "quota", 50), RedisPacer(redis_uri, "quota", 50)
        await take(first, 10)
        sent_at = time.monotonic()
        refuse(first, 10)
        await first.acquire()
        cut = client.hmget(KEY, "knee", "cut_at")
        assert cut[0] is not None
        # Calls that left before the cut say nothing new, whoever made them; nor do those that left a moment
        # after it, perhaps by places that were leased at the old rate.
        for left in (sent_at, sent_at + AHEAD_SECONDS / 4):
            for _ in range(10):
                second.throttled(left, None)
            await second.acquire()
        assert client.hmget(KEY, "knee", "cut_at") == cut
        # Once the rate is back at the knee, it may be cut anew.
        client.hset(KEY, "cut_at", int(cut[1]) - 5_000_000)
        client.hset(KEY, "climbs_at", int(cut[1]) - 5_000_000)
        before = client.hmget(KEY, "knee", "cut_at")
        refuse(second, 10)
        await second.acquire()
        assert client.hmget(KEY, "knee", "cut_at") != before
        await asyncio.gather(first.close(), second.close())

    asyncio.run(run())


def test_a_refusal_among_many_answers_holds_nobody_up_in_any_process(redis_uri: str) -> None:
    client = redis.Redis.from_url(redis_uri)

    async def run() -> None:
        first, second = RedisPacer(redis_uri, "quota", 100), RedisPacer(redis_uri, "quota", 100)
        await take(first, 60)
        refuse(first, 1, 600.0)
        started = time.monotonic()
        await take(second, 5)
        await take(first, 5)
        assert time.monotonic() - started < 60
        assert client.hget(KEY, "knee") is None
        await asyncio.gather(first.close(), second.close())

    asyncio.run(run())


def test_the_wait_that_the_service_asks_for_is_kept_by_all(redis_uri: str) -> None:
    async def run() -> None:
        refused, other = RedisPacer(redis_uri, "quota", 100), RedisPacer(redis_uri, "quota", 100)
        await take(refused, 20)
        assert refused._block is not None  # it has leased places, which it must not use now
        refuse(refused, 20, 0.8)
        told = time.monotonic()
        await asyncio.gather(refused.acquire(), other.acquire())
        assert time.monotonic() - told >= 0.8
        # Another refusal still moves the schedule, past the places that were leased meanwhile.
        await take(other, 4)  # after a first block of 1, blocks of 2 and 4
        refuse(other, 20, 0.9)
        told = time.monotonic()
        await refused.close()
        await other.acquire()
        assert time.monotonic() - told >= 0.9
        await other.close()

    asyncio.run(run())


@pytest.mark.parametrize("kept", [KEPT, 0.5])
@pytest.mark.parametrize("elapsed", [0.0, 1.0, 2.0, 5.0, 8.0, 12.0, 30.0, 200.0])
def test_the_rate_climbs_as_in_one_process(redis_uri: str, elapsed: float, kept: float) -> None:
    client = redis.Redis.from_url(redis_uri)
    knee, ceiling = 40.0, 100.0
    alone = Learnt(knee=knee, kept=kept, cut_at=0.0, climbs_at=0.0)

    async def leased_rate() -> float:
        pacer = RedisPacer(redis_uri, "quota", ceiling)
        await pacer._call("lease", 1, 0)
        seconds, micros = client.time()  # type: ignore[misc]
        now = seconds * 1_000_000 + micros
        since = now - round(elapsed * 1_000_000)
        client.hset(KEY, mapping={"knee": knee, "kept": kept, "climbs_at": since, "next": now})
        granted, *_, interval, _ = await pacer._call("lease", 1, 0)
        await pacer.close()
        assert granted == 1
        return 1_000_000 / float(interval)

    assert asyncio.run(leased_rate()) == pytest.approx(alone.rate(elapsed, ceiling), rel=0.01)


def test_a_cancelled_wait_loses_nothing(redis_uri: str) -> None:
    async def run() -> None:
        pacer = RedisPacer(redis_uri, "quota", 50)
        times = []
        for attempt in range(200):
            # Cancelled in every state: before a lease, during it, between two places.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pacer.acquire(), 0.001 * (attempt % 30))
                times.append(time.monotonic())
        times += await take(pacer, 20)
        assert_never_over(times, 50)
        await pacer.close()

    asyncio.run(run())


def test_closing_while_a_call_waits_ends_at_once() -> None:
    async def run() -> None:
        pacer = RedisPacer(f"redis://127.0.0.1:{free_port()}/0", "quota", 50)
        waiting = asyncio.create_task(pacer.acquire())
        await asyncio.sleep(0.3)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.wait_for(pacer.close(), 5)

    asyncio.run(run())


def test_a_server_that_may_not_write_just_now_is_waited_for() -> None:
    with redis_server() as server, redis.Redis(port=server.port) as client:

        async def run() -> None:
            pacer = RedisPacer(f"redis://127.0.0.1:{server.port}/0", "quota", 100)
            await pacer.acquire()
            client.replicaof("127.0.0.1", str(free_port()))
            client.config_set("replica-serve-stale-data", "yes")
            await asyncio.sleep(AHEAD_SECONDS + CATCH_UP_SECONDS)
            waiting = asyncio.create_task(pacer.acquire())
            await asyncio.sleep(0.3)
            assert not waiting.done()
            client.replicaof("NO", "ONE")
            await waiting
            await pacer.close()

        asyncio.run(run())


def test_the_schedule_is_kept_for_minutes_and_then_forgotten(redis_uri: str) -> None:
    async def run() -> None:
        pacer = RedisPacer(redis_uri, "quota", 100)
        await pacer.acquire()
        client = redis.Redis.from_url(redis_uri)
        assert 120 <= int(client.ttl(KEY)) <= 900  # type: ignore[arg-type]
        before = int(client.ttl(KEY))  # type: ignore[arg-type]
        pacer.throttled(time.monotonic(), 3600.0)
        await asyncio.sleep(0.2)
        assert int(client.ttl(KEY)) >= before + LONGEST_PAUSE_SECONDS - 5  # type: ignore[arg-type]
        await pacer.close()

    asyncio.run(run())


def refuse_to_start(uri: str) -> str:
    async def run() -> None:
        pacer = RedisPacer(uri, "quota", 100)
        try:
            await pacer.acquire()
        finally:
            await pacer.close()

    with pytest.raises(SetupError) as refused:
        asyncio.run(asyncio.wait_for(run(), 10))
    return str(refused.value)


def test_a_wrong_password_is_said_once_and_never_shown() -> None:
    with redis_server(None, "--requirepass", "right") as server:
        for login in (":hunter2@", "somebody:hunter2@", ""):
            says = refuse_to_start(f"redis://{login}127.0.0.1:{server.port}/0")
            assert f"redis://127.0.0.1:{server.port}/0" in says
            assert "password" in says
            assert "hunter2" not in says


def test_what_is_no_redis_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.close()

        threading.Thread(target=answer, daemon=True).start()
        says = refuse_to_start(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
    assert "not a Redis server" in says


def test_somebody_elses_key_is_refused_and_left_alone(redis_uri: str) -> None:
    client = redis.Redis.from_url(redis_uri)
    client.set(KEY, "mine")
    assert "something else" in refuse_to_start(redis_uri)
    assert client.get(KEY) == b"mine"


def test_a_database_that_does_not_exist_is_refused(redis_uri: str) -> None:
    assert "DB index" in refuse_to_start(redis_uri.removesuffix("/0") + "/9999")


@pytest.mark.parametrize(
    "uri",
    [
        "redis://user:hun/ter2@127.0.0.1:6379/0",
        "redis://user:hun#ter2@127.0.0.1:6379/0",
        "redis://user:hunter2@127.0.0.1:port/0",
        "redis://user:hunter2@127.0.0.1:77777/0",
        "redis://user:hunter2@127.0.0.1:6379/first",
        "redis:///0",
        "redis://127.0.0.1:6379/0?colour=red",
    ],
)
def test_a_uri_that_cannot_be_read_is_refused_without_quoting_it(uri: str) -> None:
    with pytest.raises(SetupError) as refused:
        RedisPacer(uri, "quota", 100)
    assert "redis://[USER:PASSWORD@]HOST:PORT/DB" in str(refused.value)
    assert "ter2" not in str(refused.value)
