from contextlib import closing

from groundrows.pipeline.run.prices import Price, Prices
from groundrows.pipeline.run.spending import budgets_of, cost_of, lines, usage_of
from groundrows.schemas.spending import Spent
from groundrows.transforms.generate.calling.budgets import count_name
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from tests.support.engines import make_settings

BY_MODEL = {
    "flash": Spent(prompt=100, answer=300, tool=50, total=450, searches=3, searched_calls=2),
    "pro": Spent(prompt=10, answer=20, total=30, unreported_calls=1, unreported_tokens=900),
}


def test_usage_is_the_sum_over_models_and_each_of_them():
    usage = usage_of(BY_MODEL)
    assert (usage["prompt"], usage["total"], usage["searches"]) == (110, 480, 3)
    assert usage["by_model"]["pro"]["answer"] == 20
    assert usage_of({}) is None


def test_a_cost_is_told_overall_and_by_model_and_names_models_without_a_price():
    prices = Prices(
        "USD", {"flash": Price(1_000.0, 10_000.0, tool=0.0, search=0.5), "other": Price(1.0, 1.0)}
    )
    cost = cost_of(BY_MODEL, {"flash": 7, "pro": 2}, prices)
    assert cost == {
        "currency": "USD",
        "total": 0.1 + 3.0 + 1.5,
        "by_model": {"flash": 0.1 + 3.0 + 1.5},
        "questions_without_price": {"pro": 2},
    }


def test_budgets_say_by_how_much_they_were_passed_as_the_ledger_counted(tmp_path):
    uri = f"sqlite://{tmp_path}/ledger"
    settings = make_settings(ledger=uri, max_tokens=1_000, max_searches=10)
    with closing(SqliteLedger(f"{tmp_path}/ledger")) as ledger:
        ledger.count(count_name("run", "max_tokens"), 1_250)
        ledger.count(count_name("run", "max_searches"), 4)
    assert budgets_of(settings, BY_MODEL) == {
        "max_tokens": {"limit": 1_000, "spent": 1_250, "passed_by": 250},
        "max_searches": {"limit": 10, "spent": 4, "passed_by": 0},
    }


def test_without_a_ledger_budgets_go_by_what_calls_took_and_may_have_taken():
    budgets = budgets_of(make_settings(max_tokens=1_000), BY_MODEL)
    assert budgets == {"max_tokens": {"limit": 1_000, "spent": 1_380, "passed_by": 380}}
    assert budgets_of(make_settings(), BY_MODEL) == {}


def test_people_are_told_all_of_it():
    prices = Prices(None, {"flash": Price(0.0, 0.0, search=0.5)})
    said = lines(
        {
            "usage": usage_of(BY_MODEL),
            "budgets": budgets_of(make_settings(max_tokens=1_000), BY_MODEL),
            "cost": cost_of(BY_MODEL, {"pro": 1}, prices),
        }
    )
    assert said == [
        "tokens: 480 (110 prompt, 320 answer, 50 tool); searches: 3; calls that did not report what they took:"
        " 1, of which about 900 tokens more are expected",
        "--max_tokens=1000: 1,380 spent, passed by 380, which was in flight when it was reached",
        "cost: 1.5000 by the prices given; no price covers 1 question to pro",
    ]
    assert lines({}) == []
