"""Budgets and limits in tokens and searches, through a whole engine."""

import asyncio

import pytest

from groundrows.schemas.codes import EMPTY_ANSWER, NOT_ATTEMPTED
from groundrows.schemas.errors import CallError, LedgerError
from groundrows.schemas.spending import NOTHING, Spent
from groundrows.transforms.generate.clients.base import Reply
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from tests.support.engines import ask, codes_of, engine_for, make_settings
from tests.support.gemini import AGENT, MODEL, question_of

TOKENS = 100
BODY = b'{"candidates": [{"content": {"role": "model", "parts": [{"text": "So."}]}}]}'


def asked(count, prefix="q"):
    return [
        question_of({"id": f"{prefix}{n}", "question": f"{prefix}{n}"}, api_version="v1")
        for n in range(count)
    ]


def gemini(**changes):
    return make_settings(service="gemini", transport="rest", location=AGENT, **changes)


class Counting:
    """Answers everything for 100 tokens and 2 searches; knows what it billed, and what was out at its most.

    Every fifth call answers nothing, for as much.
    """

    def __init__(self, *, empty=False):
        self.billed = self.calls = self.out = self.most_out = 0
        self._empty = empty

    async def ask(self, call, deadline):
        self.calls += 1
        self.out += 1
        self.most_out = max(self.most_out, self.out)
        await asyncio.sleep(0.001)
        self.out -= 1
        self.billed += TOKENS
        spent = Spent(prompt=10, answer=90, total=TOKENS, searches=2, searched_calls=1)
        if self._empty and self.calls % 5 == 0:
            raise CallError(EMPTY_ANSWER, "", spent=spent)
        return Reply(BODY, spent=spent)

    async def close(self):
        pass


@pytest.mark.parametrize("ledger", ["none", "sqlite"])
def test_a_budget_of_tokens_is_passed_by_at_most_what_was_in_flight(ledger, tmp_path):
    uri = "none" if ledger == "none" else f"sqlite://{tmp_path}/ledger"
    client = Counting(empty=True)
    with engine_for(gemini(ledger=uri, max_tokens=2_050, max_in_flight=8), client) as engine:
        outcomes = ask(engine, asked(60))
    assert 2_050 <= client.billed <= 2_050 + client.most_out * TOKENS
    assert sum(outcome.spent.total for outcome in outcomes) == client.billed
    left = [outcome for outcome in outcomes if outcome.failure and outcome.failure.code == NOT_ATTEMPTED]
    assert left
    assert all("--max_tokens" in outcome.failure.message for outcome in left)
    assert all(outcome.failure.retryable and outcome.spent == NOTHING for outcome in left)
    assert {outcome.model for outcome in outcomes if outcome.spent != NOTHING} == {MODEL}


def test_a_budget_of_searches_holds_as_well():
    client = Counting()
    with engine_for(gemini(max_searches=20, max_in_flight=1), client) as engine:
        outcomes = ask(engine, asked(30))
    assert client.calls == 10
    assert "--max_searches" in outcomes[-1].failure.message


def test_a_run_taken_up_again_goes_on_with_its_count_and_stored_answers_cost_nothing(tmp_path):
    settings = gemini(ledger=f"sqlite://{tmp_path}/ledger", max_tokens=1_000, max_in_flight=1)
    client = Counting()
    questions = asked(30)
    with engine_for(settings, client) as engine:
        first = ask(engine, questions[:6])
    with engine_for(settings, client) as engine:
        engine.ledger.forget_claims("run")
        second = ask(engine, questions)
    assert client.billed == 1_000
    assert codes_of(first) == {"OK": 6}
    assert codes_of(second) == {"OK": 10, NOT_ATTEMPTED: 20}
    assert sum(outcome.spent.total for outcome in second) == 400
    # Another run has a budget of its own.
    with engine_for(gemini(ledger=settings.ledger, max_tokens=100, run_id="other"), client) as engine:
        ask(engine, asked(3, "other"))
    assert client.billed == 1_100


def test_a_count_that_is_gone_stops_the_run(tmp_path, monkeypatch):
    def lost(*_):
        raise LedgerError("The ledger lost its counts; see to the server.")

    monkeypatch.setattr(SqliteLedger, "count", lost)
    client = Counting()
    with engine_for(gemini(ledger=f"sqlite://{tmp_path}/ledger", max_tokens=1_000), client) as engine:
        outcomes = ask(engine, asked(5))
        assert engine.halt.reason is not None
        assert "lost its counts" in engine.halt.reason
    assert codes_of(outcomes) == {NOT_ATTEMPTED: 5}
    assert client.calls == 0


def test_without_budgets_what_calls_took_is_noted_all_the_same():
    with engine_for(gemini(), Counting(empty=True)) as engine:
        (outcome,) = ask(engine, asked(1))
    assert outcome.spent == Spent(prompt=10, answer=90, total=100, searches=2, searched_calls=1)
