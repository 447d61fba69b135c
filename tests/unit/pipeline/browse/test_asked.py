"""What an address asks for, and back."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from groundrows.pipeline.browse.asked import Asked, Place, asked
from groundrows.schemas.errors import UsageError


def read(address):
    return asked(parse_qsl(urlsplit(address).query))


def test_an_address_is_read_as_it_was_made():
    wanted = Asked(
        words='"tin melts" -lead',
        filters=(("model", "a&b=c"), ("meta.a.b", "ü/?#"), ("model", "other")),
        least=(("score", 0.25), ("meta.year", -3.0)),
        most=(("score", 1.0),),
        order="coverage",
    )
    assert read(wanted.link()) == wanted
    assert read(wanted.link("/", after=Place(0.1 + 0.2, 7))).after == Place(0.1 + 0.2, 7)
    assert read("/") == Asked()
    assert Asked().link() == "/"


def test_a_filter_is_put_on_and_taken_away():
    once = Asked(after=Place(1, 1)).toggled("model", "a")
    assert once.filters == (("model", "a"),)
    assert once.after is None
    assert once.toggled("model", "a").filters == ()


def test_what_it_does_not_know_is_left_out():
    assert read("/?q=&x=1&f.=2&min.rank=3&max.=4&f.model=") == Asked()


@pytest.mark.parametrize(
    "query",
    [
        "sort=random",
        "min.score=much",
        "max.score=nan",
        "min.score=inf",
        "after=3",
        "before=x~1",
        "after=1~-1",
    ],
)
def test_what_makes_no_sense_is_said(query):
    with pytest.raises(UsageError):
        read(f"/?{query}")


def test_words_without_an_order_are_by_match():
    assert read("/?q=tin").sorted_by == "best"
    assert read("/?q=tin&sort=score").sorted_by == "score"
    assert read("/").sorted_by == "files"
