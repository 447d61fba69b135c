from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.pages.words_apart import MOST_WORDS, differing


def said(pieces, kind):
    return [piece.text for piece in pieces if piece.kind == kind]


def test_the_words_that_differ_are_told():
    left, right = differing("Tin melts at 232 degrees.", "Tin melts at about 231 degrees.")
    assert said(left, "gone") == ["232"]
    assert said(right, "new") == ["about 231"]


@given(st.text(max_size=80), st.text(max_size=80))
def test_the_pieces_are_the_texts(before, after):
    left, right = differing(before, after)
    assert "".join(each.text for each in left) == before
    assert "".join(each.text for each in right) == after
    assert "".join(said(left, "same")) == "".join(said(right, "same"))


def test_of_long_texts_the_ends_are_compared():
    words = [f"w{number}" for number in range(MOST_WORDS)]
    left, right = differing(" ".join(words), " ".join([*words[:50], "other", *words[51:]]))
    assert said(left, "gone") == ["w50"]
    assert said(right, "new") == ["other"]
    assert differing(" ".join(words), " ".join(words))[0][0].kind == "same"
