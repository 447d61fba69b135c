"""Schedules of faults, drawn by a seed and played to two programs that share a ledger, and what must hold after.

Two runs ask the same archive into directories of their own, or two workers pull from one subscription. While
they do, each is stopped for a while, cut off, killed or told to end, at moments that the seed draws, and is
started again. Each has an emulator of its own to call, whose log says what was in flight at a fault.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

from groundrows.pipeline.emulator.process import EmulatorProcess, running_emulator
from groundrows.pipeline.run import stopping
from tests.support import hurried
from tests.support.relay import Relay, relay_to
from tests.support.runs import rows, summary, write_lines
from tests.support.services import PubSub, Queue

COUNT = 160
IN_FLIGHT = 5
LATENCY = 0.15
# What a call may take beyond its latency on a machine that is busy.
SLACK_SECONDS = 0.5
SECONDS = 90.0

Programs = Literal["runs", "workers"]
Kind = Literal["stop", "kill", "end", "cut_ledger", "lock_ledger", "cut_pubsub"]


@dataclass(frozen=True)
class Fault:
    """One fault of one program.

    Attributes:
        after: Seconds from the end of the fault before it, or from the program's first call.
        kind: What happens: SIGSTOP, SIGKILL, SIGTERM, a network that is away, or a SQLite ledger that another
            program locks, which is a fault of both.
        seconds: How long it lasts. One that has ended is started again after that time.
    """

    after: float
    kind: Kind
    seconds: float


@dataclass(frozen=True)
class Schedule:
    """What happens to two programs.

    Attributes:
        name: What the schedule is called.
        programs: Two runs or two workers.
        ledger: The kind of ledger they share.
        faults: The faults of each program.
        count: Number of questions.
        per_minute: The limit that workers share.
    """

    name: str
    programs: Programs
    ledger: Literal["sqlite", "redis"]
    faults: tuple[tuple[Fault, ...], tuple[Fault, ...]]
    count: int = COUNT
    per_minute: int = 6_000


def drawn(programs: Programs, seed: int) -> Schedule:
    """The schedule of a seed: one to three faults of each program, some shorter than a lease, some longer."""
    chance = random.Random(f"{programs} {seed}")
    ledger: Literal["sqlite", "redis"] = "redis"
    kinds: list[Kind] = ["stop", "kill", "end", "cut_ledger", "cut_pubsub"]
    if programs == "runs":
        ledger = "sqlite" if seed % 2 else "redis"
        kinds[3:] = ["lock_ledger"] if ledger == "sqlite" else ["cut_ledger"]

    def fault() -> Fault:
        kind = chance.choice(kinds)
        longest = 13.0 if kind == "cut_pubsub" else 2.0 if kind in ("kill", "end") else 6.0
        return Fault(chance.uniform(0, 1.0), kind, chance.uniform(0, longest))

    first, second = (tuple(fault() for _ in range(chance.randint(1, 3))) for _ in range(2))
    return Schedule(f"{programs}-{seed}", programs, ledger, (first, second))


@dataclass
class Played:
    """What came of a schedule.

    Attributes:
        schedule: The schedule.
        happened: The faults that found their program at work.
        calls: Number of calls.
        paid_twice: Number of calls beyond the first for each question.
        in_flight: The most calls that may have been in flight at the faults, all together.
        problems: What does not hold, in words.
    """

    schedule: Schedule
    happened: list[str] = field(default_factory=list)
    calls: int = 0
    paid_twice: int = 0
    in_flight: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """One line."""
        says = f"{self.schedule.name}: {', '.join(self.happened)}: {self.calls} calls, {self.paid_twice} paid twice"
        return f"{says} of {self.in_flight} in flight{''.join(f'; {each}' for each in self.problems)}"


class _Log:
    """The calls of one schedule in an emulator's log, read as they come."""

    def __init__(self, path: Path, mark: str) -> None:
        self._path, self._mark, self._at, self._rest = path, mark, path.stat().st_size, b""
        self._lock = threading.Lock()
        self._calls: list[dict[str, Any]] = []

    def calls(self) -> list[dict[str, Any]]:
        with self._lock, self._path.open("rb") as file:
            file.seek(self._at)
            read = file.read()
            self._at += len(read)
            *lines, self._rest = (self._rest + read).split(b"\n")
            # The first piece may be the end of another schedule's line.
            self._calls += [json.loads(line) for line in lines if self._mark.encode() in line]
            return list(self._calls)


