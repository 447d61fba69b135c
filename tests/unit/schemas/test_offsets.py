from __future__ import annotations

import tracemalloc

from hypothesis import example, given
from hypothesis import strategies as st

from groundrows.schemas.offsets import places_of


@given(
    st.text(st.sampled_from("aé水🙂\x00"), max_size=12),
    st.lists(st.integers(-3, 50) | st.sampled_from([2**31 - 1, -(2**31)]), max_size=30),
)
@example("é", [1])
@example("", [0, 1, -1])
def test_places_are_those_between_characters(text: str, offsets: list[int]) -> None:
    between = {len(text[:place].encode()): place for place in range(len(text) + 1)}
    assert places_of(text, offsets) == {offset: between[offset] for offset in offsets if offset in between}


def test_a_few_places_take_a_few_times_the_text_and_not_a_note_of_every_character() -> None:
    text = "é水" * 500_000  # five bytes each time
    tracemalloc.start()
    try:
        places = places_of(text, [5 * 499_999 + 2, 0, 5, 5 * 500_000])
        assert tracemalloc.get_traced_memory()[1] < 10 * 2_500_000
    finally:
        tracemalloc.stop()
    assert places == {0: 0, 5: 2, 5 * 499_999 + 2: 999_999, 5 * 500_000: 1_000_000}
