"""Makes the page's plots. Each has a sentence that describes it, and a table of its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb
from markupsafe import Markup

from groundrows.pipeline.pages.templates import counted, milliseconds, number, score, share
from groundrows.pipeline.report import figures, plots
from groundrows.pipeline.report.compare import Comparison
from groundrows.pipeline.report.figures import Bin, Checks, Latency, Timeline, Totals
from groundrows.pipeline.report.retrieval import Retrieval


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its ID in the page, title, a sentence that describes it, the picture, and its figures."""

    name: str
    title: str
    summary: str
    svg: Markup
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def answer_plots(db: duckdb.DuckDBPyConnection, totals: Totals) -> list[Plot]:
    """Return the plots of scores and supported claims, for the values that the service sent."""
    found = []
    scores, coverage = figures.shares(db, "score"), figures.shares(db, "coverage")
    if scores:
        missing = totals.answers - totals.scored
        without = f"; {missing:,} have none" if missing else ""
        found.append(
            _shares(
                "scores",
                "Grounding score",
                f"Median {score(totals.score)}{without}.",
                scores,
                "score",
                "answers",
            )
        )
    if coverage:
        said = f"Median {share(totals.coverage)} of an answer's characters lie in supported claims."
        found.append(_shares("coverage", "Support coverage", said, coverage, "share of the text", "answers"))
    per_answer = figures.claims_per_answer(db)
    mean = totals.claims / totals.answers
    said = f"{counted(totals.claims, 'claim')}, {mean:.1f} per answer."
    found.append(_bars("claims", "Claims per answer", said, per_answer, "claims", "answers"))
    unsupported = figures.unsupported_shares(db)
    if unsupported:
        bad = sum(count for name, count in unsupported if name != figures.UNSUPPORTED[0])
        have = f"{counted(bad, 'answer')} {'has' if bad == 1 else 'have'}"
        said = f"{share(totals.unsupported_share)} of all claims; {have} at least one."
        found.append(
            _bars(
                "unsupported",
                "Claims without support",
                said,
                unsupported,
                "share of the answer's claims",
                "answers",
            )
        )
    claims = figures.claim_scores(db)
    if claims:
        count = sum(each.count for each in claims)
        said = f"How well the sources support a claim, for {counted(count, 'claim')} with a score."
        found.append(_shares("claim-scores", "Support score of claims", said, claims, "score", "claims"))
    return found


def check_plots(checks: Checks) -> list[Plot]:
    """Return the plots of the grounding checks' scores."""
    found = []
    if checks.scores:
        said = f"{counted(checks.count, 'answer')} checked, median {score(checks.median)}."
        found.append(_shares("checks", "Grounding checks", said, checks.scores, "score", "answers"))
    if checks.claim_scores:
        count = sum(each.count for each in checks.claim_scores)
        said = f"{counted(count, 'claim')} scored by the checks."
        found.append(
            _shares("checked-claims", "Checked claims", said, checks.claim_scores, "score", "claims")
        )
    return found


def call_plots(timeline: Timeline | None, latency: Latency | None, limit: float | None) -> list[Plot]:
    """Return the plots of the rate and the latency of calls; none for a run without calls."""
    found = []
    if timeline is not None:
        most = max(each.per_minute for each in timeline.moments)
        held = f" (the limit is {limit:,.0f})" if limit else ""
        span = "second" if timeline.step == 1 else f"{timeline.step:,} s"
        found.append(
            Plot(
                "pace",
                "Quota used over time",
                f"Calls that returned an answer: at most {most:,.0f} a minute{held}; one bar per {span}. "
                "Failed and retried calls are not counted.",
                Markup(plots.rates(timeline, limit)),
                ("from, UTC", "calls a minute", "median", "95th percentile"),
                [
                    (
                        f"{datetime.fromtimestamp(each.begin, UTC):%d %b %H:%M:%S}",
                        number(each.per_minute),
                        milliseconds(each.p50),
                        milliseconds(each.p95),
                    )
                    for each in timeline.moments
                ],
            )
        )
    if latency is not None:
        found.append(_latency(latency))
    if timeline is not None and len(timeline.moments) > 1:
        found.append(
            Plot(
                "latency-over-time",
                "Latency over time",
                "Median and 95th percentile of the calls that started in each span.",
                Markup(plots.latencies(timeline)),
                ("from, UTC", "median", "95th percentile"),
                [
                    (
                        f"{datetime.fromtimestamp(each.begin, UTC):%d %b %H:%M:%S}",
                        milliseconds(each.p50),
                        milliseconds(each.p95),
                    )
                    for each in timeline.moments
                ],
            )
        )
    return found


def _latency(latency: Latency) -> Plot:
    names = {"p50": "median", "p95": "95 %", "p99": "99 %"}
    marks = [(latency.percentiles[name], said) for name, said in names.items()]
    at = {name: milliseconds(value) for name, value in latency.percentiles.items()}
    return Plot(
        "latency",
        "Latency",
        f"50 % of the calls took at most {at['p50']}, 95 % at most {at['p95']}, 99 % at most {at['p99']}; "
        f"the slowest took {at['max']}.",
        Markup(plots.histogram(latency.bins, "milliseconds", "calls", marks=marks, log=True, form=",~r")),
        ("percentile", "latency"),
        list(at.items()),
    )


def change_plots(comparison: Comparison) -> list[Plot]:
    """Return the plot of the changes of scores between two runs; none when no answer has both scores."""
    if not comparison.changes:
        return []
    mean = comparison.mean_change or 0
    said = f"{counted(comparison.scored, 'answer')} with a score in both runs; {mean:+.3f} on average."
    return [
        _shares(
            "changes", "Change of the grounding score", said, comparison.changes, "now − before", "answers"
        )
    ]


def threshold_plot(found: Retrieval) -> Plot:
    """Return the plot of how many answers would be grounded at each threshold."""
    last = len(found.grounded) - 1
    return Plot(
        "thresholds",
        "Grounded at each threshold",
        f"From {found.predictions:,} (all) at 0 to {found.grounded[-1]:,} at 1. The line shows the slider's "
        "value.",
        Markup(plots.thresholds(found.grounded, found.threshold)),
        ("threshold", "grounded", "share"),
        [
            (
                f"{step / last:.2f}",
                number(found.grounded[step]),
                share(found.grounded[step] / found.predictions),
            )
            for step in range(0, last + 1, 5)
        ],
    )


def _shares(name: str, title: str, summary: str, bins: Sequence[Bin], x: str, y: str) -> Plot:
    rows = [(f"{each.low:.2f} to {each.high:.2f}", number(each.count)) for each in bins]
    return Plot(name, title, summary, Markup(plots.histogram(bins, x, y)), (x, y), rows)


def _bars(name: str, title: str, summary: str, counts: Sequence[tuple[str, int]], x: str, y: str) -> Plot:
    rows = [(each, number(count)) for each, count in counts]
    return Plot(name, title, summary, Markup(plots.bars(counts, x, y)), (x, y), rows)
