from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.transforms.generate.clients.discoveryengine.merge import merge
from tests.support.made_messages import messages, texts

RESPONSE = response_class("v1beta")
UNKNOWN = b"\xfa\x07\x03new"  # field 127, a string


def told(*candidates: dict[str, Any]) -> Any:
    return RESPONSE(candidates=candidates)


def text(*words: str) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": [{"text": word} for word in words]}}


def merged(*parts: Any) -> Any:
    return merge(parts, RESPONSE)


def test_nothing_makes_a_response_without_candidates() -> None:
    assert merged() == RESPONSE()
    assert merged(RESPONSE(), RESPONSE()) == RESPONSE()


def test_texts_become_one_and_claims_cite_the_whole_list_of_chunks() -> None:
    first = {
        "support_chunks": [{"uri": "a"}, {"uri": "b"}],
        "grounding_support": [{"claim_text": "One two. ", "support_chunk_indices": [1]}],
        "web_search_queries": ["q"],
        "search_entry_point": {"rendered_content": "<div>", "sdk_blob": b"\0"},
        "retrieval_metadata": [{"source": 3}],
    }
    second = {
        "support_chunks": [{"uri": "b"}],
        "grounding_support": [{"claim_text": "Three.", "support_chunk_indices": [1, 2]}],
        "web_search_queries": ["r"],
    }
    whole = merged(
        told(text("One ")),
        told(text("two. ")),
        told({"grounding_metadata": first}),
        told(text("Three.")),
        told({"grounding_metadata": second, "grounding_score": 0.5}),
    )
    assert whole == told(
        text("One two. Three.")
        | {
            "grounding_score": 0.5,
            "grounding_metadata": {
                "support_chunks": [{"uri": "a"}, {"uri": "b"}, {"uri": "b"}],
                "grounding_support": [*first["grounding_support"], *second["grounding_support"]],
                "web_search_queries": ["q", "r"],
                "search_entry_point": {"rendered_content": "<div>", "sdk_blob": b"\0"},
                "retrieval_metadata": [{"source": 3}],
            },
        }
    )


def test_metadata_may_come_before_between_and_after_the_text() -> None:
    said = [told(text("a")), told(text("b"))]
    about = told({"grounding_metadata": {"web_search_queries": ["q"]}})
    whole = {merged(*said[:n], about, *said[n:]).SerializeToString(deterministic=True) for n in range(3)}
    assert len(whole) == 1


def test_of_a_single_value_the_last_that_was_sent_is_kept() -> None:
    def entry(**fields: Any) -> Any:
        return told({"grounding_metadata": {"search_entry_point": fields}})

    parts = [
        entry(rendered_content="old", sdk_blob=b"1"),
        entry(rendered_content="new"),
        entry(rendered_content=""),
        told({"grounding_score": 0.0}),
    ]
    whole = merged(*parts).candidates[0]
    point = whole.grounding_metadata.search_entry_point
    assert (point.rendered_content, point.sdk_blob) == ("new", b"1")
    assert whole.HasField("grounding_score")
    assert not merged(*parts[:3]).candidates[0].HasField("grounding_score")


def test_candidates_are_told_apart_by_their_index_and_end_in_its_order() -> None:
    whole = merged(
        told({"index": 1} | text("one ")),
        told({"index": 0} | text("zero ")),
        told({"index": 2} | text("two"), {"index": 1} | text("more")),
        told({"index": 0} | text("more")),
    )
    said = [(one.index, [part.text for part in one.content.parts]) for one in whole.candidates]
    assert said == [(0, ["zero more"]), (1, ["one more"]), (2, ["two"])]


def test_candidates_of_one_message_are_several_even_with_one_index() -> None:
    whole = merged(told(text("a"), text("b")), told(text("c"), text("d")))
    assert [one.content.parts[0].text for one in whole.candidates] == ["ac", "bd"]


def test_a_candidate_without_content_stays_without() -> None:
    assert not merged(told({"grounding_score": 0.25})).candidates[0].HasField("content")
    assert merged(told({}), told({})) == told({})


def test_a_part_that_is_no_text_is_kept_in_its_place() -> None:
    odd = {"content": {"parts": [{"text": "a"}, {"text": "b"}, {}, {"text": "c"}, {"text": "d"}]}}
    whole = merged(told(odd))
    assert [(part.WhichOneof("data"), part.text) for part in whole.candidates[0].content.parts] == [
        ("text", "ab"),
        (None, ""),
        ("text", "cd"),
    ]


