"""The full-text index finds what a person types, whatever they type."""

import contextlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from groundrows.pipeline.browse import words
from groundrows.schemas.errors import UsageError

DOCUMENTS = [
    (0, "When does tin melt?", "Tin melts at 232 degrees.", "", "Metals and their melting points"),
    (1, "What is lead?", "A metal that melts later than tin.", "It is soft", "The café of the plumbers"),
    (2, "东京的人口是多少？", "东京有一千四百万人。", "", "人口统计"),
    (3, "Who owns CAFÉ Central?", "Nobody knows.", "", ""),
    (4, "", "", "", ""),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    writers = [words.Writer(words.part(str(folder), number)) for number in range(words.PARTS)]
    for document in DOCUMENTS:
        writers[document[0] % words.PARTS].add([document])
    for writer in writers:
        writer.close()
    with closing(words.Reader(str(folder))) as reader:
        yield reader


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("tin", [0, 1]),
        ("TIN melts", [0, 1]),
        ('"tin melts"', [0]),
        ("question:tin", [0]),
        ("question:tin source:metals", [0]),
        ("source:tin", []),
        ("claim:soft", [1]),
        ("tin -lead", [0]),
        ("tin -question:lead", [0]),
        ("-lead", None),
        ("melt*", [0, 1]),
        ("melt", [0]),
        ("cafe", [1, 3]),
        ("CAFÉ", [1, 3]),
        ("人口", [2]),
        ("口人", []),
        ("东京 人", [2]),
        ("when does tin melt?", [0]),
        ("time:tin", []),
        ("AND", [0]),
        ("tin OR", []),
        ("", None),
        ("?!", None),
    ],
)
def test_it_finds(index, typed, found):
    hits = index.search(typed)
    assert (None if hits is None else hits.found.tolist()) == found


def test_what_stands_in_the_question_alone_is_known(index):
    hits = index.search("tin")
    assert hits.in_question.tolist() == [0]


def test_a_search_that_is_too_long_is_refused(index):
    with pytest.raises(UsageError, match="longer than 1,000"):
        index.search("a" * 1_001)
    with pytest.raises(UsageError, match="more than 32 words"):
        index.search("a " * 33)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(st.text(max_size=60) | st.text(alphabet='"*:-() ANDORTnearquestion{}^+\0\ud800', max_size=60))
@example('question:question:"a')
@example('^tin {a b}: NEAR("x" "y", 5)')
@example('"')
def test_whatever_is_typed_is_words(index, typed):
    with contextlib.suppress(UsageError):
        index.search(typed)


def test_a_word_is_what_sqlite_takes_for_one(tmp_path):
    """Characters that are no letters to one and letters to the other would find nothing, silently."""
    said = "x1² a_b naïve e\u0301t\u0301 Ⅷ ½ 𝒳y"
    writer = words.Writer(str(tmp_path / "one"))
    writer.add([(7, said, "", "", "")])
    writer.close()
    for each in said.split():
        asked = words.expression(each)
        with closing(sqlite3.connect(tmp_path / "one")) as db:
            assert db.execute("SELECT rowid FROM words WHERE words MATCH ?", (asked,)).fetchall() == [(7,)], (
                each
            )


def test_the_texts_are_not_kept(index, tmp_path):
    writer = words.Writer(str(tmp_path / "one"))
    writer.add([(0, "hidden treasure", "", "", "")])
    writer.close()
    assert b"hidden treasure" not in Path(tmp_path / "one").read_bytes()
