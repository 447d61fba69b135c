from groundrows.pipeline.report.cost import cost_tiles


def stated(run_id, total, currency="USD", without=None, **by_model):
    return {
        "run_id": run_id,
        "started_at": "2026-06-01T12:00:00+00:00",
        "wall_seconds": 1.5,
        "cost": {
            "currency": currency,
            "total": total,
            "by_model": by_model,
            "questions_without_price": without or {},
        },
    }


def test_costs_of_all_runs_are_summed_overall_and_by_model_and_the_last_run_counts_once():
    first = stated("a", 12.5, flash=2.5, pro=10)
    last = stated("b", 0.5, flash=0.5, without={"new": 3})
    assert cost_tiles([first, last, last, {"run_id": "c", "cost": None}, {"run_id": "d"}]) == [
        ("13.00 USD", "cost", "of 2 runs, by the prices given; without a price: 3 questions to new"),
        ("3.0000 USD", "cost of a model", "flash"),
        ("10.00 USD", "cost of a model", "pro"),
    ]


def test_currencies_are_not_added_up_and_one_may_be_missing():
    assert cost_tiles([stated("a", 0.25, flash=0.25), stated("b", 1.0, None, flash=1.0)]) == [
        ("0.2500 USD", "cost", "of 1 run, by the prices given"),
        ("1.0000", "cost", "of 1 run, by the prices given"),
    ]
    assert cost_tiles([]) == []
