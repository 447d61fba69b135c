"""Lists, facets and cards over the rows of a run, held against the same counts by DuckDB over the files."""

import json
import tempfile
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from groundrows.pipeline.browse import cards, search
from groundrows.pipeline.browse.asked import ORDERS, RANGES, Asked
from groundrows.pipeline.browse.facets import counted
from groundrows.pipeline.browse.filters import MARKS
from groundrows.pipeline.browse.verdicts import Judged
from groundrows.pipeline.export.tables import load
from groundrows.pipeline.query.run import opened as database
from groundrows.schemas.errors import UsageError
from tests.support.made import NOON, answer, failure
from tests.support.report_runs import chunk, support

COUNT = 131


def made(number):
    """An answer that differs from its neighbours in whatever there are facets for."""
    reference = None if number % 4 == 0 else number % 3 == 0
    return answer(
        question_id=f"q{number // 2}" if number < 20 else f"q{number}",
        turn_index=number % 2 if number < 20 else 0,
        answer_id=f"a{number}",
        question=f"What about number{number}?",
        answer_text=f"\n It is {'so' if number % 2 else 'not so'}.\nAnd more. word{number % 7}",
        grounding_score=None if number % 9 == 0 else number % 10 / 10,
        support_coverage=float("nan") if number % 11 == 0 else number % 5 / 4,
        claim_count=number % 4,
        supported_claim_count=number % 4 // 2,
        chunk_count=number % 3,
        warnings=("Look out.",) * (number % 3 == 1),
        model_id=None if number % 5 == 0 else f"model-{number % 3}",
        service="gemini" if number % 2 else None,
        latency_ms=float(number * 7 % 50),
        answered_at=NOON + timedelta(seconds=number),
        metadata=json.dumps(
            {
                "topic": f"t{number % 4}",
                'a "b"\\c': number % 2 == 0,
                "year": 1900 + number,
                "none": None,
                "list": [1],
                "few": number % 3,
            }
        )
        if number % 6
        else None,
        reference_answers=() if reference is None else ("so",),
        reference_exact=None if reference is None else reference and number % 2 == 1,
        reference_contained=reference,
        reference_f1=None if reference is None else number % 8 / 7,
    )


def rows():
    answers = [made(number) for number in range(COUNT)]
    told = []
    for number, each in enumerate(answers):
        own = {"question_id": each.question_id, "answer_id": each.answer_id, "answered_at": each.answered_at}
        for index in range(each.chunk_count):
            site = f"site{(number + index) % 20}.test"
            told.append(chunk(**own, chunk_index=index, domain=site, chunk_text=f"Passage passage{number}."))
        if each.claim_count:
            told.append(support(**own, claim_text=f"claim{number}", claim_start=None, claim_end=None))
    failed = [
        failure(
            question_id=f"f{number}",
            failure_id=f"f{number}",
            code="UNAVAILABLE" if number % 3 else "INVALID_ARGUMENT",
            record=json.dumps({"question": f"What of failed{number}?"}).encode() if number % 4 else b"\xff{",
            metadata='{"topic": "t0"}',
        )
        for number in range(13)
    ]
    return [*answers, *told, *failed]


@pytest.fixture
def shelf(opened):
    return opened(rows())


@pytest.fixture
def files(shelf):
    """The same rows in DuckDB, by another way."""
    with tempfile.TemporaryDirectory() as folder, closing(database(folder)) as db:
        for table in ("answers", "support_chunks", "failures"):
            load(db, shelf.run, table, folder)
        yield db


