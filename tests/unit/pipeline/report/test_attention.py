import math
from datetime import timedelta

import pytest

from groundrows.pipeline.pages.views import LONGEST_ANSWER, LONGEST_SUGGESTIONS, MOST_CLAIMS, MOST_SOURCES
from groundrows.pipeline.report.attention import attention, worst
from groundrows.pipeline.report.checked import checked_attention
from groundrows.schemas.rows import AnswerRow
from tests.support.made import NOON, answer
from tests.support.report_runs import HOSTILE, check, chunk, cited, marked_answer, support

FINE = {"grounding_score": 1.0, "support_coverage": 1.0, "claim_count": 1, "supported_claim_count": 1}


def named(name, **changes) -> AnswerRow:
    return answer(**({"answer_id": name, "question": name} | FINE | changes))


def test_answers_without_fault_are_left_out(load):
    db, run = load([named("fine"), named("unscored", grounding_score=None, support_coverage=None)])
    found = attention(db, run, 50)
    assert (found.shown, found.count) == ([], 0)


def test_each_stands_where_it_stands_worst(load):
    db, run = load(
        [
            named("score 3", grounding_score=0.3),
            named("score 1", grounding_score=0.1),
            named("score 2", grounding_score=0.2),
            named("coverage 1", support_coverage=0.1),
            named("claims 1", claim_count=9, supported_claim_count=2),
            named("claims 2", claim_count=9, supported_claim_count=3, grounding_score=0.99),
            named("warnings 1", warnings=("a", "b")),
            named("fine"),
        ]
    )
    found = attention(db, run, 50)
    order = ["score 1", "coverage 1", "claims 1", "warnings 1", "score 2", "claims 2", "score 3"]
    assert [view.question for view in found.shown] == order
    assert found.count == 7
    assert [view.why for view in found.shown][:4] == [
        "lowest grounding scores",
        "least of the text supported",
        "most claims without support",
        "most warnings",
    ]
    assert len(worst(db, 3)) == 3
    assert [view.question for view in attention(db, run, 3).shown] == order[:3]
    assert attention(db, run, 0).shown == []


def test_of_two_as_bad_the_longer_comes_first(load):
    db, run = load([named(text, answer_text=text, grounding_score=0.5) for text in ("a", "abc", "ab")])
    assert [view.question for view in attention(db, run, 3).shown] == ["abc", "ab", "a"]


def test_an_answer_with_its_claims_and_sources(load):
    expires = NOON + timedelta(days=30)
    rows = [
        named(
            "x",
            answer_text="One. Two. Three.",
            claim_count=3,
            supported_claim_count=2,
            chunk_count=3,
            uris_expire_at=expires,
        ),
        support(
            answer_id="x", claim_index=2, claim_text="Gone.", claim_start=None, claim_end=None, chunk_index=0
        ),
        support(
            answer_id="x",
            claim_index=0,
            claim_text="One.",
            claim_start=0,
            claim_end=4,
            chunk_index=2,
            support_score=0.8,
        ),
        support(
            answer_id="x",
            claim_index=0,
            claim_text="One.",
            claim_start=0,
            claim_end=4,
            chunk_index=0,
            support_score=0.8,
        ),
        support(
            answer_id="x",
            claim_index=1,
            claim_text="Two.",
            claim_start=5,
            claim_end=9,
            chunk_index=None,
            support_score=None,
        ),
        chunk(answer_id="x", chunk_index=0, uri="https://a.example/", title=None, domain="a.example"),
        chunk(answer_id="x", chunk_index=1, uri="javascript:x()", title=HOSTILE),
        chunk(
            answer_id="x",
            chunk_index=2,
            uri=None,
            title=None,
            domain=None,
            document_id="d",
            page_identifier="4",
        ),
        check(answer_id="x", answer_text="One. Two. Three.", support_score=0.33),
        named("y", grounding_score=0.9),
        chunk(answer_id="y", chunk_index=0),
    ]
    db, run = load(rows)
    view = next(view for view in attention(db, run, 5).shown if view.question == "x")
    assert [(each.text, each.spans) for each in view.segments] == [
        ("One.", (0,)),
        (" ", ()),
        ("Two.", (1,)),
        (" Three.", ()),
    ]
    assert [
        (claim.text, claim.found, claim.supported, claim.score, claim.sources) for claim in view.claims
    ] == [
        ("One.", True, True, 0.8, (0, 2)),
        ("Two.", True, False, None, ()),
        ("Gone.", False, True, 0.5, (0,)),
    ]
    # Those that are cited come first.
    assert [(each.index, each.name, each.link, each.cited) for each in view.sources] == [
        (0, "a.example", "https://a.example/", True),
        (2, "d", None, True),
        (1, HOSTILE, None, False),
    ]
    assert view.sources[1].document == "d, page 4"
    assert view.sources[0].expires == expires
    assert view.sources[1].expires is None  # it has no link
    assert view.check_score == 0.33


def test_what_is_long_is_cut_and_counted(load):
    many = 2 * MOST_CLAIMS
    text = "x" * (LONGEST_ANSWER + 5)
    rows = [
        named(
            "x",
            answer_text=text,
            grounding_score=0.1,
            claim_count=many,
            chunk_count=many,
            search_suggestions_html="<p>" * LONGEST_SUGGESTIONS,
        )
    ]
    for index in range(many):
        start = LONGEST_ANSWER - 2 + index
        rows.append(
            support(
                answer_id="x", claim_index=index, claim_start=start, claim_end=start + 1, chunk_index=index
            )
        )  # type: ignore[arg-type]
        rows.append(chunk(answer_id="x", chunk_index=index, chunk_text=text))  # type: ignore[arg-type]
    db, run = load(rows)
    (view,) = attention(db, run, 5).shown
    assert (view.length, view.shown) == (LONGEST_ANSWER + 5, LONGEST_ANSWER)
    assert "".join(each.text for each in view.segments) == text[:LONGEST_ANSWER]
    assert (len(view.claims), view.claim_count) == (MOST_CLAIMS, many)
    assert [claim.found for claim in view.claims[:4]] == [True, True, False, False]
    assert (len(view.sources), view.source_count) == (MOST_SOURCES, many)
    assert (view.suggestions, view.suggestions_cut) == (None, True)
    assert view.size < 100_000


