"""What unit tests may not do: start a process, use a service, or sleep. Such tests are for tests/services."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing.process
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.virtual_time import VirtualLoop

HERE = Path(__file__).parent
LONGEST_SLEEP = 0.05
"""In seconds. A test that waits for something waits for an event, or in virtual time."""
PROCESSES = (
    (subprocess.Popen, "__init__"),
    (multiprocessing.process.BaseProcess, "start"),
    (os, "fork"),
    (os, "posix_spawn"),
)
WHAT = pytest.StashKey[list[str]]()
"""What the test did that it may not do."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch a test from its first fixture, which may be that of the whole module, to its last."""
    if not item.path.is_relative_to(HERE):  # this hook is called for the tests of every directory
        return (yield)
    done = item.stash[WHAT] = []
    with pytest.MonkeyPatch.context() as patch:
        for where, name in PROCESSES:
            patch.setattr(where, name, _refusal(done))
        patch.setattr(time, "sleep", _watched_sleep(done, time.sleep))
        patch.setattr(asyncio, "sleep", _watched_asyncio_sleep(done, asyncio.sleep))
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test, also where the code that it tests swallowed the error."""
    yield
    done = item.stash[WHAT]
    assert not done, f"{item.name} is no unit test: it {done[0]}"


def _refusal(done: list[str]) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        done.append("starts a process")
        raise AssertionError("a unit test starts no process")

    return refuse


def _watched_sleep(done: list[str], sleep: Callable[[float], None]) -> Callable[[float], None]:
    def watched(seconds: float) -> None:
        if seconds > LONGEST_SLEEP:
            done.append(f"sleeps for {seconds:g} s")
        sleep(seconds)

    return watched


def _watched_asyncio_sleep(done: list[str], sleep: Callable[..., Any]) -> Callable[..., Any]:
    async def watched(delay: float, result: Any = None) -> Any:
        caller = inspect.currentframe().f_back  # type: ignore[union-attr]
        # A task of the program's that wakes now and then is not waited for.
        own = caller is None or not caller.f_globals["__name__"].startswith("groundrows.")
        if own and delay > LONGEST_SLEEP and not isinstance(asyncio.get_running_loop(), VirtualLoop):
            done.append(f"sleeps for {delay:g} s")
        return await sleep(delay, result)

    return watched


@pytest.fixture
def redis_uri() -> NoReturn:
    """A unit test has no Redis."""
    pytest.fail("a test that needs Redis belongs in tests/services")


@pytest.fixture
def pubsub() -> NoReturn:
    """A unit test has no Pub/Sub."""
    pytest.fail("a test that needs Pub/Sub belongs in tests/services")