@dataclass
class _Program:
    """One of the two: started, troubled, and started again."""

    argv: list[str]
    environment: dict[str, str]
    output: Path
    log: _Log
    process: Any = None
    faults: list[tuple[float, float]] = field(default_factory=list)

    def start(self) -> None:
        said = str(self.output.with_suffix(".stderr"))
        # A fork of a process that has imported everything; what is imported is most of a short run.
        self.process = _FORKS.Process(
            target=hurried.run, args=(self.argv, self.environment, said), daemon=True
        )
        self.process.start()

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        """End it at once. One that should have ended says first what it is doing."""
        if self.process is None:
            return
        if not self.is_over:
            self.signal(signal.SIGUSR1)
            self.process.join(0.5)
            self.process.kill()
        self.process.join()

    @property
    def is_over(self) -> bool:
        return self.process.exitcode is not None

    @property
    def has_finished(self) -> bool:
        return (self.output / "run.json").exists()

    @property
    def had_not_begun(self) -> bool:
        """Whether it was told to end before it worked, so that it has nothing to say of itself."""
        code = self.process.exitcode
        return code == -signal.SIGTERM or (code == 1 and self.said().endswith(f"{stopping.SENTENCE}\n"))

    def said(self) -> str:
        path = self.output.with_suffix(".stderr")
        return path.read_text(errors="replace")[-9_000:] if path.exists() else ""

    def in_flight(self) -> int:
        """The most calls that may have been out at its faults, by its emulator's log."""
        moments = [call["t"] for call in self.log.calls()]
        return sum(
            min(IN_FLIGHT, sum(began <= moment <= until for moment in moments))
            for began, until in self.faults
        )


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.support.hurried"])


@dataclass
class World:
    """Where schedules are played, several at once if need be.

    Attributes:
        folder: For their files.
        redis_address: A Redis, where each schedule's programs share a ledger and a limiter.
        pubsub: The Pub/Sub emulator, where workers are to be played.
    """

    folder: Path
    redis_address: str
    pubsub: PubSub | None
    _emulators: Sequence[tuple[EmulatorProcess, Path]]
    _databases: Iterator[int] = field(default_factory=lambda: cycle(range(16)))

    def play(self, schedule: Schedule) -> Played:
        """Play a schedule to its end, and judge it."""
        played = Played(schedule)
        with ExitStack() as stack:
            scene = _Scene(self, schedule, stack)
            try:
                scene.play(played)
            except AssertionError as error:
                played.problems.append(str(error))
            finally:
                for program in scene.programs:
                    program.end()
            played.problems += [
                f"{each.output.name} said: {each.said()}" for each in scene.programs if played.problems
            ]
        return played

    def play_all(self, schedules: Sequence[Schedule], at_once: int = 4) -> Iterator[Played]:
        """Play schedules, several at a time; most of each is waiting."""
        with ThreadPoolExecutor(at_once) as pool:
            yield from pool.map(self.play, schedules)


@contextmanager
def world(folder: Path, redis_address: str, pubsub: PubSub | None = None) -> Iterator[World]:
    """Everything that schedules need, for as long as the block lasts."""
    with ExitStack() as stack:
        emulators = []
        for number in range(2):
            log = folder / f"calls-{number}.jsonl"
            flags = ["--port=0", "--answers=canned", f"--latency={LATENCY}", f"--call_log={log}"]
            emulators.append((stack.enter_context(running_emulator(*flags)), log))
        yield World(folder, redis_address, pubsub, emulators)


def address_of(redis_uri: str) -> str:
    """`HOST:PORT` of a Redis."""
    return redis_uri.removeprefix("redis://").partition("/")[0]


