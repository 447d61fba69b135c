"""What the whole test run shares: a Redis, and an end that names the services that were not found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.support.services import SERVICES, missed, redis_server, run_must_fail


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


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.OK and run_must_fail(missed()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