# What each facet counts, in terms of the tables of the files.
BY_DUCKDB = {
    "kind": "SELECT 'answer', count(*) FROM answers UNION ALL SELECT 'failure', count(*) FROM failures",
    "code": "SELECT code, count(*) FROM failures GROUP BY 1",
    "model": "SELECT model_id, count(*) FROM answers WHERE model_id IS NOT NULL GROUP BY 1",
    "service": "SELECT service, count(*) FROM answers WHERE service IS NOT NULL GROUP BY 1",
    "domain": "SELECT domain, count(DISTINCT answer_id) FROM support_chunks GROUP BY 1",
    "verdict": "SELECT 'none', count(*) FROM answers",
    "meta.topic": "SELECT metadata->>'topic', count(*) FROM (SELECT metadata FROM answers UNION ALL SELECT metadata"
    " FROM failures) WHERE metadata IS NOT NULL GROUP BY 1",
    'meta.a "b"\\c': "SELECT CASE WHEN year % 2 = 0 THEN 'true' ELSE 'false' END, count(*) FROM (SELECT"
    " (metadata->>'year')::INT AS year FROM answers) WHERE year IS NOT NULL GROUP BY 1",
    "meta.few": "SELECT metadata->>'few', count(*) FROM answers WHERE metadata IS NOT NULL GROUP BY 1",
}
MARKS_BY_DUCKDB = {
    "no_source": "chunk_count = 0",
    "unsupported": "claim_count > supported_claim_count",
    "partly": "isfinite(support_coverage) AND support_coverage < 1",
    "warnings": "len(warnings) > 0",
    "conversation": "turn_index > 0",
    "supported_and_wrong": "NOT reference_contained AND claim_count > 0 AND claim_count = supported_claim_count",
    "right_and_unsupported": "reference_contained AND (claim_count = 0 OR supported_claim_count < claim_count)",
    "reference_exact": "reference_exact",
    "reference_contained": "reference_contained",
    "reference_missed": "reference_contained IS FALSE",
}
RANGES_BY_DUCKDB = {
    "score": "grounding_score",
    "coverage": "CASE WHEN isfinite(support_coverage) THEN support_coverage END",
    "claims": "claim_count",
    "unsupported": "claim_count - supported_claim_count",
    "sources": "chunk_count",
    "warnings": "len(warnings)",
    "reference_f1": "reference_f1",
    "latency": "latency_ms",
}


def test_every_facets_count_is_duckdbs_over_the_files(shelf, files):
    facets, ranges = counted(shelf, Asked())
    by_name = {facet.name: facet for facet in facets}
    assert set(by_name) == {*BY_DUCKDB, "mark"}
    for name, query in BY_DUCKDB.items():
        expected = dict(files.execute(query).fetchall())
        shown = {each.value: each.count for each in by_name[name].values}
        assert shown == {value: expected[value] for value in shown}, name
        assert len(shown) + by_name[name].more == len(expected), name
        most = sorted(expected.values(), reverse=True)[: len(shown)]
        assert sorted(shown.values(), reverse=True) == most, name
    marks = {each.value: each.count for each in by_name["mark"].values}
    assert set(MARKS_BY_DUCKDB) == set(MARKS)
    for name, condition in MARKS_BY_DUCKDB.items():
        ((expected,),) = files.execute(f"SELECT count(*) FROM answers WHERE {condition}").fetchall()
        assert marks.get(name, 0) == expected, name
    bounds = {each.name: (each.low, each.high) for each in ranges}
    for name, column in RANGES_BY_DUCKDB.items():
        (expected,) = files.execute(f"SELECT min({column}), max({column}) FROM answers").fetchall()
        assert bounds[name] == expected, name
    assert set(bounds) == {*RANGES, "meta.year"}
    assert bounds["meta.year"] == (1901, 2030)  # those without metadata have none


def test_a_filters_list_is_as_long_as_its_facet_says(shelf):
    facets, _ = counted(shelf, Asked())
    for facet in facets:
        for each in facet.values:
            wanted = Asked().toggled(facet.name, each.value)
            page = search.found(shelf, wanted)
            assert page.count == each.count, (facet.name, each.value)
            assert len(page.entries) == min(each.count, search.PAGE)
            narrowed = {one.name: one for one in counted(shelf, wanted)[0]}[facet.name]
            assert {one.value: one.count for one in narrowed.values if one.chosen} == {each.value: each.count}


