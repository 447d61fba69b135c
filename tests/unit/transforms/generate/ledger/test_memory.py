from hypothesis import given
from hypothesis import strategies as st

from groundrows.transforms.generate.ledger.memory import MemoryLedger
from tests.unit.transforms.generate.ledger.test_sqlite import an_entry


def test_no_response_is_kept():
    ledger = MemoryLedger()
    ledger.put_many([an_entry(1)])
    assert ledger.get_many([an_entry(1).key]) == {}
    assert list(ledger.entries()) == []
    assert ledger.summary() == []


def test_a_claim_of_another_origin_is_told_from_ones_own():
    ledger = MemoryLedger()
    assert ledger.claim("run", {b"k": "a"}) == {b"k": "a"}
    assert ledger.claim("run", {b"k": "a"}) == {b"k": "a"}
    assert ledger.claim("run", {b"k": "b"})[b"k"] != "b"
    assert ledger.claim("run", {b"k": ""}) != {b"k": "a"}


def test_a_budget_that_is_taken_over_starts_from_what_its_last_owner_may_have_taken():
    ledger = MemoryLedger()
    ledger.start_from("run/3", 7)
    assert ledger.reserved("run/3") == 7
    assert ledger.reserve("run/3", 10, 8) == 3
    # What is known here counts too: calls of a bundle that failed were made all the same.
    ledger.start_from("run/3", 2)
    assert ledger.reserved("run/3") == 10
    assert ledger.reserve("run/3", 10, 1) == 0
    assert ledger.reserve("run/4", 10, 1) == 1


@given(
    limit=st.integers(0, 30),
    steps=st.lists(st.tuples(st.sampled_from(["reserve", "back"]), st.integers(0, 12)), max_size=40),
)
def test_a_count_never_leaves_its_bounds(limit, steps):
    ledger = MemoryLedger()
    taken = 0
    for what, count in steps:
        if what == "reserve":
            granted = ledger.reserve("run", limit, count)
            assert granted == min(count, limit - taken)
            taken += granted
        else:
            ledger.give_back("run", count)
            taken = max(0, taken - count)
        assert ledger.reserved("run") == taken <= limit


def test_every_ledger_has_a_name_of_its_own():
    assert MemoryLedger().name != MemoryLedger().name
