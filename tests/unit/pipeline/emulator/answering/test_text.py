from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.emulator.answering.text import count_tokens, sentences, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Pi is 3.14 or so. Yes.", ["Pi is 3.14 or so.", "Yes."]),
        ("J. S. Bach wrote it. Dr. Who did not.", ["J. S. Bach wrote it.", "Dr. Who did not."]),
        ("First line\nJ. S. Bach wrote it.", ["First line", "J. S. Bach wrote it."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("富士山は高い。京都は古い？はい！", ["富士山は高い。", "京都は古い？", "はい！"]),
        ("彼は「行く。」と言った。", ["彼は「行く。」", "と言った。"]),
        ("هل هذا صحيح؟ نعم.", ["هل هذا صحيح؟", "نعم."]),
        ("गंगा एक नदी है। वह लंबी है।", ["गंगा एक नदी है।", "वह लंबी है।"]),
        (
            "a list\nof lines\r\n\r\nwithout stops\u2028at all",
            ["a list", "of lines", "without stops", "at all"],
        ),
        ("What?! Really... Yes", ["What?!", "Really...", "Yes"]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_splits_sentences_of_many_scripts(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(" .!?。？！\n\"')A"))))
def test_sentences_are_verbatim_and_lose_nothing_but_white_space(text: str) -> None:
    found = sentences(text)
    position = 0
    for sentence in found:
        assert sentence == sentence.strip() != ""
        position = text.index(sentence, position) + len(sentence)
    assert "".join("".join(found).split()) == "".join(text.split())


@pytest.mark.parametrize("run", ["." * 1_000_000 + "x", "。" * 300_000, "A." * 300_000, '."' * 300_000 + "x"])
def test_long_runs_of_stops_are_no_trap(run: str) -> None:
    # A quadratic scan of the first would take hours.
    assert "".join("".join(sentences(run)).split()) == run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the capital of Peru?", ["capital", "peru"]),
        ("Jupiter's moons, cities and buses", ["jupiter", "moon", "city", "buse"]),
        ("ﬁne STRASSE straße", ["fine", "strasse", "strasse"]),
        ("東京タワー 2020", ["東京", "京タ", "タワ", "ワー", "2020"]),
        ("山", ["山"]),
        ("गंगा नदी", ["गंगा", "नदी"]),
        ("مصر؟ مُحَمَّد", ["مصر", "مُحَمَّد"]),
        ("Cafe\u0301", ["café"]),
        ("??? …", []),
    ],
)
def test_folds_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text())
def test_words_of_any_text_hold_no_white_space(text: str) -> None:
    assert all(word and not any(c.isspace() for c in word) for word in words(text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("... !", 0), ("one two three.", 3), ("富士山", 3), ("富士山 is high", 5), ("the the", 2)],
)
def test_counts_words_and_characters_of_unspaced_scripts(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens
