"""What the calls of a directory's runs cost, as each run stated it by the prices it was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from groundrows.pipeline.pages.templates import counted


@dataclass(slots=True)
class Cost:
    """The cost of runs that were given prices in one currency.

    Attributes:
        currency: The currency; empty where the prices named none.
        runs: Number of runs.
        total: The cost of all of them.
        by_model: The cost by model.
        without_price: Number of questions by model, of models that had no price.
    """

    currency: str
    runs: int = 0
    total: float = 0.0
    by_model: dict[str, float] = field(default_factory=dict)
    without_price: Counter[str] = field(default_factory=Counter)


def costs(summaries: Iterable[Mapping[str, Any]]) -> list[Cost]:
    """Sum the costs up, one sum for each currency.

    Args:
        summaries: What runs said of themselves; one that comes twice counts once.
    """
    found: dict[str, Cost] = {}
    seen = set()
    for summary in summaries:
        name = (summary.get("run_id"), summary.get("started_at"), summary.get("wall_seconds"))
        stated = summary.get("cost")
        if name in seen or not isinstance(stated, dict):
            continue
        seen.add(name)
        currency = stated.get("currency") or ""
        cost = found.setdefault(currency, Cost(currency))
        cost.runs += 1
        cost.total += stated.get("total", 0)
        for model, each in stated.get("by_model", {}).items():
            cost.by_model[model] = cost.by_model.get(model, 0.0) + each
        cost.without_price.update(stated.get("questions_without_price"))
    return list(found.values())


def cost_tiles(summaries: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Return the value, the name and a note for each cost, overall and by model."""
    tiles = []
    for cost in costs(summaries):
        unpriced = ", ".join(
            f"{counted(n, 'question')} to {model}" for model, n in cost.without_price.items()
        )
        note = f"of {counted(cost.runs, 'run')}, by the prices given"
        if unpriced:
            note += f"; without a price: {unpriced}"
        tiles.append((_money(cost.total, cost), "cost", note))
        if len(cost.by_model) > 1:
            tiles += [(_money(each, cost), "cost of a model", model) for model, each in cost.by_model.items()]
    return tiles


def _money(amount: float, cost: Cost) -> str:
    digits = 2 if amount >= 10 else 4
    return f"{amount:,.{digits}f} {cost.currency}".strip()
