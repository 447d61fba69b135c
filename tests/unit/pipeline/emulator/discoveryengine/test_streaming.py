from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.emulator.answering.corpus import BUNDLED, load_passages
from groundrows.pipeline.emulator.answering.extractive import NOTHING_FOUND, UNGROUNDED
from groundrows.pipeline.emulator.answering.retrieval import SentenceIndex
from groundrows.pipeline.emulator.discoveryengine.answers import Extractive
from groundrows.pipeline.emulator.discoveryengine.broken import break_response
from groundrows.pipeline.emulator.discoveryengine.canned import canned_answer, canned_stream
from groundrows.pipeline.emulator.discoveryengine.messages import Request, Response
from groundrows.pipeline.emulator.discoveryengine.streaming import MAX_PIECES, parts_of, serialized_parts
from tests.support.emulator_clients import MOUNTAIN, merged, with_bare_claims, without_scores

EXTRACTIVE = Extractive(SentenceIndex(load_passages(BUNDLED)))


def same_but_for_scores(response: Any) -> list[Any]:
    parts = parts_of(response)
    assert with_bare_claims(merged(parts, Response())) == without_scores(response)
    return parts


def told_texts(parts: list[Any]) -> list[str]:
    return [part.candidates[0].content.parts[0].text for part in parts if part.candidates[0].content.parts]


def test_text_comes_first_and_then_what_supports_it(ask: Callable[..., Any]) -> None:
    parts = same_but_for_scores(EXTRACTIVE.answer(ask(MOUNTAIN, google=True)))
    shape = "".join("t" if part.candidates[0].HasField("content") else "m" for part in parts)
    assert shape.startswith("tt")
    assert shape.endswith("tm")
    assert shape.count("m") == 3
    assert "mm" not in shape
    first, *later = [
        part.candidates[0].grounding_metadata for part in parts if not part.candidates[0].HasField("content")
    ]
    assert first.search_entry_point.rendered_content
    assert first.web_search_queries
    assert first.retrieval_metadata
    assert first.support_chunks
    for metadata in later:
        assert metadata.grounding_support
        assert not metadata.HasField("search_entry_point")
        assert not metadata.web_search_queries
        assert not metadata.retrieval_metadata


def test_a_claims_text_holds_its_trailing_white_space(ask: Callable[..., Any]) -> None:
    parts = parts_of(EXTRACTIVE.answer(ask(MOUNTAIN, google=True)))
    claims = [
        support.claim_text
        for part in parts
        for support in part.candidates[0].grounding_metadata.grounding_support
    ]
    assert [claim.endswith(". ") for claim in claims] == [True, True, False]
    assert "".join(claims) == "".join(told_texts(parts))


def test_some_answers_tell_their_chunks_all_at_once_and_some_as_they_are_cited() -> None:
    together, apart = 0, 0
    for number in range(20):
        response = Response()
        candidate = response.candidates.add()
        candidate.content.parts.add(text=f"Fact {number} is one. Fact {number} is another.")
        metadata = candidate.grounding_metadata
        for position, ending in enumerate(("one", "another")):
            metadata.support_chunks.add(chunk_text=f"chunk {position}")
            metadata.grounding_support.add(
                claim_text=f"Fact {number} is {ending}.", support_chunk_indices=[position]
            )
        chunks = [
            len(part.candidates[0].grounding_metadata.support_chunks)
            for part in same_but_for_scores(response)
        ]
        assert sum(chunks) == 2
        together += 2 in chunks
        apart += chunks.count(1) == 2
        assert parts_of(response) == parts_of(response)
    assert together + apart == 20
    assert min(together, apart) > 3


@pytest.mark.parametrize(("google", "said"), [(True, NOTHING_FOUND), (False, UNGROUNDED)])
def test_an_answer_without_claims_is_told_too(ask: Callable[..., Any], google: bool, said: str) -> None:
    parts = same_but_for_scores(
        EXTRACTIVE.answer(ask("Adverse news about Initech in France?", google=google))
    )
    assert "".join(told_texts(parts)) == said
    assert parts[-1].candidates[0].HasField("content") == (not google)


def test_an_empty_answer_is_one_empty_part() -> None:
    assert parts_of(Response()) == [Response()]
    assert parts_of(Response(candidates=[{}])) == [Response(candidates=[{}])]


@pytest.mark.parametrize("variety", range(3))
def test_a_malformed_answer_keeps_its_text_supports_and_chunks(variety: int) -> None:
    broken = Response.FromString(break_response("malformed", variety, canned_answer()))
    parts = parts_of(broken)
    [candidate] = broken.candidates
    assert "".join(told_texts(parts)) == candidate.content.parts[0].text
    told = [part.candidates[0].grounding_metadata for part in parts]
    assert sum(len(metadata.support_chunks) for metadata in told) == len(
        candidate.grounding_metadata.support_chunks
    )
    assert [
        (support.claim_text.rstrip(), list(support.support_chunk_indices))
        for metadata in told
        for support in metadata.grounding_support
    ] == [
        (support.claim_text.rstrip(), list(support.support_chunk_indices))
        for support in candidate.grounding_metadata.grounding_support
    ]


def test_a_huge_sentence_comes_in_few_pieces() -> None:
    response = Response()
    response.candidates.add().content.parts.add(text="word " * 100_000)
    assert len(same_but_for_scores(response)) == 1 + MAX_PIECES


def test_the_canned_answer_is_told_in_parts() -> None:
    parts = [Response.FromString(body) for body in canned_stream()]
    whole = Response.FromString(canned_answer())
    assert with_bare_claims(merged(parts, Response())) == without_scores(whole)
    assert serialized_parts(canned_answer()) == canned_stream()


TEXTS = st.lists(
    st.sampled_from(["river", "Orvik.", "!", "山。", "e\u0301", "🙂", "\n", " ", "\u2028", "\0", "** "]),
    max_size=12,
).map("".join)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(TEXTS, min_size=1, max_size=3))
def test_a_stream_tells_what_the_whole_answer_says(facts: list[str], turns: list[str]) -> None:
    request = Request()
    for turn in turns:
        request.contents.add(role="user").parts.add(text=turn)
    inline = request.grounding_spec.grounding_sources.add().inline_source
    for fact in facts:
        inline.grounding_facts.add(fact_text=fact)
    same_but_for_scores(EXTRACTIVE.answer(request))


@given(st.text(max_size=60))
def test_no_text_is_lost(text: str) -> None:
    response = Response()
    response.candidates.add().content.parts.add(text=text)
    assert "".join(told_texts(parts_of(response))) == text
