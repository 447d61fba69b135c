"""What is shown while a run goes on."""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from groundrows.pipeline.run import progress
from groundrows.pipeline.run.progress import Meter, Snapshot, shown, snapshot
from groundrows.transforms.counters import TALLY
from groundrows.transforms.generate.calling import shared
from groundrows.transforms.generate.calling.basket import Basket
from groundrows.transforms.generate.pacing.open import open_pacer
from tests.support.engines import HandClient, make_question, make_settings, response


def seen(done: int, failed: int = 0, in_flight: int = 0, retrying: int = 0) -> Snapshot:
    return Snapshot(done, failed, in_flight, retrying)


def test_a_line() -> None:
    meter = Meter(100.0)
    assert meter.line(110.0, seen(1500, 2, 64), 10_000) == (
        "1,500/10,000 done · 57 s left · 2 failed · 64 in flight · 150.0/s"
    )
    assert meter.line(111.0, seen(1500, 2, 64, 3), 10_000) == (
        "1,500/10,000 done · 1 min 02 s left · 2 failed · 64 in flight · 3 waiting to retry · 136.4/s"
    )


def test_a_line_of_a_run_with_a_limit_and_a_budget() -> None:
    meter = Meter(0.0)
    snapshots = Snapshot(30, 0, 8, 0, calls=40, throttled_seconds=0.9, limit=300.0, budget=1_000)
    assert meter.line(10.0, snapshots, None) == (
        "30 done · 0 failed · 8 in flight · 3.0/s · 240 of 300 calls/min · 40 of 1,000 calls spent"
    )
    throttled = Snapshot(60, 0, 8, 0, calls=90, throttled_seconds=61.2, limit=1_500.0, budget=1_000)
    assert "300 of 1,500 calls/min · 1 min 01 s throttled · 90 of 1,000" in meter.line(20.0, throttled, None)


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
    assert " · 0 s left · " in Meter(0.0).line(1.0, seen(done), 10)


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


def test_what_can_be_seen_of_the_engines_of_this_process() -> None:
    before = replace(TALLY)  # by other tests of this process
    assert snapshot(before) == seen(0)
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
        assert snapshot(before) == Snapshot(0, 0, 1, 0, calls=1)
        go_on.set()
        list(basket.drain())
        assert snapshot(before) == Snapshot(1, 0, 0, 0, calls=1)
    finally:
        shared.release(engine)
    assert snapshot(before) == seen(0)


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
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "TERMINAL_SECONDS", 0.005)
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.005)


@pytest.mark.usefixtures("quick")
def test_elsewhere_than_on_a_terminal_there_are_plain_lines() -> None:
    counted: list[int] = []
    stream = Stream(terminal=False)
    with shown(lambda: counted.append(1) or 5, stream):
        stream.wait_for(5)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 5
    assert set(lines[1:]) == {"0/5 done · 0 failed · 0 in flight · 0.0/s"}
    assert counted == [1]
    assert stream.getvalue().endswith("\n")


@pytest.mark.usefixtures("quick")
def test_a_terminal_that_can_draw_nothing_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Stream(terminal=True)
    with shown(lambda: 5, stream):
        stream.wait_for(3)
    assert stream.getvalue().splitlines()[-1] == "0/5 done · 0 failed · 0 in flight · 0.0/s"


@pytest.mark.usefixtures("quick")
def test_records_that_were_never_asked_are_done_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TALLY, "broken", 7)  # those of an earlier run do not count
    stream = Stream(terminal=False)
    with shown(lambda: 5, stream):
        stream.wait_for(2)
        monkeypatch.setattr(TALLY, "broken", 9)
        stream.wait_for(3)
    assert stream.getvalue().splitlines()[-1].startswith("2/5 done")
    assert "2 failed" in stream.getvalue()


def shown_on(terminal: str) -> list[str]:
    """What stands on a terminal of unlimited height after so much was written to it, line by line."""
    lines, row = [""], 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", terminal):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part.endswith("A") and part.startswith("\x1b"):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part and not part.startswith(("\x1b", "\r")):
            lines[row] += part
    return lines


@pytest.mark.usefixtures("quick")
def test_on_a_terminal_bar_and_line_are_redrawn_and_gone_at_the_end() -> None:
    stream = Stream(terminal=True)
    with shown(lambda: 7, stream):
        stream.wait_for(30)
        during = shown_on(stream.getvalue())
    assert any(line.startswith("0/7 done · 0 failed · 0 in flight · 0.0/s") for line in during)
    assert len(during) <= 4
    assert not "".join(shown_on(stream.getvalue())).strip()


@pytest.mark.usefixtures("quick")
def test_a_line_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Stream(terminal=True)
    with shown(lambda: 7, stream):
        stream.wait_for(3)
    written = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    lines = re.split(r"[\r\n]", written)
    assert max(map(len, lines)) <= 20
    # It goes on in the next, rather than lose its end.
    assert "0.0/s" in " ".join(line.strip() for line in lines)


@pytest.mark.usefixtures("quick")
def test_what_is_printed_meanwhile_stays_above(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal=True)
    monkeypatch.setattr("sys.stderr", stream)
    with shown(lambda: 7):
        stream.wait_for(10)
        print("a warning", file=sys.stderr)
        stream.wait_for(10)
    assert [line for line in shown_on(stream.getvalue()) if line.strip()] == ["a warning"]


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

    def failing(_: int) -> Snapshot:
        tried.set()
        raise RuntimeError

    monkeypatch.setattr(progress, "snapshot", failing)
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
