import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.pages.text import cut, safe_link, segments, visible

SPANS = st.lists(st.one_of(st.none(), st.tuples(st.integers(-5, 60), st.integers(-5, 60))), max_size=8)


@given(st.text(max_size=50), SPANS)
def test_pieces_make_up_the_text_and_each_knows_its_spans(text, spans):
    place = 0
    for segment in segments(text, spans):
        assert segment.text
        for at in range(place, place + len(segment.text)):
            covering = [
                number
                for number, span in enumerate(spans)
                if span is not None and 0 <= span[0] <= at < min(span[1], len(text))
            ]
            assert list(segment.spans) == covering
        assert text[place : place + len(segment.text)] == segment.text
        place += len(segment.text)
    assert place == len(text)


def test_spans_count_code_points():
    text = "𝄞 e\u0301 👨‍👩‍👧 ש"
    family = text.index("👨")
    pieces = segments(text, [(0, 1), (family, family + 5)])
    assert [piece.text for piece in pieces if piece.spans] == ["𝄞", "👨‍👩‍👧"]


def test_overlapping_spans_are_divided_where_they_begin_and_end():
    pieces = segments("abcdef", [(0, 4), (2, 6)])
    assert [(piece.text, piece.spans) for piece in pieces] == [("ab", (0,)), ("cd", (0, 1)), ("ef", (1,))]


@pytest.mark.parametrize(
    "uri", ["http://a.example", "https://a.example/b?c=d#e", "HTTPS://A.example/", "https://ü.example"]
)
def test_links_of_the_web_are_links(uri):
    assert safe_link(uri) == uri


@pytest.mark.parametrize(
    "uri",
    [
        None,
        "",
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "\x01javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "gs://bucket/document",
        "//a.example",
        "https:///nowhere",
        "https://user:pw@a.example/",
        "https://a.example@b.example/",
        "https:relative",
        "https://[broken",
        "https://a.example/with space",
        "https://a.example/" + "x" * 5_000,
    ],
)
def test_anything_else_is_none(uri):
    assert safe_link(uri) is None


@given(st.text())
def test_control_characters_are_seen_and_nothing_moves(text):
    shown = visible(text)
    assert len(shown) == len(text)
    assert not set(shown) & {chr(each) for each in range(32) if each not in (9, 10, 13)}
    assert all(new == old or old < " " or old == "\x7f" for new, old in zip(shown, text, strict=True))


def test_a_long_text_is_cut_and_a_short_one_is_not():
    assert cut("abc def", 4) == "abc…"
    assert cut("abcd", 4) == "abcd"
