"""Which records a limit and a sample choose, by their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.sources.parts import Drawn, First, last_drawn


def drawn(seed: int, size: int, count: int, parts: tuple[int, ...] | None = None) -> list[int]:
    """The places drawn of `count` records, which are spread over archives of these sizes."""
    last = last_drawn(seed, size, count)
    found: list[int] = []
    before = 0
    for own in parts or (count,):
        found += Drawn(seed, before, last).of(iter(range(before, before + own)))
        before += own
    return found


def test_the_first_ones_and_nothing_behind_them() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2, 3)
        raise AssertionError("it was read too far")

    assert list(First(3).of(items())) == [1, 2, 3]
    assert list(First(5).of(iter([1, 2]))) == [1, 2]


@given(
    st.integers(0, 1_000_000_000),
    st.integers(1, 60),
    st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any),
)
def test_a_sample_is_of_its_size_in_order_and_the_same_each_time(
    seed: int, size: int, parts: list[int]
) -> None:
    count = sum(parts)
    found = drawn(seed, size, count, tuple(parts))
    assert len(found) == min(size, count)
    assert found == sorted(set(found))
    assert found == drawn(seed, size, count)


def test_a_larger_sample_holds_the_smaller_one() -> None:
    assert set(drawn(7, 20, 500)) < set(drawn(7, 100, 500)) < set(drawn(7, 400, 500))


def test_another_seed_draws_others() -> None:
    assert len({tuple(drawn(seed, 10, 200)) for seed in range(50)}) == 50


def test_every_record_is_drawn_as_often_as_any_other() -> None:
    often = Counter(place for seed in range(2_000) for place in drawn(seed, 10, 40))
    # 500 times each on average, with a standard deviation of 19.4.
    assert set(often) == set(range(40))
    assert min(often.values()) > 500 - 5 * 19.4
    assert max(often.values()) < 500 + 5 * 19.4


@pytest.mark.parametrize("size", [40, 41, 1_000_000_000])
def test_all_of_them(size: int) -> None:
    assert drawn(3, size, 40) == list(range(40))
