"""What a process may ask, by a clock and a ledger of the test's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from groundrows.schemas.errors import LedgerError
from groundrows.transforms.generate.calling.leases import LEASE_SECONDS, SURE_SECONDS, Hold, Leases
from groundrows.transforms.generate.ledger import sqlite
from groundrows.transforms.generate.ledger.base import Leased
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from tests.services.ledger.test_ledgers import an_entry


class Clock:
    """Both the machine's time and the processes'."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sqlite, "time", clock)
    return clock


@pytest.fixture
def process(tmp_path: Path, clock: Clock) -> Iterator[Callable[[str], Leases]]:
    with closing(SqliteLedger(str(tmp_path / "ledger"))) as ledger:
        yield lambda run_id: Leases(ledger, run_id, clock)


def hold(number: int) -> Hold:
    return Hold(an_entry(number).key)


def test_one_process_is_sure_and_the_other_is_not(process: Callable[[str], Leases]) -> None:
    one, other = process("a"), process("b")
    mine, theirs = hold(1), hold(1)
    assert not one.is_sure(mine)
    assert one.take([mine]) == other.take([theirs]) == {}
    assert (one.is_sure(mine), other.is_sure(theirs)) == (True, False)
    # It was not answered, and the ledger is to be told.
    assert one.has(mine)
    one.forget([mine])
    assert not one.has(mine)
    one.end([mine.key])
    other.take([theirs])
    assert other.is_sure(theirs)


def test_the_other_gets_the_answer(process: Callable[[str], Leases], tmp_path: Path) -> None:
    one, other = process("a"), process("b")
    one.take([hold(1)])
    with closing(SqliteLedger(str(tmp_path / "ledger"))) as ledger:
        ledger.put_many([an_entry(1)])
    theirs = hold(1)
    assert other.take([theirs]) == {theirs.key: an_entry(1)}
    assert not other.is_sure(theirs)


def test_who_stalls_trusts_its_leases_for_a_shorter_time_than_others_respect_them(
    process: Callable[[str], Leases], clock: Clock
) -> None:
    one, other = process("a"), process("b")
    mine, theirs = hold(1), hold(1)
    one.take([mine])
    clock.now += SURE_SECONDS
    assert not one.is_sure(mine)
    other.take([theirs])
    assert not other.is_sure(theirs)
    clock.now += LEASE_SECONDS - SURE_SECONDS
    other.take([theirs])
    assert other.is_sure(theirs)
    # The first one goes on, and finds that it is no longer its to ask, however often it looks.
    for _ in range(2):
        one.renew()
        one.take([mine])
        assert not one.is_sure(mine)
    assert other.is_sure(theirs)


def test_a_sign_of_life_in_time_keeps_everything(process: Callable[[str], Leases], clock: Clock) -> None:
    one, other = process("a"), process("b")
    mine, theirs = [hold(1), hold(2)], [hold(1), hold(2)]
    one.take(mine)
    for _ in range(5):
        clock.now += SURE_SECONDS - 1
        one.renew()
        assert all(map(one.is_sure, mine))
        other.take(theirs)
        assert not any(map(other.is_sure, theirs))


def test_a_sign_of_life_that_comes_too_late_changes_nothing(
    process: Callable[[str], Leases], clock: Clock
) -> None:
    one = process("a")
    mine = hold(1)
    one.take([mine])
    clock.now += LEASE_SECONDS + 1
    one.renew()
    assert not one.is_sure(mine)
    one.take([mine])
    assert one.is_sure(mine)


def test_who_is_stopped_between_its_look_and_the_ledger_is_not_sure(clock: Clock) -> None:
    class Stopped:
        """A ledger whose answer comes after a stop of the process, in which another may have asked."""

        def lease(self, holder: str, keys: object, seconds: float) -> Leased:
            clock.now += 60
            return Leased({}, frozenset())

    leases, mine = Leases(Stopped(), "a", clock), hold(1)  # type: ignore[arg-type]
    leases.take([mine])
    assert not leases.is_sure(mine)


def test_a_sign_of_life_that_was_stopped_on_its_way_proves_nothing(clock: Clock) -> None:
    class Stopped:
        def lease(self, holder: str, keys: object, seconds: float) -> Leased:
            return Leased({}, frozenset())

        def renew(self, holder: str, seconds: float) -> bool:
            clock.now += 60
            return True

    leases, mine = Leases(Stopped(), "a", clock), hold(1)  # type: ignore[arg-type]
    leases.take([mine])
    leases.renew()
    assert not leases.is_sure(mine)


def test_equal_ones_of_a_process_have_it_one_after_the_other(process: Callable[[str], Leases]) -> None:
    leases = process("a")
    first, second = hold(1), hold(1)
    leases.take([first, second])
    leases.take([second])
    assert (leases.is_sure(first), leases.is_sure(second)) == (True, False)
    assert not leases.has(second)
    assert leases.has(first)
    leases.forget([second])
    assert leases.has(first)
    leases.forget([first])
    assert not leases.has(first)
    leases.take([second])
    assert leases.is_sure(second)


def test_a_ledger_that_fails_leaves_nothing_held(clock: Clock) -> None:
    class Broken:
        def lease(self, *_: object) -> Leased:
            raise LedgerError("It is gone.")

    leases, mine = Leases(Broken(), "a", clock), hold(1)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(LedgerError):
            leases.take([mine])
        assert not leases.is_sure(mine)
    leases.renew()  # nothing is held, so nothing is said


def test_threads_share_a_process_s_leases(process: Callable[[str], Leases]) -> None:
    leases, begin = process("a"), threading.Barrier(4)
    holds = [[hold(number) for number in range(50)] for _ in range(4)]

    def take(mine: list[Hold]) -> None:
        begin.wait(10)
        leases.take(mine)

    threads = [threading.Thread(target=take, args=[mine]) for mine in holds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(50):
        assert [leases.is_sure(mine[number]) for mine in holds].count(True) == 1
