from __future__ import annotations

import pytest
from google.cloud import discoveryengine_v1 as v1
from google.cloud import discoveryengine_v1beta as v1beta

from groundrows.pipeline.emulator.calls import Origin, Reply


def test_the_parts_of_a_stream_are_spread_over_its_time() -> None:
    reply = Reply(3.0, b"d", (b"a", b"b", b"c", b"c"))
    due = list(reply.due())
    assert [part for _, part in due] == [b"a", b"b", b"c", b"c"]
    assert [seconds for seconds, _ in due] == pytest.approx([1.0, 1.5, 2.0, 2.5])


def test_without_parts_only_the_outcome_is_due() -> None:
    assert list(Reply(3.0, b"all").due()) == []
    assert list(Reply(0.0, b"b", (b"a",)).due()) == [(0.0, b"a")]


def test_each_version_reads_requests_with_its_own_messages() -> None:
    for version, api in (("v1", v1), ("v1beta", v1beta), ("v1alpha", v1)):
        generate = api.GenerateGroundedContentRequest.pb()
        assert Origin("GenerateGroundedContent", version, "rest").request_class is generate
        assert Origin("StreamGenerateGroundedContent", version, "rest").request_class is generate
        check = api.CheckGroundingRequest.pb()
        assert Origin("CheckGrounding", version, "rest").request_class is check