class _Scene:
    """One schedule's programs and what lies between them and their servers."""

    def __init__(self, world: World, schedule: Schedule, stack: ExitStack) -> None:
        self._schedule = schedule
        self._pubsub = world.pubsub
        self._database = next(world._databases)
        self._mark = f"In {schedule.name}, what is "
        self._folder = world.folder / schedule.name
        self._folder.mkdir()
        self._queue: Queue | None = None
        if schedule.programs == "workers":
            assert self._pubsub is not None
            self._queue = self._pubsub.new_queue(ack_deadline_seconds=10)
            self._pubsub.publish(self._queue, [json.dumps(each).encode() for each in self._records()])
        else:
            write_lines(self._folder / "archive.jsonl", self._records())
        self._ledger = self._folder / "ledger.sqlite"
        self._relays: list[dict[Kind, Relay]] = [{}, {}]
        self.programs = [self._program(world, number, stack) for number in range(2)]

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"id": f"q{number}", "question": f"{self._mark}{number}?"}
            for number in range(self._schedule.count)
        ]

    def _program(self, world: World, number: int, stack: ExitStack) -> _Program:
        emulator, log = world._emulators[number]
        output = self._folder / f"out-{number}"
        argv = [
            "run",
            "--service=emulator",
            f"--endpoint={emulator.address}",
            f"--output={output}",
            "--quiet",
        ]
        argv += [f"--max_in_flight={IN_FLIGHT}", "--batch_size=8"]
        environment: dict[str, str] = {}
        if self._schedule.ledger == "redis":
            relay = self._relays[number]["cut_ledger"] = stack.enter_context(relay_to(world.redis_address))
            argv += [f"--ledger=redis://{relay.address}/{self._database}"]
        else:
            argv += [f"--ledger=sqlite://{self._ledger}"]
        if self._queue is not None and self._pubsub is not None:
            relay = self._relays[number]["cut_pubsub"] = stack.enter_context(relay_to(self._pubsub.address))
            environment["PUBSUB_EMULATOR_HOST"] = relay.address
            argv += [f"--input_subscription={self._queue.subscription}"]
            argv += [
                f"--rate_limiter=redis://{world.redis_address}/{self._database}",
                f"--requests_per_minute={self._schedule.per_minute}",
            ]
        else:
            argv += [f"--input={self._folder / 'archive.jsonl'}"]
        return _Program(argv, environment, output, _Log(log, self._mark))

    def play(self, played: Played) -> None:
        for program in self.programs:
            program.start()
        with ThreadPoolExecutor(2) as pool:
            for happened in pool.map(self._trouble, range(2)):
                played.happened += happened
        if self._queue is None:
            for program in self.programs:
                _finish(program)
        else:
            self._work_off()
        self._judge(played)

    def _trouble(self, number: int) -> list[str]:
        """Play a program's faults; returns those that found it at work."""
        program = self.programs[number]
        _until(lambda: program.log.calls() or program.is_over, "a first call")
        happened = []
        for fault in self._schedule.faults[number]:
            time.sleep(fault.after)
            if program.is_over:
                break
            happened.append(f"{number} {fault.kind} {fault.seconds:.1f} s")
            self._apply(number, fault)
            if program.is_over and not program.has_finished:
                program.start()
        return happened

    def _apply(self, number: int, fault: Fault) -> None:
        program = self.programs[number]
        began = time.time() - LATENCY - SLACK_SECONDS
        # Who is cut off from the ledger goes on for as long as its leases are good.
        goes_on = hurried.SURE_SECONDS if fault.kind in ("cut_ledger", "lock_ledger") else 0.0
        # One that is told to end waits for its calls, and others respect its leases while it only lacks Pub/Sub.
        pays = {"end": [], "cut_pubsub": [], "lock_ledger": self.programs}.get(fault.kind, [program])
        for each in pays:
            each.faults.append((began, time.time() + goes_on + SLACK_SECONDS))
        match fault.kind:
            case "stop":
                program.signal(signal.SIGSTOP)
                time.sleep(fault.seconds)
                program.signal(signal.SIGCONT)
            case "kill" | "end":
                program.signal(signal.SIGKILL if fault.kind == "kill" else signal.SIGTERM)
                program.process.join(SECONDS)
                assert program.is_over, "it does not end when it is told to"
                time.sleep(fault.seconds)
            case "lock_ledger":
                with closing(sqlite3.connect(self._ledger, isolation_level=None, timeout=SECONDS)) as locked:
                    locked.execute("BEGIN IMMEDIATE")
                    time.sleep(fault.seconds)
            case "cut_ledger" | "cut_pubsub":
                relay = self._relays[number][fault.kind]
                relay.passing.clear()
                time.sleep(fault.seconds)
                relay.passing.set()

    def _work_off(self) -> None:
        """Let the workers go on until every question is answered, then tell them to end."""

        def is_answered() -> bool:
            for program in self.programs:
                if program.is_over:  # by itself, as it does when its ledger stays away
                    program.start()
            return len(set(self._answered())) == self._schedule.count

        _until(is_answered, "an answer to every question")
        for program in self.programs:
            program.signal(signal.SIGTERM)
        for program in self.programs:
            program.process.join(SECONDS)
            assert program.is_over, f"{program.output.name} does not end when it is told to"
            code = program.process.exitcode
            assert code == 0 or program.had_not_begun, f"{program.output.name} ended with {code}"

    def _answered(self) -> list[str]:
        return [row["question_id"] for each in self.programs for row in rows(each.output, "answers")]

    def _judge(self, played: Played) -> None:
        asked = Counter(call["prompt"] for each in self.programs for call in each.log.calls())
        played.calls = sum(asked.values())
        played.paid_twice = played.calls - len(asked)
        played.in_flight = sum(each.in_flight() for each in self.programs)
        if played.paid_twice > played.in_flight:
            played.problems.append("more was paid twice than was in flight")
        if set(asked) != {record["question"] for record in self._records()}:
            played.problems.append("something was never asked")
        wanted = sorted(record["id"] for record in self._records())
        for program in self.programs:
            if program.process.exitcode != 0:
                continue
            said = summary(program.output)
            if not said["balanced"] or said["failed"]:
                played.problems.append(f"{program.output.name} does not balance, or something failed")
            if self._queue is None and sorted(self._ids(program)) != wanted:
                played.problems.append(f"{program.output.name} does not hold each answer once")

    def _ids(self, program: _Program) -> list[str]:
        return [row["question_id"] for row in rows(program.output, "answers")]


def _finish(program: _Program) -> None:
    """Let a run end, giving its command again where it says so."""
    for _ in range(4):
        program.process.join(SECONDS)
        assert program.is_over, "it does not end"
        if program.has_finished:
            assert program.process.exitcode == 0, (
                f"{program.output.name} ended with {program.process.exitcode}"
            )
            return
        program.start()
    raise AssertionError(f"{program.output.name} does not finish, however often its command is given")


def _until(what: Callable[[], Any], name: str) -> None:
    limit = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < limit, f"{name} never came"
        time.sleep(0.05)
