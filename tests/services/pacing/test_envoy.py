"""Pacing by a rate limit service, on a real one that counts in a real Redis."""

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.pacing.envoy import EnvoyPacer
from tests.support.services import RateLimitService, envoy_ratelimit_server, free_port


@pytest.fixture
def redis_port(redis_uri: str) -> int:
    return int(redis_uri.rpartition(":")[2].partition("/")[0])


@pytest.fixture
def service(redis_port: int) -> Iterator[RateLimitService]:
    with envoy_ratelimit_server(redis_port, per_second=50, burst=5) as running:
        yield running


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam's client sleeps 10 s between attempts."""
    monkeypatch.setattr("apache_beam.io.components.rate_limiter._RPC_RETRY_DELAY_SECONDS", 0.05)
    monkeypatch.setattr("groundrows.transforms.generate.pacing.envoy.PAUSE_SECONDS", 0.05)


@pytest.fixture(autouse=True)
def no_thread_left(quick_retries: None) -> Iterator[None]:
    """A thread that outlives its test would log into the next one."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name == "groundrows-envoy":
            thread.join(20)
            assert not thread.is_alive()


async def take(pacer: EnvoyPacer, count: int) -> None:
    for _ in range(count):
        await pacer.acquire()


@pytest.mark.parametrize(
    ("rest", "domain", "descriptor"),
    [
        ("", "groundrows", {"quota": "grounded_generation"}),
        ("/", "groundrows", {"quota": "grounded_generation"}),
        ("/search", "search", {"quota": "grounded_generation"}),
        ("/search?team=a%20b&quota=q", "search", {"team": "a b", "quota": "q"}),
    ],
)
def test_the_uri_names_domain_and_descriptor(
    service: RateLimitService, rest: str, domain: str, descriptor: dict[str, str]
) -> None:
    async def run() -> None:
        pacer = EnvoyPacer(f"envoy://127.0.0.1:{service.port}{rest}", 1000)
        await pacer.acquire()
        await pacer.close()

    asyncio.run(run())
    assert service.asked == [(domain, [descriptor])]


def test_processes_share_the_service_s_limit(service: RateLimitService) -> None:
    async def run() -> float:
        pacers = [EnvoyPacer(f"envoy://127.0.0.1:{service.port}", 1000) for _ in range(3)]
        started = time.monotonic()
        await asyncio.gather(*(take(pacer, 25) for pacer in pacers))
        elapsed = time.monotonic() - started
        for pacer in pacers:
            await pacer.close()
        return elapsed

    assert asyncio.run(run()) >= (75 - 5) / 50


def test_its_own_rate_holds_where_the_service_allows_more(redis_port: int) -> None:
    with envoy_ratelimit_server(redis_port, per_second=1000, burst=1000) as service:

        async def run() -> float:
            pacer = EnvoyPacer(f"envoy://127.0.0.1:{service.port}", 40)
            started = time.monotonic()
            await take(pacer, 41)
            elapsed = time.monotonic() - started
            await pacer.close()
            return elapsed

        # A quarter of a second may be caught up after a pause.
        assert asyncio.run(run()) >= 0.75


def test_refusals_of_the_called_service_are_obeyed(service: RateLimitService) -> None:
    async def run() -> None:
        pacer = EnvoyPacer(f"envoy://127.0.0.1:{service.port}", 1000)
        await pacer.acquire()
        told = time.monotonic()
        pacer.throttled(told, 0.5)
        await pacer.acquire()
        assert time.monotonic() - told >= 0.5
        await pacer.close()

    asyncio.run(run())


def test_a_service_that_is_away_pauses_calling(redis_port: int, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()

    async def run() -> None:
        pacer = EnvoyPacer(f"envoy://127.0.0.1:{port}", 1000)
        waiting = asyncio.create_task(pacer.acquire())
        await asyncio.sleep(1.0)
        assert not waiting.done()
        with envoy_ratelimit_server(redis_port, per_second=100, port=port) as service:
            await waiting
            assert len(service.asked) == 1
        waiting = asyncio.create_task(pacer.acquire())
        await asyncio.sleep(0.5)
        assert not waiting.done()
        waiting.cancel()
        await pacer.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "unreachable: calling waits" in caplog.text


def test_a_closed_pacer_asks_a_service_that_is_away_no_more() -> None:
    before = set(threading.enumerate())

    async def run() -> None:
        pacer = EnvoyPacer(f"envoy://127.0.0.1:{free_port()}", 1000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pacer.acquire(), 0.2)
        await pacer.close()

    asyncio.run(run())
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive(), thread.name


def test_what_a_cancelled_wait_was_allowed_goes_to_the_next(service: RateLimitService) -> None:
    async def run() -> None:
        pacer = EnvoyPacer(f"envoy://127.0.0.1:{service.port}", 1000)
        for _ in range(10):
            waiting = asyncio.create_task(pacer.acquire())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await pacer.acquire()
        await pacer.close()

    asyncio.run(run())
    assert len(service.asked) == 1


def test_what_is_no_rate_limit_service_is_refused() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()

    async def run() -> None:
        pacer = EnvoyPacer(f"envoy://127.0.0.1:{port}", 1000)
        with pytest.raises(SetupError, match="not an Envoy rate limit service"):
            await pacer.acquire()
        await pacer.close()

    asyncio.run(run())
    server.stop(None).wait()


def test_the_wait_for_the_pace_is_no_warning(
    service: RateLimitService, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        pacer = EnvoyPacer(f"envoy://127.0.0.1:{service.port}", 1000)
        await take(pacer, 12)
        await pacer.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert not caplog.records


def test_a_process_ends_while_its_pacer_still_waits() -> None:
    program = f"""
import asyncio
from groundrows.transforms.generate.pacing.envoy import EnvoyPacer

async def main():
    pacer = EnvoyPacer("envoy://127.0.0.1:{free_port()}", 10)
    waiting = asyncio.create_task(pacer.acquire())
    await asyncio.sleep(0.5)
    waiting.cancel()
    await pacer.close()

asyncio.run(main())
"""
    # Left to itself, the client inside would sleep for 40 s.
    ended = subprocess.run([sys.executable, "-c", program], timeout=25, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()


@pytest.mark.parametrize(
    "uri",
    [
        "envoy://",
        "envoy://127.0.0.1",
        "envoy://127.0.0.1:port",
        "envoy://user:hunter2@127.0.0.1:8081",
        "envoy://127.0.0.1:8081/domain?novalue",
        "envoy://[::1",
    ],
)
def test_a_uri_that_cannot_be_read_is_refused(uri: str) -> None:
    with pytest.raises(SetupError) as refused:
        EnvoyPacer(uri, 1000)
    assert "envoy://HOST:PORT" in str(refused.value)
    assert "hunter2" not in str(refused.value)
