"""The section on what a service counts: its figures, and its plots beside their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb
from markupsafe import Markup

from groundrows.pipeline.pages.templates import counted, number, share
from groundrows.pipeline.report import plots, spent
from groundrows.pipeline.report.drawn import Plot
from groundrows.pipeline.report.read import TOKENS

_KINDS = {"prompt": "prompt", "answer": "answer", "thought": "thoughts", "tool": "tools", "cached": "cached"}
_SLANTED = -30


@dataclass(frozen=True, slots=True)
class Spent:
    """The section: value, name and a note for each figure; and plots. Empty where nothing is told."""

    tiles: list[tuple[str, ...]]
    plots: list[Plot]


def spent_section(db: duckdb.DuckDBPyConnection, run_id: str | None, limit: float | None) -> Spent:
    """Find out and draw.

    Args:
        db: The tables of a run.
        run_id: The run whose tokens are shown over time.
        limit: How many tokens a minute it was held to, if it was.
    """
    return Spent(_tiles(db), [*_tokens(db, run_id, limit), *_searches(db), *_endings(db)])


def _tiles(db: duckdb.DuckDBPyConnection) -> list[tuple[str, ...]]:
    tiles: list[tuple[str, ...]] = []
    tokens, searches = spent.tokens(db), spent.searches(db)
    if tokens is not None:
        kinds = [(getattr(tokens, kind), name) for kind, name in _KINDS.items()]
        said = ", ".join(f"{count:,} {name}" for count, name in kinds if count)
        tiles.append((number(tokens.total), "tokens", said))
        calls = counted(tokens.calls, "call")
        tiles.append((number(tokens.total / tokens.calls), "tokens an answer", f"over {calls}"))
    if searches is not None:
        answers = searches.searched + searches.unsearched
        tiles.append((number(searches.billed), "searches billed", "distinct queries of each answer"))
        tiles.append((share(searches.searched / answers), "searched", f"of {counted(answers, 'answer')}"))
    return tiles


def _tokens(db: duckdb.DuckDBPyConnection, run_id: str | None, limit: float | None) -> list[Plot]:
    found = spent.tokens_over_time(db, run_id)
    if found is None:
        return []
    rate = found.rate
    most = max(each.per_minute for each in rate.moments)
    held = f", held to {limit:,.0f}" if limit else ""
    return [
        Plot(
            "tokens",
            "Tokens over time",
            f"Tokens of calls that brought an answer, at most {most:,.0f} a minute{held}; a bar each "
            f"{'second' if rate.step == 1 else f'{rate.step:,} s'}. Those of failed calls are not shown.",
            Markup(plots.rates(rate, limit, "tokens")),
            ("from, UTC", *(_KINDS.get(kind, kind) for kind in TOKENS)),
            [
                (f"{datetime.fromtimestamp(begin, UTC):%d %b %H:%M:%S}", *map(number, sums))
                for begin, sums in found.sums.items()
            ],
        )
    ]


def _searches(db: duckdb.DuckDBPyConnection) -> list[Plot]:
    found = spent.searches(db)
    if found is None:
        return []
    said = f"The model searched the web for {counted(found.searched, 'answer')}"
    said += f" and answered {found.unsearched:,} without a search."
    counts = [("searched", found.searched), ("not searched", found.unsearched)]
    return [_bars("searched", "Searched or not", said, counts, "answers")]


def _endings(db: duckdb.DuckDBPyConnection) -> list[Plot]:
    found = []
    reasons = spent.finish_reasons(db)
    if reasons:
        other = sum(count for name, count in reasons if name != "STOP")
        said = f"Why answers end; {counted(other, 'answer')} for another reason than STOP."
        found.append(_bars("finish-reasons", "Finish reasons", said, reasons, "answers"))
    for code, name, title, what in (
        ("PROMPT_BLOCKED", "blocked-prompts", "Blocked prompts", "prompt"),
        ("ANSWER_BLOCKED", "blocked-answers", "Withheld answers", "answer"),
    ):
        counts = spent.blocked(db, code)
        if counts:
            total = counted(sum(count for _, count in counts), what)
            said = f"{total} held back by the service, by its reason."
            found.append(_bars(name, title, said, counts, f"{what}s"))
    return found


def _bars(name: str, title: str, summary: str, counts: Sequence[tuple[str, int]], what: str) -> Plot:
    rows = [(each, number(count)) for each, count in counts]
    return Plot(
        name,
        title,
        summary,
        Markup(plots.bars(counts, "", what, angle=_SLANTED)),
        ("reason" if name != "searched" else "web search", what),
        rows,
    )
