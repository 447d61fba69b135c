"""Collects everything that the page shows: from a run's tables and `run.json` to the template's context."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any

import duckdb

from groundrows.pipeline.options.report import ReportOptions
from groundrows.pipeline.pages.templates import counted, number, score, share
from groundrows.pipeline.pages.text import cut
from groundrows.pipeline.query.run import Run
from groundrows.pipeline.report import figures
from groundrows.pipeline.report.attention import Attention, attention
from groundrows.pipeline.report.checked import checked_attention
from groundrows.pipeline.report.compare import compare
from groundrows.pipeline.report.cost import cost_tiles
from groundrows.pipeline.report.drawn import (
    answer_plots,
    call_plots,
    change_plots,
    check_plots,
    threshold_plot,
)
from groundrows.pipeline.report.failing import failure_views
from groundrows.pipeline.report.read import ANSWER, whole_rows
from groundrows.pipeline.report.referenced import Referenced, referenced
from groundrows.pipeline.report.retrieval import PROMPTS_A_STEP, STEPS, Prompt, Retrieval, retrieval
from groundrows.pipeline.report.spent_drawn import spent_section
from groundrows.pipeline.storage import summaries
from groundrows.schemas.durations import duration

# Number of prompts shown on each side of the threshold.
AROUND = 6
MOST_OF_REPEATED = 400


def gather(
    db: duckdb.DuckDBPyConnection, options: ReportOptions, run: Run, earlier: Run | None
) -> dict[str, Any]:
    """Return the page's context. The database has the schema `this`, and `earlier` to compare with.

    Raises:
        UsageError: A file can't be read.
    """
    db.execute("SET schema = 'this'")
    summary = run.summary or {}
    totals = figures.totals(db)
    run_id = summary.get("run_id") or figures.last_run(db)
    flags = summary.get("flags") or {}
    limit = flags.get("requests_per_minute")
    checks, latency = figures.checks(db), figures.latency(db)
    timeline = figures.timeline(db, run_id)
    found = retrieval(db)
    costs = cost_tiles(summaries.every(run.directory))
    repeated, compared = figures.repeated(db), referenced(db, run)
    comparison = None if earlier is None else compare(db, run, earlier)
    sites, documents = figures.sources(db)
    start = 0 if found is None else round(found.threshold * STEPS)
    return {
        "version": version("groundrows"),
        "directory": run.directory,
        "earlier": earlier.directory if earlier else None,
        "made_at": datetime.now(UTC),
        "run": _about(summary, run_id),
        "notices": _notices(run, totals),
        "balance": _balance(summary),
        "tiles": [
            *_answer_tiles(totals, repeated, compared),
            *(each for each in costs if each[1] == "cost"),
            *_tiles(summary, totals, checks, options.price_per_1000_requests),
        ],
        "repeated": _repeated_texts(run, repeated),
        "referenced": compared,
        "totals": totals,
        "plots": {
            "answers": answer_plots(db, totals) if totals.answers else [],
            "checks": check_plots(checks) if checks else [],
            "calls": call_plots(timeline, latency, limit),
            "comparison": change_plots(comparison) if comparison else [],
            "thresholds": threshold_plot(found) if found else None,
        },
        "costs": costs,
        "spent": spent_section(db, run_id, flags.get("tokens_per_minute")),
        "sites": sites,
        "documents": documents,
        "retrieval": found,
        "start": start,
        "checked": checks is not None,
        **_prompts(found, start),
        "failures": failure_views(db, run),
        "attention": _attention(db, run, options.answers, totals),
        "comparison": comparison,
        "export": partial(_export, run.directory),
        "prompts_a_step": PROMPTS_A_STEP,
    }


def _attention(db: duckdb.DuckDBPyConnection, run: Run, most: int, totals: figures.Totals) -> Attention:
    # A run that only checks given answers writes no answers.
    return attention(db, run, most) if totals.answers else checked_attention(db, run, most)


def _about(summary: Mapping[str, Any], run_id: str | None) -> dict[str, Any]:
    flags = summary.get("flags") or {}
    started = summary.get("started_at")
    return {
        "run_id": run_id,
        "started_at": datetime.fromisoformat(started) if started else None,
        "flags": {"service": flags.get("service"), "location": flags.get("location")},
    }


def _notices(run: Run, totals: figures.Totals) -> list[str]:
    notices = []
    if run.summary is None:
        notices.append(
            "This run was stopped or is still running: this report covers the rows written so far. Run the "
            "same command again to continue a stopped run."
            if run.stopped
            else "There is no run.json here (a stream has none), so the numbers of records read and of calls "
            "made are unknown, and this report covers the rows only. If a run over an archive was stopped "
            "here, the same command continues it while .run.json exists; otherwise --overwrite starts again."
        )
    if totals.runs > 1:
        notices.append(
            f"{totals.runs:,} runs wrote these rows into the same directory{_in_total(run.summary)}. "
            "Records, calls and the plots over time are those of the last run; other figures count all rows."
        )
    return notices


def _in_total(summary: Mapping[str, Any] | None) -> str:
    """Return the directory's totals over all runs; empty for a summary of the first versions."""
    said = (summary or {}).get("directory")
    if not said:
        return ""
    return (
        f", in which {counted(said['answered'], 'record')} {_was(said['answered'])} answered,"
        f" {said['failed_open']:,} still {'fails' if said['failed_open'] == 1 else 'fail'}, and"
        f" {said['made_good']:,} {_was(said['made_good'])} made good after a failure"
    )


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _balance(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    if "records_read" not in summary:
        return None
    parts = [
        {"name": name.split("_")[0], "label": label, "count": summary.get(name, 0)}
        for name, label in (
            ("answered", "answered"),
            ("failed", "failed"),
            ("duplicates", "duplicates"),
            ("already_answered", "already answered"),
        )
    ]
    return {"read": summary["records_read"], "parts": parts, "balanced": bool(summary.get("balanced"))}


def _answer_tiles(
    totals: figures.Totals, repeated: figures.Repeated, compared: Referenced | None
) -> list[tuple[str, ...]]:
    """Return what a reader should know first: how many answers there are, and how good they can be at all."""
    if not totals.answers:
        return []
    tiles: list[tuple[str, ...]] = [
        (number(totals.answers), "answers", f"to {counted(totals.questions, 'question')}"),
        (
            number(totals.without_source),
            "answers without any source",
            f"{share(totals.without_source / totals.answers)} of the answers",
        ),
    ]
    if repeated.answers:
        often = f"same text for different questions; one text {repeated.top[0][1]:,} times"
        tiles.append((number(repeated.answers), "identical answers", often))
    if compared is not None:
        right = f"contain a reference answer; {compared.exact:,} equal one"
        tiles.append((share(compared.contained / compared.answers), "accuracy", right))
    return tiles


def _repeated_texts(run: Run, repeated: figures.Repeated) -> list[tuple[int, str]]:
    """Return the most frequent texts, each after the number of answers that have it."""
    keys = [key for key, _ in repeated.top]
    rows = whole_rows(run, "answers", ("answer_text",), ANSWER, keys)
    texts = {row["key"]: cut(row["answer_text"], MOST_OF_REPEATED) for row in rows}
    return [(count, texts[key]) for key, count in repeated.top]


def _export(directory: str, where: str) -> list[str]:
    """Return the words of the command that exports the answers for which a condition holds."""
    words = ["groundrows", "export", directory, "-o", "answers.xlsx", "--flat", f"--where={where}"]
    return [shlex.quote(word) for word in words]


def _tiles(
    summary: Mapping[str, Any], totals: figures.Totals, checks: figures.Checks | None, price: float | None
) -> list[tuple[str, ...]]:
    """Return the value, the name and a note for each figure of the first section."""
    tiles: list[tuple[str, ...]] = []
    if "calls" in summary:
        calls, by_code = summary["calls"], summary.get("retries_by_code") or {}
        reasons = ", ".join(f"{count:,} {code}" for code, count in by_code.items())
        tiles.append((number(calls), "calls"))
        tiles.append((number(summary["retries"]), "retries", reasons))
        if price is not None:
            tiles.append(
                (f"{calls * price / 1000:,.2f}", "cost", f"at {price:g} for 1,000 calls, retries included")
            )
        tiles.append((duration(summary["wall_seconds"]), "time"))
        if summary.get("throttled_seconds"):
            tiles.append((duration(summary["throttled_seconds"]), "waited for the limit", "over all workers"))
        if summary.get("rate_used") is not None:
            limit = (summary.get("flags") or {}).get("requests_per_minute")
            tiles.append(
                (share(summary["rate_used"]), "of the limit used", f"{limit:,.0f} a minute" if limit else "")
            )
    if totals.answers:
        if totals.from_ledger:
            tiles.append((number(totals.from_ledger), "from the ledger", "without another call"))
        if totals.score is not None:
            tiles.append((score(totals.score), "median grounding score"))
        if totals.coverage is not None:
            tiles.append((share(totals.coverage), "median support", "of an answer's text"))
        if totals.unsupported_share is not None:
            tiles.append((share(totals.unsupported_share), "claims without support", f"of {totals.claims:,}"))
        if totals.first_part_ms is not None:
            tiles.append(
                (f"{totals.first_part_ms:,.0f} ms", "to the first part", "median of the streamed answers")
            )
    if checks is not None and checks.median is not None:
        tiles.append((score(checks.median), "median check score", f"of {counted(checks.scored, 'check')}"))
    of_checks = summary.get("checks")
    if of_checks:
        failed, skipped = counted(of_checks["failed"], "check"), counted(of_checks["skipped"], "answer")
        said = f"{failed} failed, {skipped} not checkable"
        tiles.append((number(of_checks["calls"]), "calls of checks", said))
    if "failed" not in summary:
        tiles.append((number(totals.failures), "failures"))
    return tiles


def _prompts(found: Retrieval | None, start: int) -> dict[str, Any]:
    if found is None:
        return {"above": [], "below": [], "data": {}}
    split = next(
        (place for place, prompt in enumerate(found.prompts) if prompt.step >= start), len(found.prompts)
    )
    return {
        "above": found.prompts[split : split + AROUND],
        "below": found.prompts[max(split - AROUND, 0) : split][::-1],
        "data": {
            "around": AROUND,
            "grounded": found.grounded,
            "prompts": [_for_script(prompt) for prompt in found.prompts],
        },
    }


def _for_script(prompt: Prompt) -> tuple[int, float, bool, str]:
    return prompt.step, round(prompt.prediction, 4), prompt.searched, prompt.text