def test_filters_words_and_ranges_go_together(shelf, files):
    wanted = Asked(
        words="word3",
        filters=(("model", "model-1"), ("model", "model-2"), ("mark", "unsupported")),
        least=(("score", 0.2), ("meta.year", 1910)),
        most=(("score", 0.8),),
    )
    expected = files.execute(
        """
        SELECT answer_id FROM answers WHERE contains(answer_text, 'word3') AND model_id IN ('model-1', 'model-2')
        AND claim_count > supported_claim_count AND grounding_score BETWEEN 0.2 AND 0.8
        AND (metadata->>'year')::INT >= 1910
        """
    ).fetchall()
    assert expected
    assert sorted(each.id for each in search.found(shelf, wanted).entries) == sorted(
        each for (each,) in expected
    )


@pytest.mark.parametrize("order", ORDERS)
def test_pages_go_on_and_back_without_a_gap(shelf, order):
    asked = Asked(words="what", order=order)
    first = search.found(shelf, asked)
    assert first.count == COUNT + 9  # of the failures those whose record can be read
    assert first.previous is None
    pages = [first]
    while pages[-1].next is not None:
        pages.append(search.found(shelf, replace(asked, after=pages[-1].next)))
    numbers = [entry.no for page in pages for entry in page.entries]
    assert len(numbers) == len(set(numbers)) == first.count
    for page, before in zip(pages[1:], pages[:-1], strict=True):
        back = search.found(shelf, replace(asked, before=page.previous))
        assert [each.no for each in back.entries] == [each.no for each in before.entries]
        assert back.next is not None


@pytest.mark.parametrize(
    ("order", "column", "sign"), [("score", "score", 1), ("unsupported", "unsupported", -1)]
)
def test_orders(shelf, order, column, sign):
    shown = [getattr(each, column) for each in search.found(shelf, Asked(order=order)).entries]
    assert None not in shown
    assert shown == sorted(shown, key=lambda value: sign * value)


def test_the_best_match_has_the_words_in_its_question(opened):
    texts = [
        ("Why?", "Lighthouses shine."),
        ("What are lighthouses?", "Towers."),
        ("How?", "Of lighthouses."),
    ]
    shelf = opened(
        answer(answer_id=str(number), question=question, answer_text=text)
        for number, (question, text) in enumerate(texts)
    )
    assert [each.id for each in search.found(shelf, Asked(words="lighthouses")).entries] == ["1", "0", "2"]


def test_everything_is_searched(shelf):
    def ids(words):
        return [each.id for each in search.found(shelf, Asked(words=words)).entries]

    assert ids("question:number77") == ["a77"]
    assert ids("passage77") == ["a77"]
    assert ids("claim77") == ["a77"]
    assert ids("failed7") == ["f7"]
    assert ids("number77 -claim77") == []


def test_what_is_no_filter_is_said(shelf):
    for pair in (("colour", "red"), ("mark", "1=1"), ("beside", "x); DROP")):
        with pytest.raises(UsageError, match="no filter"):
            search.found(shelf, Asked(filters=(pair,)))


def test_a_value_is_never_sql(shelf):
    for facet in ("model", "domain", "verdict", "meta.topic", "meta.x' OR 1=1 --"):
        assert search.found(shelf, Asked(filters=((facet, "x') OR ('1'='1"),))).count == 0


def test_an_entry_shows_its_first_line_and_why_one_would_look(shelf):
    (entry,) = search.found(shelf, Asked(words="question:number23")).entries
    assert entry.line == "It is so."
    assert cards.reasons(entry) == [
        "does not contain the reference",
        "2 of 3 claims without support",
        "score 0.30",
    ]
    (failed,) = search.found(shelf, Asked(words="failed3")).entries
    assert failed.question == "What of failed3?"
    assert cards.reasons(failed) == ["failed at generate: INVALID_ARGUMENT"]


