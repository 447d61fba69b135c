import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.calling.commit import GroupCommit
from groundrows.transforms.generate.ledger.base import Entry
from tests.support.engines import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(number):
    return Entry(number.to_bytes(16, "big"), str(number), 0, "", b"", 1, 1.0, NOW, NOW)


class Store:
    """Keeps groups; waits for `go` before each write, and fails when told to."""

    def __init__(self, *, waits=False):
        self.groups = []
        self.go = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.fails = []
        self._waits = waits
        self._lock = threading.Lock()

    def write(self, entries):
        assert self._lock.acquire(blocking=False), "two writes at once"
        try:
            self.begun.release()
            if self._waits:
                assert self.go.acquire(timeout=10)
            if self.fails and (error := self.fails.pop(0)) is not None:
                raise error
            self.groups.append([int(entry.question_id) for entry in entries])
            return [None] * len(entries)
        finally:
            self._lock.release()


@pytest.fixture
def executor():
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def begun(store):
    await asyncio.to_thread(store.begun.acquire)


def test_what_arrives_during_a_write_is_written_together_by_the_next_and_in_order(executor):
    store = Store(waits=True)

    async def scenario():
        commit = GroupCommit(store.write, executor)
        first = asyncio.create_task(commit.put(entry(0)))
        await begun(store)
        others = [asyncio.create_task(commit.put(entry(number))) for number in range(1, 6)]
        await asyncio.sleep(0.02)
        assert not first.done()
        store.go.release()
        await first
        assert not any(other.done() for other in others)
        store.go.release()
        await asyncio.gather(*others)

    run(scenario())
    assert store.groups == [[0], [1, 2, 3, 4, 5]]


def test_an_error_reaches_everybody_in_its_group_and_nobody_else(executor):
    store = Store(waits=True)
    store.fails = [LedgerError("disk full"), None]

    async def scenario():
        commit = GroupCommit(store.write, executor)
        failing = [asyncio.create_task(commit.put(entry(number))) for number in range(3)]
        await begun(store)
        # These come while the write that will fail is under way.
        later = [asyncio.create_task(commit.put(entry(number))) for number in range(3, 6)]
        await asyncio.sleep(0.02)
        store.go.release()
        store.go.release()
        results = await asyncio.gather(*failing, *later, return_exceptions=True)
        assert [str(result) for result in results] == ["disk full"] * 3 + ["None"] * 3
        # And it goes on working.
        store.go.release()
        await commit.put(entry(6))

    run(scenario())
    assert store.groups == [[3, 4, 5], [6]]


def test_thousands_at_once_are_all_written_once_and_in_few_writes(executor):
    store = Store()

    async def scenario():
        commit = GroupCommit(store.write, executor)

        async def put(number):
            await asyncio.sleep(number % 7 / 1000)
            await commit.put(entry(number))
            assert any(number in group for group in store.groups)

        await asyncio.gather(*(put(number) for number in range(1_000)))

    run(scenario())
    written = [number for group in store.groups for number in group]
    assert sorted(written) == list(range(1_000))
    assert len(store.groups) < 500


def test_who_gives_up_waiting_loses_nothing_that_was_handed_in(executor):
    store = Store(waits=True)

    async def scenario():
        commit = GroupCommit(store.write, executor)
        tasks = [asyncio.create_task(commit.put(entry(number))) for number in range(2)]
        await begun(store)
        tasks.append(asyncio.create_task(commit.put(entry(2))))
        await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        store.go.release()
        store.go.release()
        await commit.flush()

    run(scenario())
    assert store.groups == [[0, 1], [2]]


def test_flushing_an_idle_commit_returns(executor):
    async def scenario():
        commit = GroupCommit(Store().write, executor)
        await commit.flush()
        await commit.put(entry(1))
        await commit.flush()

    run(scenario())
