from __future__ import annotations

from typing import Any

import pytest
from google.cloud import discoveryengine_v1 as v1
from google.cloud import discoveryengine_v1beta as v1beta

from groundrows.pipeline.emulator.discoveryengine import messages
from groundrows.pipeline.emulator.discoveryengine.messages import Origin


def fields(descriptor: Any, path: str, seen: dict[str, tuple[int, int, bool, bool]]) -> None:
    for field in descriptor.fields:
        here = f"{path}.{field.name}"
        seen[here] = (field.number, field.type, field.is_repeated, field.has_presence)
        if field.message_type:
            fields(field.message_type, here, seen)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (v1.GenerateGroundedContentRequest.pb(), messages.Request),
        (v1.GenerateGroundedContentResponse.pb(), messages.Response),
        (v1.CheckGroundingRequest.pb(), messages.CheckRequest),
        (v1.CheckGroundingResponse.pb(), messages.CheckResponse),
    ],
)
def test_the_messages_hold_all_that_v1_holds_in_the_same_places(narrow: Any, wide: Any) -> None:
    in_v1: dict[str, tuple[int, int, bool, bool]] = {}
    here: dict[str, tuple[int, int, bool, bool]] = {}
    fields(narrow.DESCRIPTOR, "", in_v1)
    fields(wide.DESCRIPTOR, "", here)
    assert len(in_v1) > 10
    assert {name: here.get(name) for name in in_v1} == in_v1


def test_user_turns_leave_out_the_model_and_take_the_unnamed() -> None:
    request = messages.Request()
    for role, text in (("user", "one"), ("model", "two"), ("", "three")):
        content = request.contents.add(role=role)
        content.parts.add(text=text)
        content.parts.add(text="!")
    assert messages.user_turns(request) == ["one!", "three!"]


def test_each_version_reads_requests_with_its_own_messages() -> None:
    for version, api in (("v1", v1), ("v1beta", v1beta), ("v1alpha", v1)):
        generate = api.GenerateGroundedContentRequest.pb()
        assert Origin("GenerateGroundedContent", version, "rest").request_class is generate
        assert Origin("StreamGenerateGroundedContent", version, "rest").request_class is generate
        check = api.CheckGroundingRequest.pb()
        assert Origin("CheckGrounding", version, "rest").request_class is check
