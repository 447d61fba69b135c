"""Leases: of all processes that share a ledger, one asks a question."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from groundrows.transforms.generate.ledger.base import Leased, Ledger
from groundrows.transforms.generate.ledger.redis import RedisLedger
from groundrows.transforms.generate.ledger.uri import open_ledger
from tests.services.ledger.test_ledgers import an_entry

ENTRIES = [an_entry(number) for number in range(6)]
KEYS = [entry.key for entry in ENTRIES]
LONG = 60.0


@pytest.fixture
def lapse(uri: str, open_again: Callable[[], Ledger]) -> Callable[[str], None]:
    """Lets a holder's time pass."""

    def let_it_pass(holder: str) -> None:
        ledger = open_again()
        if isinstance(ledger, RedisLedger):
            assert ledger._redis.delete(f"groundrows:holder:{holder}") == 1
            return
        with closing(sqlite3.connect(uri.removeprefix("sqlite://"), isolation_level=None)) as db:
            db.execute("UPDATE holders SET alive_until = ? WHERE holder = ?", [time.time() - 1, holder])

    return let_it_pass


def test_what_one_holds_the_other_does_not_get(open_again: Callable[[], Ledger]) -> None:
    one, other = open_again(), open_again()
    assert one.lease("a/1", KEYS[:3], LONG) == Leased({}, frozenset())
    assert other.lease("b/1", KEYS[1:5], LONG) == Leased({}, frozenset(KEYS[1:3]))
    assert one.lease("a/1", KEYS, LONG) == Leased({}, frozenset(KEYS[3:5]))
    assert one.lease("a/1", [], LONG) == Leased({}, frozenset())


def test_what_is_answered_comes_with_its_entry_and_its_lease_is_over(
    open_again: Callable[[], Ledger],
) -> None:
    one, other = open_again(), open_again()
    one.lease("a/1", KEYS[:2], LONG)
    one.put_many(ENTRIES[:1])
    got = other.lease("b/1", KEYS[:3], LONG)
    assert got == Leased({KEYS[0]: ENTRIES[0]}, frozenset([KEYS[1]]))
    # Also for the one who asked it, and for one who has looked before it was answered.
    assert one.lease("a/1", KEYS[:1], LONG).stored == {KEYS[0]: ENTRIES[0]}


def test_others_get_what_is_let_go_of(open_again: Callable[[], Ledger]) -> None:
    one, other = open_again(), open_again()
    one.lease("a/1", KEYS, LONG)
    other.end_leases("b/1", KEYS)  # what is not its own stays
    one.end_leases("a/1", KEYS[:2])
    assert other.lease("b/1", KEYS, LONG).taken == set(KEYS[2:])
    one.end_leases("a/1")
    assert other.lease("b/1", KEYS, LONG).taken == set()
    one.end_leases("a/1", KEYS)
    assert one.lease("a/1", KEYS, LONG).taken == set(KEYS)


def test_leases_end_with_their_holder_s_time(
    open_again: Callable[[], Ledger], lapse: Callable[[str], None]
) -> None:
    one, other = open_again(), open_again()
    one.lease("a/1", KEYS[:2], LONG)
    assert one.renew("a/1", LONG)
    assert other.lease("b/1", KEYS[:2], LONG).taken == set(KEYS[:2])
    lapse("a/1")
    assert not one.renew("a/1", LONG)
    assert other.lease("b/1", KEYS[:1], LONG).taken == set()
    # Under its old name it is nobody; under a new one it is one of many.
    assert one.lease("a/2", KEYS[:2], LONG).taken == {KEYS[0]}


def test_a_holder_nobody_has_heard_of_is_not_alive(open_again: Callable[[], Ledger]) -> None:
    assert not open_again().renew("a/1", LONG)


def test_a_run_that_is_taken_up_again_waits_for_nothing_of_its_own(open_again: Callable[[], Ledger]) -> None:
    killed, other, again = open_again(), open_again(), open_again()
    killed.lease("a/1", KEYS[:2], LONG)
    other.lease("ab/1", KEYS[2:3], LONG)
    again.forget_claims("a")
    assert again.lease("a/2", KEYS[:3], LONG).taken == {KEYS[2]}
    assert not killed.renew("a/1", LONG)


def test_one_of_many_threads_gets_each(open_again: Callable[[], Ledger]) -> None:
    ledgers = [open_again(), open_again()]
    got: list[bytes] = []
    begin = threading.Barrier(8)

    def lease(thread: int) -> None:
        wanted = random.Random(thread).sample(KEYS, len(KEYS))
        begin.wait(10)
        leased = ledgers[thread % 2].lease(f"run/{thread}", wanted, LONG)
        got.extend(set(wanted) - leased.taken)

    threads = [threading.Thread(target=lease, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(KEYS)


def test_thousands_are_leased_at_once(open_again: Callable[[], Ledger]) -> None:
    one, other = open_again(), open_again()
    keys = [number.to_bytes(16, "big") for number in range(1300)]
    assert one.lease("a/1", keys, LONG).taken == set()
    assert other.lease("b/1", keys, LONG).taken == set(keys)
    one.end_leases("a/1", keys)
    assert other.lease("b/1", keys, LONG).taken == set()


def test_a_ledger_that_is_opened_forgets_what_the_dead_have_left(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(open_ledger(f"sqlite://{path}")) as ledger:
        ledger.lease("a/1", KEYS[:2], LONG)
        ledger.lease("b/1", KEYS[2:], -1.0)
    with (
        closing(open_ledger(f"sqlite://{path}")),
        closing(sqlite3.connect(path, isolation_level=None)) as db,
    ):
        assert sorted(bytes(key) for (key,) in db.execute("SELECT key FROM leases")) == sorted(KEYS[:2])
        assert db.execute("SELECT holder, run_id FROM holders").fetchall() == [("a/1", "a")]
