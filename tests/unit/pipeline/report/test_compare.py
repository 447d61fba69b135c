from datetime import timedelta

import pytest

from groundrows.pipeline.report.compare import MOST_SHOWN, compare
from tests.support.made import NOON, answer, failure


def told(name, score, text="Same.", **changes):
    return answer(
        **(
            {
                "question_id": name,
                "answer_id": f"{name} {score}",
                "question": name,
                "answer_text": text,
                "grounding_score": score,
            }
            | changes
        )
    )


def test_what_changed_between_two_runs(load):
    _, earlier = load(
        [
            told("better", 0.2),
            told("worse", 0.9, "Was well."),
            told("same", 0.5),
            told("hardly", 0.5),
            told("unscored", None, "Old."),
            told("gone", 0.5),
            told("will fail", 0.5),
            failure(question_id="will be answered", code="UNAVAILABLE"),
            failure(question_id="fails always", failure_id="1"),
            failure(question_id="dropped", failure_id="2"),
        ],
        schema="earlier",
    )
    db, this = load(
        [
            told("better", 0.8),
            told("worse", 0.1, "Is ill."),
            told("same", 0.5),
            told("hardly", 0.501),
            told("unscored", 0.4, "New."),
            told("new", 0.5),
            told("will be answered", 0.5),
            failure(question_id="will fail", code="INTERNAL"),
            failure(question_id="fails always", failure_id="1"),
        ]
    )
    found = compare(db, this, earlier)
    assert (found.both, found.changed, found.scored) == (5, 2, 4)
    assert (found.better, found.worse) == (1, 1)
    assert found.mean_change == pytest.approx((0.6 - 0.8 + 0 + 0.001) / 4)
    assert (found.newly_failing, found.newly_answered, found.only_here, found.only_before) == (1, 1, 1, 1)
    assert [(each.prompt, each.code) for each in found.failing] == [("will fail", "INTERNAL")]
    assert [(each.prompt, each.code) for each in found.answered] == [("will be answered", "UNAVAILABLE")]
    assert [(each.question, each.before, each.after) for each in found.largest] == [
        ("worse", 0.9, 0.1),
        ("better", 0.2, 0.8),
        ("unscored", None, 0.4),
    ]
    assert (found.largest[0].text_before, found.largest[0].text_after) == ("Was well.", "Is ill.")
    assert {round(each.low, 2): each.count for each in found.changes if each.count} == {-0.8: 1, 0: 2, 0.6: 1}


def test_a_run_compared_with_itself_has_not_changed(load):
    rows = [told(str(number), number / 10) for number in range(5)] + [failure(question_id="f")]
    _, earlier = load(rows, schema="earlier")
    db, this = load(rows)
    found = compare(db, this, earlier)
    assert (found.both, found.changed, found.better, found.worse) == (5, 0, 0, 0)
    assert (found.newly_failing, found.newly_answered, found.only_here, found.only_before) == (0, 0, 0, 0)
    assert found.largest == []


def test_turns_and_candidates_are_compared_each(load):
    places = [(turn, candidate) for turn in (0, 1) for candidate in (0, 1)]

    def run(shift):
        return [
            told("q", turn / 2 + candidate / 4 + shift, turn_index=turn, candidate_index=candidate)
            for turn, candidate in places
        ]

    _, earlier = load(run(0), schema="earlier")
    db, this = load(run(0.1))
    found = compare(db, this, earlier)
    assert (found.both, found.better) == (4, 4)
    assert {round((each.after or 0) - (each.before or 0), 3) for each in found.largest} == {0.1}


def test_the_latest_of_several_answers_counts(load):
    later = NOON + timedelta(days=1)
    _, earlier = load([told("q", 0.5)], schema="earlier")
    db, this = load([told("q", 0.9, answered_at=later), told("q", 0.1)])
    found = compare(db, this, earlier)
    assert (found.both, found.better, found.worse) == (1, 1, 0)


def test_of_two_answers_with_one_id_the_latest_is_shown(load):
    later = NOON + timedelta(days=1)
    _, earlier = load([told("q", 0.5, answer_id="a")], schema="earlier")
    db, this = load(
        [told("q", 0.9, "Later.", answer_id="a", answered_at=later), told("q", 0.1, "Sooner.", answer_id="a")]
    )
    found = compare(db, this, earlier)
    assert (found.both, found.better, found.worse) == (1, 1, 0)
    assert [(each.after, each.text_after) for each in found.largest] == [(0.9, "Later.")]


def test_a_failure_made_good_in_the_same_directory_is_none(load):
    _, earlier = load([told("q", 0.5)], schema="earlier")
    db, this = load([failure(question_id="q"), told("q", 0.5, run_id="replay")])
    assert compare(db, this, earlier).newly_failing == 0


def test_runs_without_answers_can_be_compared(load):
    _, earlier = load([failure()], schema="earlier")
    db, this = load([failure()])
    found = compare(db, this, earlier)
    assert (found.both, found.mean_change, found.changes) == (0, None, [])


def test_only_so_many_are_shown(load):
    names = [str(number) for number in range(100)]
    _, earlier = load(
        [told(name, 0.5) for name in names]
        + [failure(question_id=f"f{name}", failure_id=name) for name in names],
        schema="earlier",
    )
    db, this = load(
        [told(name, 0.5 + (int(name) - 50) / 200) for name in names]
        + [told(f"f{name}", 0.5) for name in names]
    )
    found = compare(db, this, earlier)
    assert len(found.largest) == MOST_SHOWN
    changes = [(each.after or 0) - (each.before or 0) for each in found.largest]
    assert changes[0] == pytest.approx(-0.25)
    assert changes[MOST_SHOWN // 2] == pytest.approx(49 / 200)
    assert (len(found.answered), found.newly_answered) == (MOST_SHOWN, 100)
