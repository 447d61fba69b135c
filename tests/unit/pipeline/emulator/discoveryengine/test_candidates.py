"""Answers of several candidates, whole and told in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from groundrows.pipeline.emulator.answering.corpus import BUNDLED, load_passages
from groundrows.pipeline.emulator.answering.extractive import UNGROUNDED
from groundrows.pipeline.emulator.answering.retrieval import SentenceIndex
from groundrows.pipeline.emulator.discoveryengine.answers import Extractive
from groundrows.pipeline.emulator.discoveryengine.messages import Response, text_of
from groundrows.pipeline.emulator.discoveryengine.streaming import parts_of
from tests.support.emulator_clients import MOUNTAIN, merged, with_bare_claims, without_scores

CORPUS = SentenceIndex(load_passages(BUNDLED))
TWO = Extractive(CORPUS, candidates=2)
METALS = ("Tin melts at 232 degrees.", "Tin is soft.", "Tin is mined in Bolivia.", "Tin is cheap.")


@pytest.mark.parametrize(
    "prompt",
    [
        "When does tin melt?",
        "When does tin melt? Give several candidates.",
        "CANDIDATE answers, please",
        "How candid is it?",
    ],
)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_there_are_as_many_as_the_emulator_is_told(ask: Callable[..., Any], prompt: str, count: int) -> None:
    extractive = Extractive(CORPUS, candidates=count)
    for request in (ask(prompt, facts=METALS), ask(prompt, google=True), ask(prompt)):
        response = extractive.answer(request)
        assert [candidate.index for candidate in response.candidates] == list(reversed(range(count)))
        assert response == extractive.answer(request)


def test_the_first_is_the_only_answer_of_one_and_the_second_says_something_else(
    ask: Callable[..., Any],
) -> None:
    request = ask("What of tin?", facts=METALS)
    (alone,) = Extractive(CORPUS).answer(request).candidates
    second, first = TWO.answer(request).candidates
    assert first == alone
    assert text_of(second.content)
    assert not set(text_of(second.content).split(".")) & set(text_of(first.content).split(".")) - {""}
    for candidate in (first, second):
        metadata = candidate.grounding_metadata
        assert candidate.grounding_score > 0
        assert [chunk.chunk_text for chunk in metadata.support_chunks]
        cited = {index for support in metadata.grounding_support for index in support.support_chunk_indices}
        assert cited == set(range(len(metadata.support_chunks)))


def test_both_say_the_same_where_there_is_nothing_else_to_say(ask: Callable[..., Any]) -> None:
    second, first = TWO.answer(ask("When does tin melt?", facts=METALS[:1])).candidates
    assert text_of(second.content) == text_of(first.content) == METALS[0]
    assert [text_of(each.content) for each in TWO.answer(ask("When?")).candidates] == [UNGROUNDED, UNGROUNDED]


@pytest.mark.parametrize("images", [0, 3])
@pytest.mark.parametrize("prompt", [MOUNTAIN, "Which river is the longest?"])
def test_a_stream_tells_both_by_turns(ask: Callable[..., Any], prompt: str, images: int) -> None:
    response = Extractive(CORPUS, candidates=2, images=images).answer(ask(prompt, google=True))
    assert bool(response.candidates[0].grounding_metadata.images) == bool(images)
    parts = parts_of(response)
    assert [part.candidates[0].index for part in parts[:4]] == [1, 0, 1, 0]
    for candidate in response.candidates:
        own = [part for part in parts if part.candidates[0].index == candidate.index]
        assert len(own) > 3
        whole = with_bare_claims(merged(own, Response()))
        whole.candidates[0].index = candidate.index
        assert whole == without_scores(Response(candidates=[candidate]))
