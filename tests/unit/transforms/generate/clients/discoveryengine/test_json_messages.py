import json
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.schemas.errors import NotReadableError
from groundrows.transforms.generate.clients.discoveryengine.json_messages import read_message
from groundrows.transforms.generate.clients.json_body import read_json
from tests.support.made_messages import messages

RESPONSE = response_class("v1beta")
CHECKED = response_class("v1", "check")


@pytest.mark.parametrize("kind", [RESPONSE, CHECKED], ids=["generate", "check"])
def test_every_message_survives_its_json(kind: type[Any]) -> None:
    """Floats to the bit, bytes, maps, absent and zero scores, numbers of enum values nobody knows."""

    @settings(max_examples=120, deadline=None)
    @given(messages(kind), st.booleans())
    def check(message: Any, ascii_only: bool) -> None:
        body = json.dumps(json_format.MessageToDict(message), ensure_ascii=ascii_only).encode()
        read, whole = read_message(read_json(body), kind)
        assert whole
        # As bytes, since NaN equals nothing and -0.0 equals 0.0.
        assert read.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)

    check()


def test_what_the_message_has_no_place_for_is_told_and_the_rest_is_kept() -> None:
    fields = {
        "candidates": [
            {
                "content": {"parts": [{"text": "Jupiter."}], "novelty": {"a": 1}},
                "groundingMetadata": {"retrievalMetadata": [{"source": "GOOGLE_DREAMS"}]},
            }
        ],
        "usage": {"tokens": 3},
    }
    message, whole = read_message(fields, RESPONSE)
    assert not whole
    assert message.candidates[0].content.parts[0].text == "Jupiter."
    del fields["usage"]
    assert not read_message(fields, RESPONSE)[1]


def test_a_number_of_an_unknown_value_has_its_place() -> None:
    fields = {"candidates": [{"groundingMetadata": {"retrievalMetadata": [{"source": 77}]}}]}
    message, whole = read_message(fields, RESPONSE)
    assert whole
    assert message.candidates[0].grounding_metadata.retrieval_metadata[0].source == 77


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        "text",
        {"candidates": {}},
        {"candidates": [None]},
        {"candidates": 5},
        {"candidates": [{"content": 5}]},
        {"candidates": [{"content": {"parts": [{"text": 5}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "\ud83d"}]}}]},
        {"candidates": [{"groundingScore": "much"}]},
        {"candidates": [{"groundingScore": 1e300}]},
        {"candidates": [{"index": 1.5}]},
        {"candidates": [{"index": 2**40}]},
        {"candidates": [{"groundingMetadata": {"searchEntryPoint": {"sdkBlob": "a"}}}]},
        {"candidates": [{"groundingMetadata": {"supportChunks": [{"sourceMetadata": {"a": None}}]}}]},
        {"novelty": 1, "candidates": [{"index": "x"}]},
    ],
)
def test_what_is_no_such_message_is_not_read(fields: object) -> None:
    with pytest.raises(NotReadableError):
        read_message(fields, RESPONSE)


_names = st.sampled_from(
    [
        "candidates",
        "content",
        "parts",
        "text",
        "index",
        "groundingMetadata",
        "supportChunks",
        "sourceMetadata",
    ]
)
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_names | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(_names, _json, max_size=3))
def test_any_json_is_read_or_refused(fields: dict[str, object]) -> None:
    try:
        message, _ = read_message(fields, RESPONSE)
    except NotReadableError:
        return
    assert isinstance(message.SerializeToString(), bytes)
