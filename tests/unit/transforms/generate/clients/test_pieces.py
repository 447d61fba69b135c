"""The pieces of a response, counted without decoding it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.transforms.generate.clients.pieces import Pieces, json_has_more, most_pieces

RESPONSE = response_class("v1", "generate")
DESCRIPTOR = RESPONSE.DESCRIPTOR


def too_many(data: bytes, most: int) -> bool:
    return Pieces(most).are_too_many(data, DESCRIPTOR)


def nested(chunks: int) -> bytes:
    """A response of one candidate, whose metadata holds so many empty chunks: one piece each, and two more."""
    message = RESPONSE()
    metadata = message.candidates.add().grounding_metadata
    for _ in range(chunks):
        metadata.support_chunks.add()
    data: bytes = message.SerializeToString()
    return data


@pytest.mark.parametrize("chunks", [50, 1_000])
def test_messages_within_messages_count(chunks: int) -> None:
    data = nested(chunks)
    assert not too_many(data, chunks + 2)
    assert too_many(data, chunks + 1)


def test_every_kind_of_field_is_stepped_over() -> None:
    message = RESPONSE()
    candidate = message.candidates.add(index=300, grounding_score=0.5)
    candidate.content.role = "model"
    candidate.content.parts.add(text="x" * 300)
    candidate.grounding_metadata.support_chunks.add(source="web").source_metadata["uri"] = "u"
    candidate.grounding_metadata.grounding_support.add(support_chunk_indices=[1, 2, 3], support_score=0.1)
    data = message.SerializeToString()
    # candidate, index, score, content, role, part, text, metadata, chunk, source, entry, key, value, support,
    # the indices packed as one, their score
    assert not too_many(data, 16)
    assert Pieces(15).are_too_many(data, DESCRIPTOR)


def test_texts_cost_no_pieces() -> None:
    message = RESPONSE()
    message.candidates.add().content.parts.add(text="\n\0" * 100_000)
    assert not too_many(message.SerializeToString(), 10)


def test_the_parts_of_a_stream_count_together() -> None:
    """Those of the first bytes, which can't be too many by themselves, are not looked at."""
    part = nested(98)  # a hundred pieces
    pieces = Pieces(1_000)
    found = [pieces.are_too_many(part, DESCRIPTOR) for _ in range(30)]
    assert (found[9], found[-1]) == (False, True)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_what_is_no_message_is_left_to_the_decoder(data: bytes) -> None:
    assert too_many(data, 2) in (True, False)


def test_a_field_that_goes_beyond_the_end_is_left_to_the_decoder() -> None:
    assert not too_many(b"\x0a\xff\xff\xff\xff\x0f" + b"\0" * 20, 2)


@pytest.mark.parametrize(
    ("body", "most", "more"),
    [
        (b"[{},{}]", 3, False),
        (b"[{},{}]", 2, True),
        (b'["' + b"x" * 100 + b'"]', 2, False),
        (b"{}", 3, False),
    ],
)
def test_objects_and_lists_of_json_count(body: bytes, most: int, more: bool) -> None:
    assert json_has_more(body, most) is more


def test_an_answer_of_ordinary_texts_is_far_from_the_limit() -> None:
    """Also one as large as may be: a chunk of a hundred characters has some ten pieces."""
    assert most_pieces(16_000_000) == 500_000
