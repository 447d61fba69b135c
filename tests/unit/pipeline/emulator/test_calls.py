from __future__ import annotations

import pytest

from groundrows.pipeline.emulator.calls import Reply


def test_the_parts_of_a_stream_are_spread_over_its_time() -> None:
    reply = Reply(3.0, b"d", (b"a", b"b", b"c", b"c"))
    due = list(reply.due())
    assert [part for _, part in due] == [b"a", b"b", b"c", b"c"]
    assert [seconds for seconds, _ in due] == pytest.approx([1.0, 1.5, 2.0, 2.5])


def test_without_parts_only_the_outcome_is_due() -> None:
    assert list(Reply(3.0, b"all").due()) == []
    assert list(Reply(0.0, b"b", (b"a",)).due()) == [(0.0, b"a")]
