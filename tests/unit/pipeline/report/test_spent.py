"""What a service that counts says of its work: in figures and in the report's section."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from groundrows.pipeline.report import spent
from groundrows.pipeline.report.spent_drawn import spent_section
from tests.support.gemini import rows_of
from tests.support.made import NOON, answer, failure


def call(number: int, seconds: float = 0, **columns: Any) -> Any:
    return answer(
        **{
            "answer_id": str(number),
            "asked_at": NOON + timedelta(seconds=seconds),
            "prompt_tokens": 10,
            "answer_tokens": 5,
            "tool_tokens": 100,
            "total_tokens": 115,
            "finish_reason": "STOP",
            "billed_searches": 2,
            **columns,
        }
    )


def test_tokens_are_summed_over_the_calls_that_this_directory_made(load):
    db, _ = load(
        [
            call(1),
            call(2, candidate_index=1, total_tokens=None),
            call(3, from_ledger=True),
            call(4, thought_tokens=7, tool_tokens=None, total_tokens=22),
        ]
    )
    assert spent.tokens(db) == spent.Tokens(2, prompt=20, answer=10, thought=7, tool=100, cached=0, total=137)


def test_tokens_over_time_are_those_of_one_run_and_spans_without_calls_are_there(load):
    db, _ = load([call(1), call(2, 0.4), call(3, 3.2), call(4, 1, run_id="other")])
    found = spent.tokens_over_time(db, "run")
    begin = NOON.timestamp()
    assert found.rate.step == 1
    assert [(each.begin - begin, each.per_minute) for each in found.rate.moments] == [
        (0, 13_800),
        (1, 0),
        (2, 0),
        (3, 6_900),
    ]
    assert found.sums[begin] == (20, 10, 0, 200, 0, 230)
    assert found.sums[begin + 1] == (0, 0, 0, 0, 0, 0)


def test_the_spans_grow_with_the_time_that_a_run_took(load):
    db, _ = load([call(number, number * 3_600) for number in range(0, 300, 3)])
    found = spent.tokens_over_time(db, "run")
    assert found.rate.step == 21_600
    assert len(found.rate.moments) == 50
    assert sum(sums[-1] for sums in found.sums.values()) == 100 * 115


def test_searches_and_endings_are_counted(load):
    db, _ = load(
        [
            call(1),
            call(2, billed_searches=0),
            call(3, finish_reason="MAX_TOKENS"),
            call(4, billed_searches=None),
        ]
    )
    assert spent.searches(db) == spent.Searches(searched=2, unsearched=1, billed=4)
    assert spent.finish_reasons(db) == [("STOP", 3), ("MAX_TOKENS", 1)]


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "MODEL_ARMOR", "JAILBREAK", "NEW_1"])
def test_blocked_prompts_are_counted_by_the_reason_that_the_service_gave(load, reason):
    told = {"blockReason": reason, "blockReasonMessage": "It is (AS WE SAY) blocked."}
    [row] = rows_of({"promptFeedback": told}).failures
    db, _ = load([row, failure(code="UNAVAILABLE", message="Away (REALLY).")])
    assert spent.blocked(db, "PROMPT_BLOCKED") == [(reason, 1)]
    assert spent.blocked(db, "ANSWER_BLOCKED") == []


def test_withheld_answers_are_counted_apart(load):
    [row] = rows_of({"candidates": [{"finishReason": "RECITATION", "finishMessage": "Why?"}]}).failures
    db, _ = load([row])
    assert spent.blocked(db, "ANSWER_BLOCKED") == [("RECITATION", 1)]


def test_the_section_shows_what_there_is(load):
    [blocked] = rows_of({"promptFeedback": {"blockReason": "SAFETY"}}).failures
    db, _ = load([call(1), call(2, 2), blocked])
    section = spent_section(db, "run", 20_000)
    assert [each[:2] for each in section.tiles] == [
        ("230", "tokens"),
        ("115", "tokens an answer"),
        ("4", "searches billed"),
        ("100 %", "searched"),
    ]
    assert section.tiles[0][2] == "20 prompt, 10 answer, 200 tools"
    assert [plot.name for plot in section.plots] == [
        "tokens",
        "searched",
        "finish-reasons",
        "blocked-prompts",
    ]
    tokens, searched, endings, prompts = section.plots
    assert "held to 20,000" in tokens.summary
    assert tokens.rows[0][1:] == ("10", "5", "0", "100", "0", "115")
    assert searched.rows == [("searched", "2"), ("not searched", "0")]
    assert endings.rows == [("STOP", "2")]
    assert prompts.rows == [("SAFETY", "1")]


def test_a_service_that_tells_none_of_it_has_no_section(load):
    db, _ = load([answer(), failure()])
    section = spent_section(db, "run", None)
    assert (section.tiles, section.plots) == ([], [])
