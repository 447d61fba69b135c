"""An event loop whose clock moves only when everybody waits: minutes pass in milliseconds, the same every time."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Never waits: instead of waiting, it moves the clock on."""

    now = 1_000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everybody waits, and nobody for the clock")
            self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop of `run_virtually`."""


def run_virtually(main: Coroutine[Any, Any, T], monkeypatch: pytest.MonkeyPatch) -> T:
    """Run a coroutine on a loop of its own in virtual time, `time.monotonic` included."""
    selector = _Selector()
    loop = VirtualLoop(selector)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", lambda: selector.now)
        patch.setattr(time, "monotonic", lambda: selector.now)
        try:
            return loop.run_until_complete(main)
        finally:
            loop.close()
