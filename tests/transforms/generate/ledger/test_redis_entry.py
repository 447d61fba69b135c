"""Entries as one value: round trips, and every way of being damaged is told."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.generate.ledger.base import Entry
from transforms.generate.ledger.redis_entry import pack_entry, summary_of, unpack_entry

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


@given(any_entry)
def test_every_entry_survives(entry: Entry) -> None:
    assert unpack_entry(entry.key, pack_entry(entry)) == entry


@given(st.integers(0, len(pack_entry(AN_ENTRY)) - 1))
def test_a_shortened_value_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="the value is"):
        unpack_entry(AN_ENTRY.key, pack_entry(AN_ENTRY)[:length])


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(value: bytes) -> None:
    for tried in (value, pack_entry(AN_ENTRY)[:4] + value):
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
    needed = len(value) - whole.stored_bytes - len(entry.question_id.encode())
    assert summary_of(value[:needed], len(value)) == whole
    if entry.model_id:
        assert summary_of(value[: needed - 1], len(value)) is None


@given(st.binary(max_size=100))
def test_foreign_bytes_are_not_counted(value: bytes) -> None:
    with pytest.raises(ValueError, match="the value is"):
        summary_of(value, len(value))
