from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.transforms.rows.reference import Agreement, agreement, normalised_words
from tests.support import squad

# Words that often meet, articles and punctuation among them, beside any text at all.
PIECES = st.sampled_from(
    ["the", "The", "an", "a", "A.", "moon", "Moon,", "1972", "don't", "été", "ÉTÉ", "İ", "the-moon", "«the»",
     "_", "__a__", "\u00a0", "\u2028", "\t", "?", "’", "日本"]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(PIECES, max_size=8).map(" ".join), st.lists(PIECES, max_size=5).map("".join), st.text()
)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_the_measures_are_the_published_ones(answer: str, references: list[str]) -> None:
    found = agreement(answer, references)
    assert found is not None
    assert found.exact == squad.exact(answer, references)
    assert found.contained == squad.contained(answer, references)
    assert found.f1 == pytest.approx(squad.f1(answer, references), abs=1e-12)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_an_exact_match_is_contained_and_shares_every_word(answer: str, references: list[str]) -> None:
    found = agreement(answer, references)
    assert found is not None
    if found.exact:
        assert (found.contained, found.f1) == (True, 1.0)
    if found.contained and normalised_words(answer):
        assert 0 < found.f1 <= 1


@pytest.mark.parametrize(
    ("answer", "references", "expected"),
    [
        ("The  Moon!", ["moon"], Agreement(True, True, 1.0)),
        (
            "It was in December 1972.",
            ["14 December 1972 UTC", "December 1972"],
            Agreement(False, True, 4 / 7),
        ),
        ("It was in 1972.", ["December 1972"], Agreement(False, False, 1 / 3)),
        ("A party", ["art"], Agreement(False, False, 0.0)),
        ("19723", ["1972"], Agreement(False, False, 0.0)),
        ("", ["1972"], Agreement(False, False, 0.0)),
        ("", ["The"], Agreement(True, True, 1.0)),
        ("Moon", ["The"], Agreement(False, False, 0.0)),
        ("New New York", ["new york new york"], Agreement(False, False, 2 * 3 / 7)),
    ],
)
def test_answers_and_references(answer: str, references: list[str], expected: Agreement) -> None:
    found = agreement(answer, references)
    assert found is not None
    assert (found.exact, found.contained) == (expected.exact, expected.contained)
    assert found.f1 == pytest.approx(expected.f1)


def test_without_references_nothing_is_measured() -> None:
    assert agreement("1972", []) is None
