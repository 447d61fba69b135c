import base64
import hashlib
import json
import re
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from groundrows.pipeline.commands.report import report
from groundrows.pipeline.pages.templates import iso, milliseconds, moment, number, score, share
from tests.support.made import answer, failure
from tests.support.report_runs import (
    HOSTILE,
    chunk,
    marked_answer,
    showcase,
    support,
    write_run,
    write_showcase,
)

# Elements without an end.
VOID = {"meta", "input", "br", "link", "hr", "img", "base"}


class Outline(HTMLParser):
    """Every element of a page, with its attributes and the text in it."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self._open = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "text": "", **dict(attrs)}
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open, tag
        assert self._open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def all(self, tag, **attributes):
        return [
            each
            for each in self.elements
            if each["tag"] == tag and all(each.get(name) == value for name, value in attributes.items())
        ]


def made(tmp_path, directory):
    page = tmp_path / "report.html"
    assert report([str(directory), "-o", str(page)]) == 0
    return page.read_text(encoding="utf-8")


def test_a_page_is_whole_and_needs_nothing(tmp_path):
    text = made(tmp_path, write_showcase(tmp_path / "run"))
    page = Outline(text)
    assert text.startswith("<!doctype html>")
    assert not page._open
    assert {"script", "style", "iframe", "svg"} <= {each["tag"] for each in page.elements}
    assert not [each for each in page.elements if "src" in each or each["tag"] in ("link", "object", "base")]
    assert "@import" not in page.all("style")[0]["text"]
    assert "url(" not in page.all("style")[0]["text"]
    ids = [each["id"] for each in page.elements if "id" in each]
    assert len(ids) == len(set(ids))
    inner = {each["href"][1:] for each in page.all("a") if each["href"].startswith("#")}
    assert inner <= set(ids)


def test_what_runs_say_of_their_cost_is_on_the_page(tmp_path):
    cost = {
        "currency": "USD",
        "total": 1.25,
        "by_model": {"m": 1.25},
        "questions_without_price": {"new<b>": 1},
    }
    page = made(tmp_path, write_run(tmp_path / "run", [answer()], cost=cost))
    assert "1.2500 USD" in page
    assert "without a price: 1 question to new&lt;b&gt;" in page


def test_only_its_own_script_may_run(tmp_path):
    page = Outline(made(tmp_path, write_showcase(tmp_path / "run")))
    data, script = page.all("script")
    digest = base64.b64encode(hashlib.sha256(script["text"].encode()).digest()).decode()
    (policy,) = [
        each["content"] for each in page.all("meta") if each.get("http-equiv") == "Content-Security-Policy"
    ]
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}';" in policy
    assert re.search(r"https?:|\*|unsafe-eval", policy) is None
    assert data["type"] == "application/json"
    assert not [name for each in page.elements for name in each if name.startswith("on")]


def test_texts_of_others_stay_texts(tmp_path):
    clean = Outline(
        made(
            tmp_path,
            write_run(tmp_path / "clean", marked_answer("q", "So.", [("So.", True)], grounding_score=0.1)),
        )
    )
    rows = marked_answer(
        "q",
        HOSTILE,
        [(HOSTILE, True)],
        grounding_score=0.1,
        question=HOSTILE,
        warnings=(HOSTILE,),
        model_id=HOSTILE,
        metadata=HOSTILE,
        web_search_queries=(HOSTILE,),
    )
    rows.append(
        chunk(answer_id="a-q", chunk_index=5, chunk_text=HOSTILE, uri=HOSTILE, title=HOSTILE, domain=HOSTILE)
    )
    rows.append(failure(message=HOSTILE, origin=HOSTILE, question_id=HOSTILE, record=HOSTILE.encode()))
    page = Outline(made(tmp_path, write_run(tmp_path / "run", rows)))
    assert {each["tag"] for each in page.elements} - {each["tag"] for each in clean.elements} <= {
        "pre",
        "strong",
        "code",
        "details",
        "h4",
    }
    assert [each["text"] for each in page.all("a") if each.get("class", "").startswith("claim")] == [HOSTILE]
    assert len(page.all("script")) == 2
    assert not page.all("img")
    said = [each["text"] for each in page.all("bdi")]
    assert said.count(HOSTILE) >= 6


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    # HTML knows one kind of line end; a claim that ends within one of two characters has nothing to show.
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200).map(
        lambda text: text.replace("\r\n", "\r")
    ),
    data=st.data(),
)
@example(text="a\rb", data=None)
def test_any_text_comes_through_with_its_claims(tmp_path, text, data):
    start = data.draw(st.integers(0, len(text) - 1)) if data else 0
    end = data.draw(st.integers(start + 1, len(text))) if data else len(text)
    rows = marked_answer("q", text, [], grounding_score=0.1, search_suggestions_html=text)
    rows.append(support(answer_id="a-q", claim_start=start, claim_end=end))
    page = Outline(made(tmp_path, write_run(tmp_path / "run", rows)))

    def as_read(piece):
        pictures = {each: 0x2400 + each for each in range(32) if each not in (9, 10, 13)} | {127: 0x2421}
        return piece.translate(pictures).replace("\r", "\n")

    (shown,) = page.all("div", **{"class": "text"})
    assert shown["text"] == as_read(text)
    (claim,) = [each for each in page.all("a") if each.get("class", "").startswith("claim")]
    assert claim["text"] == as_read(text[start:end])
    (frame,) = page.all("iframe")
    assert frame["srcdoc"] == '<base target="_blank">' + as_read(text)


def test_what_the_script_reads_is_json_that_ends_no_script(tmp_path):
    rows = [row for row in showcase() if row.TABLE == "answers"]
    for row, text in zip(
        rows[2:], ("</script><script>window.pwned=4</script>", "a\u2028b", "<!--"), strict=False
    ):
        object.__setattr__(row, "question", text)
    text = made(tmp_path, write_run(tmp_path / "run", rows))
    page = Outline(text)
    (data,) = page.all("script", type="application/json")
    read = json.loads(data["text"])
    assert {"</script><script>window.pwned=4</script>", "a\u2028b", "<!--"} <= {
        each[3] for each in read["prompts"]
    }
    assert len(page.all("script")) == 2
    raw = text.partition('id="data">')[2].partition("</script>")[0]
    assert not set(raw) & set("<>\u2028\u2029&'")
    assert len(read["grounded"]) == 101


def test_links_that_are_past_are_said_to_be_so_without_a_script_too(tmp_path):
    far = datetime(2999, 1, 1, tzinfo=UTC)
    for moment_, name in ((datetime(2020, 1, 1, tzinfo=UTC), "past"), (far, "fresh")):
        rows = marked_answer(name, "So.", [("So.", True)], grounding_score=0.1, uris_expire_at=moment_)
        page = Outline(made(tmp_path, write_run(tmp_path / name, rows)))
        (link,) = [each for each in page.all("a") if each.get("data-expires")]
        assert ("expired" in link["class"].split()) == (name == "past")
        assert (link["rel"], link["target"]) == ("noopener noreferrer nofollow", "_blank")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"),
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50 %"),
        (0.1234, "12.3 %"),
        (1e-6, "< 0.1 %"),
        (0.99999, "> 99.9 %"),
    ],
)
def test_shares(value, said):
    assert share(value) == said


def test_figures_as_people_read_them():
    assert (number(None), number(1_234_567)) == ("–", "1,234,567")
    assert (score(None), score(0.875)) == ("–", "0.88")
    assert (milliseconds(None), milliseconds(9_999), milliseconds(61_000)) == ("–", "9,999 ms", "1 min 1 s")
    east = datetime(2025, 3, 1, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))
    assert moment(east) == "28 Feb 2025, 23:02:03 UTC"
    assert iso(east) == "2025-02-28T23:02:03Z"