def test_a_card_has_all_that_belongs_to_its_answer(shelf):
    (entry,) = search.found(shelf, Asked(words="question:number23")).entries
    card = cards.behind(shelf, entry)
    assert "".join(piece.text for piece in card.answer.segments) == made(23).answer_text
    assert [source.text for source in card.answer.sources] == ["Passage passage23."] * 2
    assert [claim.text for claim in card.answer.claims] == ["claim23"]
    assert card.references == ("so",)
    assert cards.exchanged(shelf, entry.no, "request") == "{}"
    assert cards.exchanged(shelf, entry.no, "response") is None
    (failed,) = search.found(shelf, Asked(words="failed3")).entries
    assert cards.behind(shelf, failed).failure.record == '{"question": "What of failed3?"}'


def test_a_questions_turns_come_in_order(opened):
    turns = [answer(answer_id=f"t{turn}", question_id="talk", turn_index=turn) for turn in (2, 0, 1)]
    shelf = opened([*turns, answer(answer_id="other", question_id="else")])
    assert [each.id for each in search.of_question(shelf, "talk")] == ["t0", "t1", "t2"]
    assert search.of_question(shelf, "talk", "another run") == []


def test_a_row_that_was_written_again_is_there_once(opened):
    one, two = answer(answer_id="1", metadata='{"a": 1}'), answer(answer_id="2")
    shelf = opened([one, chunk(answer_id="1"), two, one, failure(), failure()])
    assert [each.id for each in search.found(shelf, Asked()).entries] == ["1", "2", "f"]
    facets = {each.name: each.values[0].count for each in counted(shelf, Asked())[0]}
    assert facets["meta.a"] == facets["domain"] == facets["code"] == 1


def test_a_verdict_is_a_facet_at_once(shelf):
    (entry,) = search.found(shelf, Asked(words="question:number23")).entries
    shelf.verdicts.give(Judged(entry.run_id, entry.id, entry.moment), "wrong", "No.", 0)
    page = search.found(shelf, Asked(filters=(("verdict", "wrong"),)))
    assert [(each.no, each.verdict, each.note, each.version) for each in page.entries] == [
        (entry.no, "wrong", "No.", 1)
    ]
    assert search.found(shelf, Asked(filters=(("verdict", "none"),))).count == COUNT - 1
    assert search.found(shelf, Asked(filters=(("verdict", "none"), ("verdict", "wrong")))).count == COUNT


def test_two_runs_side_by_side(opened):
    def one(name, text="Same.", score=0.5, **more):
        return answer(question_id=name, answer_id=name, answer_text=text, grounding_score=score, **more)

    def failed(name):
        return failure(question_id=name, failure_id=name)

    shelf = opened(
        [
            one("same"),
            one("changed", "New."),
            one("better", score=0.6),
            one("worse", score=0.4),
            one("latest", "Old.", answered_at=NOON),
            one("latest", answered_at=NOON + timedelta(1)),
            one("healed"),
            one("new"),
            failed("broken"),
            failed("always"),
        ],
        [
            *(one(name) for name in ("same", "changed", "better", "worse", "latest", "broken", "gone")),
            failed("healed"),
            failed("always"),
        ],
    )

    def ids(standing):
        return [each.id for each in search.found(shelf, Asked(filters=(("beside", standing),))).entries]

    assert ids("changed") == ["changed"]
    assert ids("better") == ["better"]
    assert ids("worse") == ["worse"]
    assert ids("newly_failing") == ["broken"]
    assert ids("newly_answered") == ["healed"]
    assert ids("only_here") == ["new"]
    assert ids("same") == ["same", "better", "worse", "latest"]
    facets = {each.name: each for each in counted(shelf, Asked())[0]}
    assert {each.value: each.count for each in facets["beside"].values}["same"] == 4
    (changed,) = search.found(shelf, Asked(filters=(("beside", "changed"),))).entries
    left, right = cards.behind(shelf, changed).apart
    assert [piece.text for piece in left if piece.kind == "gone"] == ["Same"]
    assert [piece.text for piece in right if piece.kind == "new"] == ["New"]
    (broken,) = search.found(shelf, Asked(filters=(("beside", "newly_failing"),))).entries
    assert cards.behind(shelf, broken).other.segments[0].text == "Same."
