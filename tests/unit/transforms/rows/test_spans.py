from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundrows.transforms.rows.spans import coverage, locate


def found(text: str, claims: list[str]) -> list[str | None]:
    """What the spans cut out of the text."""
    return [None if span is None else text[span[0] : span[1]] for span in locate(text, claims)]


def bare(text: str) -> str:
    return "".join(text.split())


def test_claims_are_found_in_order() -> None:
    text = "Tin melts early. Iron melts late."
    assert locate(text, ["Tin melts early.", "Iron melts late."]) == [(0, 16), (17, 33)]


def test_offsets_count_characters_not_bytes_or_utf16_units() -> None:
    text = "🙂🙂 été. Fin du mois."
    assert locate(text, ["Fin du mois."]) == [(8, 20)]


def test_white_space_around_a_claim_is_no_part_of_it() -> None:
    assert locate("  Tin melts. \n", ["\n Tin melts.  "]) == [(2, 12)]


@pytest.mark.parametrize("claim", ["", " ", "\n\t", "\u2003"])
def test_an_empty_claim_has_no_span(claim: str) -> None:
    assert locate("Tin melts.", [claim]) == [None]


def test_nothing_is_found_in_an_empty_answer() -> None:
    assert locate("", ["Tin melts.", "**", ""]) == [None, None, None]
    assert locate(" \n", ["Tin melts.", "**"]) == [None, None]


def test_a_claim_that_is_not_in_the_answer_has_no_span_and_moves_nothing() -> None:
    text = "Tin melts early. Iron melts late."
    assert locate(text, ["Tin melts early.", "Lead floats.", "Iron melts late."]) == [(0, 16), None, (17, 33)]


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("All good here. 🙂 \n", "All good here.🙂"),
        ("All good here.🙂", "All good here. 🙂 "),
        ("Tin  melts\nat 232 °C.", "Tin melts at 232 °C."),
        ("Tin melts at 232 °C.", "Tin\u00a0melts at 232\u2009°C."),
        ("Tinmelts.", "Tin melts."),
        ("- Tin\n- Iron", "- Tin - Iron"),
    ],
)
def test_white_space_may_differ_or_be_missing_on_either_side(text: str, claim: str) -> None:
    (cut,) = found(text, [claim])
    assert cut == text.strip()


def test_the_second_identical_sentence_is_the_second_occurrence() -> None:
    text = "Tin melts. Iron does not. Tin melts."
    assert locate(text, ["Tin melts.", "Iron does not.", "Tin melts."]) == [(0, 10), (11, 25), (26, 36)]
    assert locate(text, ["Tin melts.", "Tin melts."]) == [(0, 10), (26, 36)]


def test_the_second_identical_sentence_with_other_white_space_is_the_second_occurrence() -> None:
    text = "Tin\nmelts. Iron does not. Tin\tmelts."
    assert locate(text, ["Tin melts.", "Iron does not.", "Tin melts."]) == [(0, 10), (11, 25), (26, 36)]


def test_a_third_identical_claim_of_two_sentences_still_has_a_span() -> None:
    text = "Tin melts. Tin melts."
    assert found(text, ["Tin melts."] * 3) == ["Tin melts."] * 3


def test_claims_out_of_order_are_found() -> None:
    text = "Tin melts. Iron does not. Lead does."
    assert found(text, ["Lead does.", "Tin melts.", "Iron does not."]) == [
        "Lead does.",
        "Tin melts.",
        "Iron does not.",
    ]


def test_claims_out_of_order_with_other_white_space_are_found() -> None:
    text = "Tin\n melts. Iron\tdoes not. Lead does."
    assert found(text, ["Lead does.", "Tin melts.", "Iron does not."]) == [
        "Lead does.",
        "Tin\n melts.",
        "Iron\tdoes not.",
    ]


def test_a_claim_may_start_inside_the_one_before_and_reach_beyond_it() -> None:
    text = "Tin melts early and iron melts late."
    assert found(text, ["Tin melts early", "early and iron"]) == ["Tin melts early", "early and iron"]
    assert found(text, ["Tin melts early", "early  and  iron"]) == ["Tin melts early", "early and iron"]


def test_a_tiny_claim_does_not_carry_the_next_one_past_its_place() -> None:
    text = "Tin melts. Iron does not. **Lead** does. Iron does not."
    spans = locate(text, ["Tin melts.", "**", "Iron does not.", "Lead"])
    assert spans == [(0, 10), (26, 28), (11, 25), (28, 32)]


