"""Answers of two candidates, whole and told in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from groundrows.pipeline.emulator.answers import UNGROUNDED, Extractive
from groundrows.pipeline.emulator.candidates import wanted_candidates
from groundrows.pipeline.emulator.corpus import BUNDLED, load_passages
from groundrows.pipeline.emulator.messages import Response, text_of
from groundrows.pipeline.emulator.streaming import parts_of
from tests.support.emulator_clients import MOUNTAIN, merged, with_bare_claims, without_scores

EXTRACTIVE = Extractive(load_passages(BUNDLED))
METALS = ("Tin melts at 232 degrees.", "Tin is soft.", "Tin is mined in Bolivia.", "Tin is cheap.")


@pytest.mark.parametrize(
    ("prompt", "count"),
    [
        ("When does tin melt?", 1),
        ("When does tin melt? Give several candidates.", 2),
        ("CANDIDATE answers, please", 2),
        ("How candid is it?", 1),
    ],
)
def test_two_are_given_to_those_who_ask(ask: Callable[..., Any], prompt: str, count: int) -> None:
    assert wanted_candidates(prompt) == count
    for request in (ask(prompt, facts=METALS), ask(prompt, google=True), ask(prompt)):
        response = EXTRACTIVE.answer(request)
        assert [candidate.index for candidate in response.candidates] == list(reversed(range(count)))
        assert response == EXTRACTIVE.answer(request)


def test_the_first_is_the_answer_without_the_word_and_the_second_says_something_else(
    ask: Callable[..., Any],
) -> None:
    (alone,) = EXTRACTIVE.answer(ask("What of tin?", facts=METALS)).candidates
    second, first = EXTRACTIVE.answer(ask("What candidates of tin?", facts=METALS)).candidates
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
    second, first = EXTRACTIVE.answer(ask("Candidates: when does tin melt?", facts=METALS[:1])).candidates
    assert text_of(second.content) == text_of(first.content) == METALS[0]
    assert [text_of(each.content) for each in EXTRACTIVE.answer(ask("Candidates?")).candidates] == [
        UNGROUNDED,
        UNGROUNDED,
    ]


@pytest.mark.parametrize("prompt", [f"{MOUNTAIN} Candidates and images, please.", "Candidates for rivers"])
def test_a_stream_tells_both_by_turns(ask: Callable[..., Any], prompt: str) -> None:
    response = EXTRACTIVE.answer(ask(prompt, google=True))
    parts = parts_of(response)
    assert [part.candidates[0].index for part in parts[:4]] == [1, 0, 1, 0]
    for candidate in response.candidates:
        own = [part for part in parts if part.candidates[0].index == candidate.index]
        assert len(own) > 3
        whole = with_bare_claims(merged(own, Response()))
        whole.candidates[0].index = candidate.index
        assert whole == without_scores(Response(candidates=[candidate]))