def test_the_page_has_room_for_so_much_text(load, monkeypatch):
    monkeypatch.setattr("groundrows.pipeline.report.attention.MOST_TEXT", 2_500)
    rows = [named(str(number), answer_text="x" * 1_000, grounding_score=number / 10) for number in range(5)]
    db, run = load(rows)
    found = attention(db, run, 50)
    assert [view.question for view in found.shown] == ["0", "1"]
    assert found.count == 5


def test_answers_of_two_runs_with_one_id_keep_their_claims(load):
    rows = []
    for run_id, text in (("one", "First answer."), ("two", "Second answer.")):
        rows += marked_answer("q", text, [(text, True)], run_id=run_id, grounding_score=0.5)
    db, run = load(rows)
    views = attention(db, run, 5).shown
    assert {claim.text for view in views for claim in view.claims} == {"First answer.", "Second answer."}
    assert all(len(view.claims) == len(view.sources) == 1 for view in views)


def test_two_answers_to_one_question_of_a_run_keep_their_claims_and_checks(load):
    """Nothing but the moment and the text tells them apart."""
    rows = []
    for hour, text in enumerate(("First answer.", "Second answer.")):
        at = NOON + timedelta(hours=hour)
        rows += marked_answer("q", text, [(text, True)], answered_at=at, grounding_score=0.5)
        score = 0.25 + hour / 2
        rows.append(check(answer_id="a-q", check_id=text, answer_text=text, support_score=score))
        rows.append(
            check(answer_id="a-q", check_id=text, answer_text=None, support_score=score, claim_index=1)
        )
    db, run = load(rows)
    views = attention(db, run, 5).shown
    assert {
        (
            "".join(piece.text for piece in view.segments),
            *(claim.text for claim in view.claims),
            *(source.text for source in view.sources),
            view.check_score,
        )
        for view in views
    } == {
        (text, text, f"A passage of its own about: {text}", score)
        for text, score in (("First answer.", 0.25), ("Second answer.", 0.75))
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_figures_that_are_none_are_not_shown(load, value):
    db, run = load(
        [
            named("x", warnings=("Odd.",), grounding_score=value, support_coverage=value, latency_ms=value),
            support(answer_id="x", support_score=value),
            chunk(answer_id="x"),
        ]
    )
    (view,) = attention(db, run, 5).shown
    assert (view.score, view.coverage, view.latency_ms) == (None, None, None)
    assert [claim.score for claim in view.claims] == [None]


def test_only_long_passages_scroll(load):
    texts = ("x" * 300, "x" * 301, "a\n" * 6, "a\n" * 7)
    rows = [chunk(answer_id="x", chunk_index=number, chunk_text=text) for number, text in enumerate(texts)]
    db, run = load([named("x", grounding_score=0.1), *rows])
    (view,) = attention(db, run, 5).shown
    assert [source.is_long for source in view.sources] == [False, True, False, True]


def test_checked_answers_are_shown_like_any_other(load):
    db, run = load(
        [
            check(
                check_id="bad",
                claim_index=0,
                claim_text="One.",
                claim_start=0,
                claim_end=4,
                claim_score=0.7,
                support_score=0.2,
                answer_text="One. Two. Hm.",
                citations=(cited(chunk_text="A fact.", source="0"), cited(chunk_text="Another.", source="1")),
            ),
            check(
                check_id="bad",
                claim_index=2,
                claim_text="Hm.",
                claim_start=10,
                claim_end=13,
                claim_score=None,
                support_score=0.2,
                answer_text=None,
                grounding_check_required=False,
            ),
            check(
                check_id="bad",
                claim_index=1,
                claim_text="Two.",
                claim_start=5,
                claim_end=9,
                claim_score=0.1,
                support_score=0.2,
                answer_text=None,
            ),
            check(
                check_id="bad",
                claim_index=None,
                claim_text=None,
                claim_start=None,
                claim_end=None,
                claim_score=None,
                support_score=0.2,
                answer_text=None,
                citations=(cited(chunk_text="A fact.", source="0"),),
            ),
            check(check_id="better", support_score=0.8),
            check(check_id="good", support_score=1.0),
        ]
    )
    found = checked_attention(db, run, 50)
    assert found.count == 2
    assert [view.check_score for view in found.shown] == [0.2, 0.8]
    view = found.shown[0]
    assert [(claim.text, claim.supported, claim.needs_support, claim.sources) for claim in view.claims] == [
        ("One.", True, True, (0, 1)),
        ("Two.", False, True, ()),
        ("Hm.", False, False, ()),
    ]
    assert [source.text for source in view.sources] == ["A fact.", "Another."]
    assert [segment.text for segment in view.segments if segment.spans] == ["One.", "Two.", "Hm."]


@pytest.mark.parametrize("most", [0, 1])
def test_no_more_checks_than_asked_for(load, most):
    db, run = load([check(check_id="1"), check(check_id="2")])
    assert len(checked_attention(db, run, most).shown) == most