def test_tiny_claims_one_after_another_are_found_one_after_another() -> None:
    assert locate("**Tin** and **iron**", ["**", "Tin", "**", "**"]) == [(0, 2), (2, 5), (5, 7), (12, 14)]


def test_a_tiny_claim_is_not_looked_for_before_the_claims_before_it() -> None:
    assert locate("**Tin melts.", ["Tin melts.", "**"]) == [(2, 12), None]


def test_a_tiny_claim_missed_once_is_looked_for_again_after_an_earlier_place() -> None:
    spans = locate("**Iron** stays. Tin melts.", ["Tin melts.", "**", "Iron", "**"])
    assert spans == [(16, 26), None, (2, 6), (6, 8)]


def test_a_long_claim_without_letters_is_tiny_too() -> None:
    text = "Tin melts. Iron does not. ---------- Iron does not."
    assert locate(text, ["Tin melts.", "----------", "Iron does not."]) == [(0, 10), (26, 36), (11, 25)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["水は百度で沸騰する。", "鉄は沸騰しない。", "水は百度で沸騰する。"],  # no spaces between sentences
        ["الماء يغلي.", "الحديد لا يغلي."],  # right to left
        ["Cafe\u0301 noir.", "Café noir."],  # a combining mark, and the same letter composed
        ["น้ำเดือด", "เหล็กไม่เดือด"],
        ["👩‍👩‍👧 family stays.", "👩 family stays."],
        ["a\x00b\x00c.", "\x00\x00\x00\x00x"],
    ],
)
@pytest.mark.parametrize("gap", ["", " ", "\n\n"])
def test_every_script_is_cut_where_its_sentences_are(sentences: list[str], gap: str) -> None:
    text = gap.join(sentences)
    assert found(text, sentences) == sentences
    starts = [span[0] for span in locate(text, sentences) if span is not None]
    assert starts == sorted(set(starts))


WORDS = st.text(st.sampled_from("ab *\n🙂é\u0301\u00a0.\x00"), max_size=12)


@given(WORDS, st.lists(WORDS, max_size=5))
@example("a b", ["ab", "b a"])
@example(" ", ["aaaa"])
def test_a_span_holds_its_claim_up_to_white_space(text: str, claims: list[str]) -> None:
    spans = locate(text, claims)
    assert len(spans) == len(claims)
    for claim, span in zip(claims, spans, strict=True):
        if span is not None:
            start, end = span
            assert 0 <= start < end <= len(text)
            assert bare(text[start:end]) == bare(claim)
            assert text[start:end] == text[start:end].strip()


@given(WORDS, st.lists(WORDS, max_size=5))
def test_a_claim_without_span_is_empty_tiny_or_not_there(text: str, claims: list[str]) -> None:
    for claim, span in zip(claims, locate(text, claims), strict=True):
        tiny = len(claim.strip()) < 4 or not any(c.isalnum() for c in claim)
        if span is None and not tiny:
            assert bare(claim) not in bare(text)


@given(
    st.lists(st.text(st.sampled_from("abc"), min_size=4, max_size=8), max_size=6),
    st.sampled_from(["", " ", "\n "]),
)
def test_the_sentences_of_a_text_cover_it_in_order(sentences: list[str], gap: str) -> None:
    text = gap.join(sentences)
    start = 0
    for sentence, span in zip(sentences, locate(text, sentences), strict=True):
        assert span == (start, start + len(sentence))
        start += len(sentence) + len(gap)


def test_coverage_counts_each_character_once() -> None:
    assert coverage(10, [(0, 4), (2, 6), (3, 5), (8, 9)]) == 0.7
    assert coverage(10, [(8, 9), (0, 4), (0, 4)]) == 0.5
    assert coverage(10, []) == 0
    assert coverage(10, [(0, 10), (5, 10)]) == 1


def test_nothing_has_no_coverage() -> None:
    assert coverage(0, []) is None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple), max_size=6))  # type: ignore[arg-type]
def test_coverage_is_the_share_of_characters_in_any_span(spans: list[tuple[int, int]]) -> None:
    inside = {place for start, end in spans for place in range(start, end)}
    assert coverage(30, spans) == len(inside) / 30