@pytest.mark.parametrize(
    "where",
    [
        lambda response: response,
        lambda response: response.candidates[0],
        lambda response: response.candidates[0].content,
        lambda response: response.candidates[0].content.parts[0],
        lambda response: response.candidates[0].grounding_metadata,
        lambda response: response.candidates[0].grounding_metadata.support_chunks[0],
    ],
    ids=["response", "candidate", "content", "part", "metadata", "chunk"],
)
def test_fields_unknown_to_this_version_are_kept(where: Callable[[Any], Any]) -> None:
    part = told(text("a") | {"grounding_metadata": {"support_chunks": [{"uri": "u"}]}})
    where(part).MergeFromString(UNKNOWN)
    whole = merged(told(text("before ")), part, told(text(" after")))
    assert UNKNOWN in whole.SerializeToString()
    assert "".join(p.text for p in whole.candidates[0].content.parts) == "before a after"


@settings(max_examples=80, deadline=None)
@given(st.lists(messages(RESPONSE), max_size=3))
def test_the_parts_are_left_as_they_are(parts: list[Any]) -> None:
    before = [part.SerializeToString(deterministic=True) for part in parts]
    merged(*parts)
    assert [part.SerializeToString(deterministic=True) for part in parts] == before


# -- any response, cut into any stream -------------------------------------------------------------------


def cut(message: Any, draw: st.DrawFn) -> tuple[Any, Any]:
    """Two messages that say between them what one said: lists are cut, single values are in one of the two."""
    first, second = type(message)(), type(message)()
    for field, value in message.ListFields():
        if field.name == "index" and field.containing_type.name == "Candidate":
            first.index = second.index = value
        elif field.is_repeated:
            share_out(field, value, first, second, draw)
        else:
            for half in draw(st.sampled_from([[first], [second]])):
                copy_field(field, value, half)
    return first, second


def share_out(field: Any, value: Any, first: Any, second: Any, draw: st.DrawFn) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        halves = draw(st.sampled_from([first, second]))
        getattr(halves, field.name).update(value)
        return
    middle = draw(st.integers(0, len(value)))
    getattr(first, field.name).extend(value[:middle])
    getattr(second, field.name).extend(value[middle:])


def copy_field(field: Any, value: Any, half: Any) -> None:
    if field.message_type is not None:
        getattr(half, field.name).CopyFrom(value)
    else:
        setattr(half, field.name, value)


def streamed(response: Any, draw: st.DrawFn) -> list[Any]:
    """A response as a stream: each candidate in a few messages, those of several candidates interleaved."""
    queues = []
    for candidate in response.candidates:
        pieces = [candidate]
        for _ in range(draw(st.integers(0, 3))):
            where = draw(st.integers(0, len(pieces) - 1))
            pieces[where : where + 1] = cut_candidate(pieces[where], draw)
        queues.append(pieces)
    parts = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        part = RESPONSE()
        part.candidates.append(queue.pop(0))
        parts.append(part)
    return parts


def cut_candidate(candidate: Any, draw: st.DrawFn) -> tuple[Any, Any]:
    first, second = cut(candidate, draw)
    if candidate.HasField("grounding_metadata"):
        halves = cut(candidate.grounding_metadata, draw)
        first.grounding_metadata.CopyFrom(halves[0])
        second.grounding_metadata.CopyFrom(halves[1])
    if candidate.content.parts:
        said = candidate.content.parts[0].text
        middle = draw(st.integers(0, len(said)))
        for half, words in ((first, said[:middle]), (second, said[middle:])):
            half.content.CopyFrom(candidate.content)
            half.content.parts[0].text = words
    return first, second


@st.composite
def responses_and_streams(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    response = draw(messages(RESPONSE))
    for index, candidate in enumerate(response.candidates):
        candidate.index = index
        if candidate.content.parts:
            said = draw(texts)
            del candidate.content.parts[:]
            candidate.content.parts.add(text=said)
    return response, streamed(response, draw)


@settings(max_examples=120, deadline=None)
@given(responses_and_streams())
def test_a_response_told_in_parts_comes_back_whole(given_: tuple[Any, list[Any]]) -> None:
    response, parts = given_
    assume(len(parts) > 0)
    # Compared as bytes, since a score that is no number equals nothing.
    assert merge(parts, RESPONSE).SerializeToString(deterministic=True) == response.SerializeToString(
        deterministic=True
    )
