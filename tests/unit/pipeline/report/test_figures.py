import math
from datetime import timedelta

import pytest

from groundrows.pipeline.report import figures
from groundrows.pipeline.report.retrieval import retrieval
from groundrows.schemas.rows import Retrieval
from tests.support.made import NOON, answer, failure
from tests.support.report_runs import REDIRECT, check, chunk, cited, support


def scored(*scores):
    return [answer(answer_id=str(number), grounding_score=score) for number, score in enumerate(scores)]


def filled(bins):
    return {round(each.low, 2): each.count for each in bins if each.count}


def test_totals(load):
    db, _ = load(
        [
            answer(
                answer_id="1", question_id="x", grounding_score=None, claim_count=4, supported_claim_count=1
            ),
            answer(
                answer_id="2", question_id="x", candidate_index=1, grounding_score=0.2, warnings=("Odd.",)
            ),
            answer(answer_id="3", question_id="y", run_id="other", support_coverage=None, from_ledger=True),
            failure(run_id="third"),
        ]
    )
    totals = figures.totals(db)
    assert (totals.answers, totals.questions, totals.runs, totals.failures) == (3, 2, 3, 1)
    assert (totals.claims, totals.supported, totals.unsupported_share) == (4, 1, 0.75)
    assert (totals.scored, totals.score, totals.coverage) == (2, 0.35, 0.25)
    assert (totals.warned, totals.from_ledger) == (1, 1)


def test_totals_of_a_run_without_answers(load):
    db, _ = load([failure()])
    totals = figures.totals(db)
    assert (totals.answers, totals.failures, totals.score, totals.unsupported_share) == (0, 1, None, None)
    assert figures.latency(db) is None
    assert figures.timeline(db, "run") is None
    assert figures.shares(db, "score") == []
    assert figures.claims_per_answer(db) == []
    assert figures.unsupported_shares(db) == []
    assert figures.checks(db) is None
    assert figures.sources(db) == (figures.Sources(0, []), figures.Sources(0, []))


def test_scores_fall_into_the_bin_that_begins_with_them(load):
    import struct

    def through_a_float(score):
        return struct.unpack("f", struct.pack("f", score))[0]

    db, _ = load(scored(0, 0.05, through_a_float(0.05), through_a_float(0.35), 0.349, 1, None))
    bins = figures.shares(db, "score")
    assert len(bins) == 20
    assert filled(bins) == {0: 1, 0.05: 2, 0.3: 1, 0.35: 1, 0.95: 1}


def test_claims_per_answer_end_with_all_that_have_more(load):
    db, _ = load(
        [answer(answer_id=str(number), claim_count=count) for number, count in enumerate((0, 2, 2, 12, 99))]
    )
    counts = figures.claims_per_answer(db)
    assert counts[:3] == [("0", 1), ("1", 0), ("2", 2)]
    assert counts[-1] == ("12+", 2)


@pytest.mark.parametrize(
    ("claims", "supported", "name"),
    [(4, 4, "none"), (4, 3, "up to ¼"), (4, 2, "up to ½"), (3, 1, "up to ¾"), (10, 1, "more"), (1, 0, "all")],
)
def test_answers_by_their_share_of_unsupported_claims(load, claims, supported, name):
    rows = [
        answer(claim_count=claims, supported_claim_count=supported),
        answer(answer_id="none", claim_count=0),
    ]
    db, _ = load(rows)
    assert [each for each in figures.unsupported_shares(db) if each[1]] == [(name, 1)]


def test_a_claims_score_counts_once_however_many_chunks_it_cites(load):
    db, _ = load(
        [
            answer(),
            support(claim_index=0, chunk_index=0, support_score=0.9),
            support(claim_index=0, chunk_index=1, support_score=0.9),
            support(claim_index=1, chunk_index=None, support_score=None),
            support(claim_index=2, chunk_index=0, support_score=0.1),
        ]
    )
    assert filled(figures.claim_scores(db)) == {0.9: 1, 0.1: 1}


