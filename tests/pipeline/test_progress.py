"""What is shown while a run goes on."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline import progress
from pipeline.progress import CLEAR, Meter, Sight, duration, shown, sight
from tests.transforms.generate.support import HandClient, make_question, make_settings, response
from transforms.generate import shared
from transforms.generate.pacing.open import open_pacer
from transforms.generate.window import Basket


def seen(done: int, failed: int = 0, in_flight: int = 0, retrying: int = 0) -> Sight:
    return Sight(done, failed, in_flight, retrying)


def test_a_line() -> None:
    meter = Meter(100.0)
    assert meter.line(110.0, seen(1500, 2, 64), 10_000) == (
        "1,500/10,000 done · 2 failed · 64 in flight · 150.0/s · 57 s left"
    )
    assert meter.line(111.0, seen(1500, 2, 64, 3), 10_000) == (
        "1,500/10,000 done · 2 failed · 64 in flight · 3 waiting to retry · 136.4/s · 1 min 02 s left"
    )


def test_the_first_line_has_a_rate_already() -> None:
    assert "20.0/s" in Meter(0.0).line(0.5, seen(10), None)


def test_without_a_total_nothing_is_said_of_what_is_left() -> None:
    line = Meter(0.0).line(1.0, seen(5), None)
    assert line.startswith("5 done")
    assert "left" not in line


def test_while_nothing_is_done_nothing_is_said_of_what_is_left() -> None:
    assert Meter(0.0).line(1.0, seen(0), 10) == "0/10 done · 0 failed · 0 in flight · 0.0/s"
    assert "0.0/s" in Meter(5.0).line(5.0, seen(7), 10)  # no time has passed


@pytest.mark.parametrize("done", [10, 12])
def test_at_the_end_and_past_it_nothing_is_left(done: int) -> None:
    assert Meter(0.0).line(1.0, seen(done), 10).endswith(" · 0 s left")


def test_the_rate_is_that_of_the_last_moments() -> None:
    meter = Meter(0.0)
    for second in range(1, 61):
        meter.line(float(second), seen(second * 100), None)
    for second in range(61, 81):
        line = meter.line(float(second), seen(6000 + second - 60), None)
    assert "1.0/s" in line


def test_lines_far_apart_still_have_a_rate() -> None:
    meter = Meter(0.0)
    meter.line(1000.0, seen(10), None)
    assert "0.5/s" in meter.line(2000.0, seen(510), None)


def test_engines_that_are_gone_make_no_negative_rate() -> None:
    meter = Meter(0.0)
    meter.line(1.0, seen(100), 200)
    assert "0.0/s" in meter.line(2.0, seen(0), 200)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3599.6, "1 h 00 min"),
        (3661, "1 h 01 min"),
        (360_000, "100 h 00 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_can_be_seen_of_the_engines_of_this_process() -> None:
    assert sight() == seen(0)
    asked, go_on = threading.Event(), threading.Event()

    async def wait(prompt: str, nth: int) -> bytes:
        asked.set()
        while not go_on.is_set():
            await progress_of_loop()
        return response(prompt)

    async def progress_of_loop() -> None:
        import asyncio

        await asyncio.sleep(0.001)

    engine = shared.acquire(make_settings(), lambda _: HandClient(wait), open_pacer)
    try:
        basket = Basket()
        engine.submit([(0, make_question("Why?"))], basket)
        assert asked.wait(20)
        assert sight() == seen(0, in_flight=1)
        go_on.set()
        list(basket.drain())
        assert sight() == seen(1)
    finally:
        shared.release(engine)
    assert sight() == seen(0)


class Stream(io.StringIO):
    """A stream that says it is a terminal, or not, and when something was printed."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self.printed = threading.Semaphore(0)

    def isatty(self) -> bool:
        return self._terminal

    def flush(self) -> None:
        self.printed.release()

    def wait_for(self, lines: int) -> None:
        for _ in range(lines):
            assert self.printed.acquire(timeout=20)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TERMINAL_SECONDS", 0.005)
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.005)


@pytest.mark.usefixtures("quick")
def test_elsewhere_than_on_a_terminal_there_are_plain_lines_and_nothing_is_counted() -> None:
    counted = []
    stream = Stream(terminal=False)
    with shown(lambda: counted.append(1) or 5, stream):
        stream.wait_for(3)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 3
    assert set(lines) == {"0 done · 0 failed · 0 in flight · 0.0/s"}
    assert counted == []
    assert stream.getvalue().endswith("\n")


@pytest.mark.usefixtures("quick")
def test_on_a_terminal_one_line_is_rewritten_and_gone_at_the_end() -> None:
    stream = Stream(terminal=True)
    with shown(lambda: 7, stream):
        stream.wait_for(30)
    text = stream.getvalue()
    assert "\n" not in text
    first, *lines, last = text.split(CLEAR)
    assert (first, last) == ("", "")
    assert lines[-1] == "0/7 done · 0 failed · 0 in flight · 0.0/s"


@pytest.mark.usefixtures("quick")
def test_a_line_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Stream(terminal=True)
    with shown(lambda: 7, stream):
        stream.wait_for(3)
    assert max(map(len, stream.getvalue().split(CLEAR))) == 19


@pytest.mark.usefixtures("quick")
def test_a_run_shorter_than_the_first_line_shows_nothing() -> None:
    stream = Stream(terminal=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(progress, "LOG_SECONDS", 1000.0)
        with shown(lambda: 7, stream):
            pass
    assert stream.getvalue() == ""


@contextmanager
def no_thread_fails() -> Iterator[None]:
    """Fails when a thread ends with an exception, which Python would print as a traceback."""
    failures: list[object] = []
    before, threading.excepthook = threading.excepthook, failures.append
    try:
        yield
    finally:
        threading.excepthook = before
    assert failures == []


def cannot_count() -> int:
    raise OSError("the archive is gone")


@pytest.mark.usefixtures("quick")
def test_a_count_that_fails_is_a_total_that_is_not_known() -> None:
    stream = Stream(terminal=True)
    with no_thread_fails(), shown(cannot_count, stream):
        stream.wait_for(3)
    assert "0 done" in stream.getvalue()
    assert "left" not in stream.getvalue()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("terminal", [False, True])
def test_a_display_that_fails_does_not_end_the_run(terminal: bool) -> None:
    tried = threading.Event()

    class Gone(Stream):
        def write(self, text: str) -> int:
            tried.set()
            raise BrokenPipeError

    with no_thread_fails(), shown(lambda: 7, Gone(terminal)):
        assert tried.wait(20)


@pytest.mark.usefixtures("quick")
def test_a_sight_that_fails_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    def failing() -> Sight:
        tried.set()
        raise RuntimeError

    monkeypatch.setattr(progress, "sight", failing)
    with no_thread_fails(), shown(lambda: 7, Stream(terminal=False)):
        assert tried.wait(20)


@pytest.mark.usefixtures("quick")
def test_the_error_of_the_run_itself_passes_and_the_display_ends() -> None:
    before = threading.active_count()
    stream = Stream(terminal=False)
    with pytest.raises(KeyError), shown(lambda: 7, stream):
        raise KeyError(stream.wait_for(1))
    assert threading.active_count() == before


@pytest.mark.usefixtures("quick")
def test_a_real_terminal() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stream, shown(lambda: 3, stream):
        said = b""
        while b"/3 done" not in said:
            said += os.read(ours, 4096)
    os.close(ours)
