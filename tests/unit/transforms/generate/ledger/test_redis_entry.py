"""Entries as one value: round trips, and every way of being damaged is told."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.transforms.generate.ledger.base import Entry
from groundrows.transforms.generate.ledger.redis_entry import pack_entry, summary_of, unpack_entry

moments = st.datetimes(timezones=st.just(UTC))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
any_entry = st.builds(
    Entry,
    key=st.binary(min_size=16, max_size=16),
    question_id=texts,
    turn_index=st.integers(0, 2**32 - 1),
    model_id=texts,
    response=st.binary(max_size=300),
    attempts=st.integers(0, 2**32 - 1),
    latency_ms=st.floats(allow_nan=False),
    asked_at=moments,
    answered_at=moments,
    first_part_ms=st.none() | st.floats(allow_nan=False),
    unread_json=st.none() | texts,
)
AN_ENTRY = Entry(
    key=bytes(16),
    question_id="question",
    turn_index=1,
    model_id="gemini",
    response=b"a response" * 10,
    attempts=2,
    latency_ms=3.5,
    asked_at=datetime(2026, 1, 1, tzinfo=UTC),
    answered_at=datetime(2026, 1, 2, tzinfo=UTC),
)

WITH_MORE = replace(AN_ENTRY, first_part_ms=1.25, unread_json='{"novelty": 1}')


@given(any_entry)
def test_every_entry_survives(entry: Entry) -> None:
    assert unpack_entry(entry.key, pack_entry(entry)) == entry


@pytest.mark.parametrize("entry", [AN_ENTRY, WITH_MORE], ids=["plain", "with more"])
def test_a_shortened_value_is_refused(entry: Entry) -> None:
    value = pack_entry(entry)
    for length in range(len(value)):
        with pytest.raises(ValueError, match="the value is"):
            unpack_entry(entry.key, value[:length])


def test_an_entry_with_nothing_more_to_it_is_as_earlier_versions_read_it() -> None:
    assert pack_entry(AN_ENTRY).startswith(b"GRe1")
    assert pack_entry(WITH_MORE).startswith(b"GRe2")
    assert pack_entry(replace(AN_ENTRY, first_part_ms=0.0)).startswith(b"GRe2")
    assert pack_entry(replace(AN_ENTRY, unread_json="")).startswith(b"GRe2")


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(value: bytes) -> None:
    for tried in (value, b"GRe1" + value, b"GRe2" + value):
        with pytest.raises(ValueError, match="the value is"):
            unpack_entry(AN_ENTRY.key, tried)


@given(any_entry)
def test_the_beginning_is_enough_to_count_an_entry(entry: Entry) -> None:
    value = pack_entry(entry)
    whole = summary_of(value, len(value))
    assert whole is not None
    assert (whole.model_id, whole.entries) == (entry.model_id, 1)
    assert whole.oldest == whole.newest == entry.asked_at
    assert 0 < whole.stored_bytes < len(value)
    # What stands before the response counts as stored with it.
    needed = len(value) - whole.stored_bytes - len(entry.question_id.encode())
    assert summary_of(value[:needed], len(value)) == whole
    if entry.model_id:
        assert summary_of(value[: needed - 1], len(value)) is None


@given(st.binary(max_size=100))
def test_foreign_bytes_are_not_counted(value: bytes) -> None:
    with pytest.raises(ValueError, match="the value is"):
        summary_of(value, len(value))
