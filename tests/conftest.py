"""What the whole test run shares: its servers, its signals, and an end that names the services not found."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import settings

from tests.support.services import (
    SERVICES,
    PubSub,
    miss,
    missed,
    pubsub_emulator,
    redis_server,
    run_must_fail,
)

# How many examples a property is tried with, unless its test says otherwise. It is half of Hypothesis's default, to
# keep `make check` short.
settings.register_profile("groundrows", max_examples=50)
settings.load_profile("groundrows")


def pytest_configure() -> None:
    """Give the processes that tests start the usual signals, whichever shell started the tests.

    A shell starts `nohup pytest &` with signals ignored, and a process hands that down to those it starts. A
    signal that has a handler is reset for them instead, and still does nothing to the tests themselves.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _go_on)


def _go_on(number: int, frame: object) -> None:
    pass


@pytest.fixture(scope="session")
def _redis_port() -> Iterator[int]:
    with redis_server() as server:
        yield server.port


@pytest.fixture
def redis_uri(_redis_port: int) -> str:
    """An empty Redis that the whole run shares; tests that stop theirs start one of their own."""
    with redis.Redis(port=_redis_port) as client:
        client.flushall()
    return f"redis://127.0.0.1:{_redis_port}/0"


@pytest.fixture(scope="session")
def pubsub() -> Iterator[PubSub]:
    """A Pub/Sub emulator that the whole run shares; each test takes queues of its own."""
    with pubsub_emulator() as emulator:
        yield emulator


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    names = missed()
    if not names:
        return
    fails = run_must_fail(names)
    terminalreporter.section("missing services", red=fails, yellow=not fails)
    for name in names:
        terminalreporter.write_line(f"Tests were left out for want of {name}. To install it:")
        terminalreporter.write_line(f"    {SERVICES[name].install}")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Compressed bytes hold the time or chance; the processes of a run in parallel must name a test alike."""
    if isinstance(val, bytes) and not (val.isascii() and val.decode().isprintable()):
        return argname
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Learn, in a run in parallel, what each of its processes missed."""
    for name in getattr(node, "workeroutput", {}).get("missed", ()):
        miss(name)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["missed"] = missed()
    elif exitstatus == pytest.ExitCode.OK and run_must_fail(missed()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
