from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.emulator.discoveryengine.grounding_check import check
from groundrows.pipeline.emulator.discoveryengine.messages import CheckRequest

FACTS = (
    "The Lemra is a river of 240 kilometres.",
    "The town of Orvik stands where the Lemra meets the sea.",
    "Herring is eaten with mustard in Orvik.",
)


def request(answer: str, *facts: str, threshold: float | None = None, scored: bool = True) -> Any:
    made = CheckRequest(answer_candidate=answer)
    for fact in facts:
        made.facts.add(fact_text=fact)
    made.grounding_spec.enable_claim_level_score = scored
    if threshold is not None:
        made.grounding_spec.citation_threshold = threshold
    return made


def test_a_claim_cites_the_facts_that_hold_its_words() -> None:
    response = check(request("The Lemra is a river. Orvik has an airport by the lake.", *FACTS))
    river, airport = response.claims
    assert (river.claim_text, river.score, list(river.citation_indices)) == (
        "The Lemra is a river.",
        1.0,
        [0],
    )
    assert (airport.claim_text, list(airport.citation_indices)) == ("Orvik has an airport by the lake.", [])
    assert 0 < airport.score < 0.6
    assert response.support_score == pytest.approx((1 + airport.score) / 2)
    [chunk] = response.cited_chunks
    assert (chunk.chunk_text, chunk.source) == (FACTS[0], "0")
    assert [fact.chunk_text for fact in response.cited_facts] == [FACTS[0]]


def test_indices_are_into_the_cited_chunks_not_the_facts() -> None:
    response = check(
        request("Herring is eaten in Orvik. The Lemra meets the sea. Herring with mustard.", *FACTS)
    )
    assert [list(claim.citation_indices) for claim in response.claims] == [[0], [1], [0]]
    assert [chunk.source for chunk in response.cited_chunks] == ["2", "1"]


def test_a_facts_attributes_come_with_its_chunk() -> None:
    made = request("The Lemra is a river.", FACTS[0])
    made.facts[0].attributes.update(
        {"title": "Rivers", "uri": "https://rivers.example/", "author": "An office"}
    )
    [chunk] = check(made).cited_chunks
    assert (chunk.title, chunk.uri, chunk.domain) == ("Rivers", "https://rivers.example/", "")
    assert dict(chunk.source_metadata) == dict(made.facts[0].attributes)


def test_the_threshold_decides_on_citations_and_zero_is_not_the_default() -> None:
    answer = "Orvik exports herring and salmon and cod."  # two of its five words are in the last fact

    def cited(threshold: float | None) -> list[str]:
        return [chunk.source for chunk in check(request(answer, *FACTS, threshold=threshold)).cited_chunks]

    assert cited(None) == cited(0.6) == cited(0.41) == []
    assert cited(0.4) == ["2"]
    assert cited(0.0) == ["0", "1", "2"]
    assert check(request("Herring is eaten.", *FACTS, threshold=1.0)).cited_chunks


def test_claims_are_scored_only_when_asked() -> None:
    for scored in (True, False):
        response = check(request("The Lemra is a river.", *FACTS, scored=scored))
        assert response.claims[0].HasField("score") == scored
        assert response.support_score == 1.0


@pytest.mark.parametrize(
    "idle",
    [
        "Hello!",
        "Hi there, thank you for asking.",
        "Do you like herring from Orvik?",
        "ماذا في البحر؟",
        "Yes.",
        "…",
    ],
)
def test_what_states_nothing_is_not_checked(idle: str) -> None:
    response = check(request(f"{idle} The Lemra is a river.", *FACTS))
    first, second = response.claims
    assert first.claim_text == idle
    assert first.HasField("grounding_check_required")
    assert not first.grounding_check_required
    assert not first.citation_indices
    assert not first.HasField("score")
    assert second.grounding_check_required
    assert response.support_score == 1.0


@pytest.mark.parametrize(
    "claim",
    ["Hi-tech firms settled in Orvik.", "Welcoming the guests of Orvik takes the mayor all of the evening."],
)
def test_a_statement_that_begins_like_a_courtesy_is_checked(claim: str) -> None:
    assert check(request(claim, *FACTS)).claims[0].grounding_check_required


def test_an_answer_without_statements_has_no_support_score() -> None:
    response = check(request("Hello! How are you?", *FACTS))
    assert not response.HasField("support_score")
    assert not response.cited_chunks


def test_without_facts_nothing_is_supported() -> None:
    response = check(request("The Lemra is a river."))
    assert response.HasField("support_score")
    assert response.support_score == 0
    assert response.claims[0].score == 0


ANSWERS = st.lists(
    st.sampled_from(
        [
            *(
                "The Lemra",
                "is a",
                "river.",
                "Orvik",
                "eats",
                "herring!",
                "富士山は高い。",
                "🙂",
                "e\u0301té",
            ),
            *("مصر", "؟", "\n", "  ", "a", "The Lemra is a river.", "\u2028"),
        ]
    ),
    min_size=1,
    max_size=14,
).map(" ".join)


@given(ANSWERS, st.lists(ANSWERS, max_size=4), st.floats(0, 1))
def test_positions_are_bytes_and_everything_fits_together(
    answer: str, facts: list[str], threshold: float
) -> None:
    response = check(request(answer, *facts, threshold=threshold))
    raw, end = answer.encode(), 0
    for claim in response.claims:
        assert raw[claim.start_pos : claim.end_pos].decode() == claim.claim_text
        assert not raw[end : claim.start_pos].decode().strip()
        end = claim.end_pos
        assert claim.HasField("score") == claim.grounding_check_required
        assert len(claim.citation_indices) == len(set(claim.citation_indices))
    assert not raw[end:].decode().strip()
    cited = [index for claim in response.claims for index in claim.citation_indices]
    assert set(cited) == set(range(len(response.cited_chunks)))
    for chunk in response.cited_chunks:
        assert facts[int(chunk.source)] == chunk.chunk_text
    needing = [claim.score for claim in response.claims if claim.grounding_check_required]
    assert response.HasField("support_score") == bool(needing)
    if needing:
        assert response.support_score == pytest.approx(sum(needing) / len(needing), abs=1e-6)
    assert response == check(request(answer, *facts, threshold=threshold))