def test_latency_is_that_of_calls_of_this_run(load):
    rows = [answer(answer_id=str(number), latency_ms=float(number)) for number in range(1, 101)]
    rows.append(answer(answer_id="again", candidate_index=1, latency_ms=9e9))
    rows.append(answer(answer_id="stored", from_ledger=True, latency_ms=9e9))
    db, _ = load(rows)
    found = figures.latency(db)
    assert found is not None
    assert found.calls == 100
    assert found.percentiles == pytest.approx(
        {"min": 1, "p50": 50.5, "p90": 90.1, "p95": 95.05, "p99": 99.01, "max": 100}
    )
    assert sum(each.count for each in found.bins) == 100
    assert found.bins[0].low == pytest.approx(1)
    assert found.bins[-1].high == pytest.approx(100)
    widths = {round(each.high / each.low, 6) for each in found.bins}
    assert len(widths) == 1


@pytest.mark.parametrize("latency", [0.0, 12.0])
def test_equal_latencies_are_one_bin_of_many(load, latency):
    db, _ = load([answer(answer_id=str(number), latency_ms=latency) for number in range(3)])
    found = figures.latency(db)
    assert found is not None
    assert [each.count for each in found.bins if each.count] == [3]
    assert found.bins[0].low < max(latency, 0.01) < found.bins[-1].high
    assert found.bins[-1].high / found.bins[0].low == pytest.approx(2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_figures_that_are_none_count_for_nothing(load, value):
    db, _ = load(
        [
            answer(
                grounding_score=value,
                support_coverage=value,
                latency_ms=value,
                first_part_ms=value,
                retrieval=(Retrieval("GOOGLE_SEARCH", "V1_INDEPENDENT", value),),
            ),
            support(support_score=value),
            check(support_score=value, claim_score=value),
        ]
    )
    totals = figures.totals(db)
    assert (totals.answers, totals.scored, totals.score, totals.coverage) == (1, 0, None, None)
    assert (totals.streamed, totals.first_part_ms) == (0, None)
    assert figures.shares(db, "score") == figures.shares(db, "coverage") == figures.claim_scores(db) == []
    assert figures.latency(db) is None
    assert figures.timeline(db, "run") is None
    assert retrieval(db) is None
    assert figures.checks(db) == figures.Checks(1, 0, None, [], [])


@pytest.mark.parametrize("value", [1e300, -1e300])
def test_scores_beyond_the_scale_are_counted_at_its_end(load, value):
    db, _ = load(scored(value))
    assert sum(each.count for each in figures.shares(db, "score")) == 1


def test_the_timeline_has_every_span_and_only_one_runs_calls(load):
    def at(seconds, **changes):
        return answer(answer_id=str(seconds), asked_at=NOON + timedelta(seconds=seconds), **changes)

    db, _ = load([at(0), at(1), at(3, latency_ms=300.0), at(500, run_id="earlier"), at(2, candidate_index=1)])
    found = figures.timeline(db, "run")
    assert found is not None
    assert found.step == 1
    assert [each.begin - NOON.timestamp() for each in found.moments] == [0, 1, 2, 3]
    assert [each.per_minute for each in found.moments] == [60, 60, 0, 60]
    assert [each.p50 for each in found.moments] == [100, 100, None, 300]


@pytest.mark.parametrize("seconds", [0, 60, 4_000, 86_400, 40 * 86_400, 5_000 * 86_400])
def test_the_timeline_is_never_long(load, seconds):
    rows = [answer(answer_id=str(each), asked_at=NOON + timedelta(seconds=each)) for each in {0, seconds}]
    db, _ = load(rows)
    found = figures.timeline(db, "run")
    assert found is not None
    assert len(found.moments) <= figures.MOST_STEPS + 2
    assert sum(each.per_minute for each in found.moments) * found.step / 60 == pytest.approx(len(rows))


def test_sites_and_documents_are_counted_by_citations(load):
    db, _ = load(
        [
            answer(answer_id="1"),
            answer(answer_id="2"),
            chunk(answer_id="1", chunk_index=0, domain="", uri="https://One.example:8443/a", title="A"),
            chunk(answer_id="1", chunk_index=1, domain=None, uri=f"{REDIRECT}x", title="two.example"),
            chunk(answer_id="1", chunk_index=2, uri=None, title=None, domain=None),
            chunk(answer_id="1", chunk_index=3, domain="uncited.example"),
            chunk(
                answer_id="2",
                chunk_index=0,
                domain="one.example",
                uri="https://One.example:8443/a",
                title="A",
            ),
            chunk(answer_id="2", chunk_index=1, domain=None, uri="gs://b/c", title="C", document_id="doc-1"),
            support(answer_id="1", claim_index=0, chunk_index=0),
            support(answer_id="1", claim_index=1, chunk_index=0),
            support(answer_id="1", claim_index=1, chunk_index=1),
            support(answer_id="1", claim_index=2, chunk_index=2),
            support(answer_id="2", claim_index=0, chunk_index=0),
            support(answer_id="2", claim_index=1, chunk_index=1),
            support(answer_id="2", claim_index=2, chunk_index=None),
        ]
    )
    sites, documents = figures.sources(db)
    assert [(each.name, each.citations, each.answers) for each in sites.top] == [
        ("one.example", 3, 2),
        ("two.example", 1, 1),
    ]
    assert sites.count == 2
    assert [(each.name, each.uri, each.citations) for each in documents.top] == [
        ("A", "https://One.example:8443/a", 3),
        ("C", "gs://b/c", 1),
        ("two.example", None, 1),
    ]


def test_the_same_answer_of_two_runs_keeps_its_sources_apart(load):
    rows = []
    for run_id, domain in (("one", "a.example"), ("two", "b.example")):
        rows += [
            answer(run_id=run_id),
            chunk(run_id=run_id, domain=domain),
            support(run_id=run_id),
        ]
    db, _ = load(rows)
    sites, _ = figures.sources(db)
    assert [(each.name, each.citations) for each in sites.top] == [("a.example", 1), ("b.example", 1)]


def test_failures_by_reason(load):
    later = NOON + timedelta(hours=1)
    db, _ = load(
        [
            failure(failure_id="1", question_id="good-since"),
            failure(failure_id="2", question_id="bad"),
            failure(failure_id="3", question_id="bad", retryable=False),
            failure(failure_id="4", stage="parse", code="INVALID_JSON", retryable=False),
            answer(question_id="good-since", run_id="later", answered_at=later),
            answer(answer_id="b", question_id="bad", run_id="earlier", answered_at=NOON - timedelta(hours=1)),
        ]
    )
    first, second = figures.failure_groups(db)
    assert (first.code, first.count, first.retryable, first.answered_since) == ("UNAVAILABLE", 3, 2, 1)
    assert (first.worth_asking, second.worth_asking) == (1, 0)
    assert (second.stage, second.code, second.count, second.retryable) == ("parse", "INVALID_JSON", 1, 0)
    assert figures.last_run(db) == "later"


def test_a_failed_check_is_made_good_by_a_check_and_by_no_answer(load):
    later = {"run_id": "later", "checked_at": NOON + timedelta(hours=1)}
    db, _ = load(
        [
            failure(failure_id="1", stage="check", code="A", question_id="checked-since"),
            failure(failure_id="2", stage="check", code="B", question_id="answered-since"),
            failure(failure_id="3", stage="generate", code="C", question_id="checked-since"),
            check(question_id="checked-since", **later),
            answer(question_id="answered-since", run_id="later", answered_at=later["checked_at"]),
        ]
    )
    assert [(each.code, each.answered_since) for each in figures.failure_groups(db)] == [
        ("A", 1),
        ("B", 0),
        ("C", 0),
    ]


def test_a_check_counts_once_and_its_claims_each(load):
    db, _ = load(
        [
            check(check_id="1", support_score=0.5, claim_score=0.1),
            check(check_id="1", support_score=0.5, claim_score=0.9, claim_index=1, citations=(cited(),)),
            check(check_id="2", support_score=None, claim_score=None),
        ]
    )
    found = figures.checks(db)
    assert found is not None
    assert (found.count, found.scored, found.median) == (2, 1, 0.5)
    assert filled(found.scores) == {0.5: 1}
    assert filled(found.claim_scores) == {0.1: 1, 0.9: 1}
