"""What a run spent, as `run.json` says it: tokens, searches, budgets, and cost by the prices given."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from groundrows.pipeline.run.prices import Prices
from groundrows.schemas.errors import LedgerError
from groundrows.schemas.spending import NOTHING, Spent
from groundrows.transforms.generate.calling.budgets import count_name, unit_limits
from groundrows.transforms.generate.ledger.uri import open_ledger
from groundrows.transforms.generate.settings import CallSettings

_LOGGER = logging.getLogger(__name__)


def usage_of(by_model: Mapping[str, Spent]) -> dict[str, Any] | None:
    """Tokens and searches of a run's calls, failed ones included; None where no call took any.

    Args:
        by_model: What calls of this run took.
    """
    if not by_model:
        return None
    whole = sum(by_model.values(), NOTHING)
    return {**asdict(whole), "by_model": {model: asdict(spent) for model, spent in by_model.items()}}


def budgets_of(calls: CallSettings, by_model: Mapping[str, Spent]) -> dict[str, Any]:
    """The budgets in tokens and searches, by their flags: their limits, and by how much they were passed.

    What was spent is counted in the ledger, over all processes, and over all starts of a run that was stopped
    in between. What a killed process had booked counts as spent.

    Args:
        calls: How the run called.
        by_model: What calls took, which is all there is to count where there is no ledger.
    """
    limits = {flag: limit for flag, limit in unit_limits(calls).items() if limit is not None}
    if not limits:
        return {}
    spent = _counted(calls) or _summed(by_model)
    return {
        flag: {"limit": limit, "spent": spent[flag], "passed_by": max(0, spent[flag] - limit)}
        for flag, limit in limits.items()
    }


def _counted(calls: CallSettings) -> dict[str, int] | None:
    """What the ledger counted; None without one, or where it can't be asked any more."""
    if calls.ledger == "none":
        return None
    try:
        with closing(open_ledger(calls.ledger)) as ledger:
            return {flag: ledger.count(count_name(calls.run_id, flag), 0) for flag in unit_limits(calls)}
    except LedgerError as error:
        _LOGGER.warning("%s Budgets are summed up from the calls of this start alone.", error)
        return None


def _summed(by_model: Mapping[str, Spent]) -> dict[str, int]:
    whole = sum(by_model.values(), NOTHING)
    return {"max_tokens": whole.total + whole.unreported_tokens, "max_searches": whole.searches}


def cost_of(by_model: Mapping[str, Spent], questions: Mapping[str, int], prices: Prices) -> dict[str, Any]:
    """What calls cost, overall and by model, and how many questions asked models that have no price.

    Calls whose usage is not known are left out; `usage` says how many there are.

    Args:
        by_model: What calls took.
        questions: How many questions were asked of each model.
        prices: The prices.
    """
    costs = {
        model: round(prices.models[model].of(spent), 9)
        for model, spent in by_model.items()
        if model in prices.models
    }
    return {
        "currency": prices.currency,
        "total": round(sum(costs.values()), 9),
        "by_model": costs,
        "questions_without_price": {
            model: questions.get(model, 0) for model in by_model if model not in prices.models
        },
    }


def lines(summary: Mapping[str, Any]) -> list[str]:
    """The same for people: what a summary says of it, a line each; none where it says nothing."""
    said = []
    if usage := summary.get("usage"):
        said.append(_usage_line(usage))
    for flag, budget in (summary.get("budgets") or {}).items():
        passed = budget["passed_by"]
        how = f", passed by {passed:,}, which was in flight when it was reached" if passed else ""
        said.append(f"--{flag}={budget['limit']}: {budget['spent']:,} spent{how}")
    if cost := summary.get("cost"):
        said.append(cost_line(cost))
    return said


def _usage_line(usage: Mapping[str, Any]) -> str:
    kinds = ("prompt", "answer", "thought", "tool")
    of = ", ".join(f"{usage[kind]:,} {kind}" for kind in kinds if usage[kind])
    line = f"tokens: {usage['total']:,}{f' ({of})' if of else ''}; searches: {usage['searches']:,}"
    if usage["unreported_calls"]:
        line += (
            f"; calls that did not report what they took: {usage['unreported_calls']:,}, of which about"
            f" {usage['unreported_tokens']:,} tokens more are expected"
        )
    return line


def cost_line(cost: Mapping[str, Any]) -> str:
    """What a cost comes to, in one line."""
    money = f" {cost['currency']}" if cost["currency"] else ""
    line = f"cost: {cost['total']:,.4f}{money} by the prices given"
    if len(cost["by_model"]) > 1:
        line += f" ({', '.join(f'{model} {each:,.4f}' for model, each in cost['by_model'].items())})"
    if unpriced := cost["questions_without_price"]:
        line += "; no price covers " + ", ".join(
            f"{count:,} {'question' if count == 1 else 'questions'} to {model}"
            for model, count in unpriced.items()
        )
    return line
