"""The summary of a finished run: `run.json` for programs, and a few lines for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from groundrows.pipeline.options.run import RunOptions, shown_flags
from groundrows.pipeline.run import spending
from groundrows.pipeline.run.accounting import Account
from groundrows.pipeline.run.examples import Example
from groundrows.pipeline.run.prices import Prices
from groundrows.schemas.codes import EMPTY_ANSWER, INTERNAL_ERROR, NOT_ATTEMPTED, RETRYABLE_CODES

# Failures that may not occur again when the same record is asked again.
WORTH_REPLAYING = RETRYABLE_CODES | {EMPTY_ANSWER, NOT_ATTEMPTED, INTERNAL_ERROR}


def run_json(
    account: Account,
    options: RunOptions,
    *,
    run_id: str,
    balanced: bool,
    quantiles: Mapping[str, Mapping[str, float]],
    row_format: str,
    started_at: str,
    wall_seconds: float,
    budgets: Mapping[str, Any] | None = None,
    prices: Prices | None = None,
) -> dict[str, Any]:
    """Return the content of `run.json`.

    Args:
        account: What the run did.
        options: Its flags.
        run_id: Its name.
        balanced: Whether the count law holds.
        quantiles: Of its answers, by measure.
        started_at: When it started, in ISO 8601.
        wall_seconds: How long it took.
        budgets: Its budgets in tokens and searches, as from `spending.budgets_of`.
        prices: What calls cost, or None where that is not known.
    """
    limit = options.requests_per_minute
    minutes = wall_seconds / 60
    spent, asked = account.spent, account.questions_by_model
    return {
        "run_id": run_id,
        "version": version("groundrows"),
        "balanced": balanced,
        "records_read": account.records_read,
        "answered": account.answered,
        "failed": account.failed,
        "duplicates": account.duplicates,
        "already_answered": account.already_answered,
        "calls": account.calls,
        "retries": account.retries,
        "from_ledger": account.from_ledger,
        "retries_by_code": dict(account.retries_by_code),
        "failures_by_code": dict(account.failures_by_code),
        "rows": dict(account.rows),
        "row_format": row_format,
        "checks": asdict(account.checks) if options.check_grounding else None,
        "usage": spending.usage_of(spent),
        "budgets": dict(budgets or {}),
        "cost": None if prices is None else spending.cost_of(spent, asked, prices),
        "throttled_seconds": account.throttled_seconds,
        "rate_used": round(account.calls / (limit * minutes), 4) if limit and minutes else None,
        "quantiles": {name: dict(values) for name, values in quantiles.items()},
        "started_at": started_at,
        "wall_seconds": round(wall_seconds, 3),
        "flags": shown_flags(options),
    }


def for_people(summary: Mapping[str, Any], output: str, examples: Sequence[Example] = ()) -> str:
    """Return the summary as a few lines of text.

    Args:
        summary: The content of `run.json`.
        output: The output directory, as the user gave it.
        examples: Example failures, at most one for each code.
    """
    output = output.encode("utf-8", "backslashreplace").decode()  # a name that is not UTF-8 can't be printed
    failures = _by_code(summary["failures_by_code"])
    lines = [
        f"{summary['records_read']:,} records read = {summary['answered']:,} answered"
        f" + {summary['failed']:,} failed + {summary['duplicates']:,} duplicates"
        f" + {summary['already_answered']:,} already answered"
        f" ({'balanced' if summary['balanced'] else 'NOT BALANCED'})",
        f"{summary['calls']:,} calls, {summary['retries']:,} of them retries,"
        f" in {summary['wall_seconds']:.1f} s",
    ]
    if summary.get("from_ledger"):
        lines.append(
            f"{summary['from_ledger']:,} answers came from the ledger, where an earlier run stored them"
        )
    if "replay" in summary:
        lines.insert(0, _replayed(summary["replay"]))
    if failures:
        lines.append(f"failures: {failures}")
    told = set(summary["failures_by_code"])
    lines += [f"  {example.line()}" for example in examples if example.code in told]
    checks = summary.get("checks")
    if checks:
        lines.append(
            f"checks: {checks['checked']:,} answers checked, {checks['failed']:,} checks failed,"
            f" {checks['skipped']:,} answers with nothing to check; {checks['calls']:,} calls,"
            f" {checks['retries']:,} of them retries"
        )
        if checks["failures_by_code"]:
            lines.append(f"failed checks: {_by_code(checks['failures_by_code'])}")
            lines += [f"  {example.line()}" for example in examples if example.code not in told]
    lines += spending.lines(summary)
    latency = summary["quantiles"].get("latency_ms")
    if latency:
        lines.append(
            f"latency: {latency['p50']:.0f} ms median, {latency['p95']:.0f} ms p95,"
            f" {latency['max']:.0f} ms at most"
        )
    directory = summary.get("directory") or {}
    if directory.get("runs", 1) > 1:
        lines.append(
            f"in {output} after {directory['runs']:,} runs: {directory['answered']:,} answered,"
            f" {directory['failed_open']:,} still failed, {directory['made_good']:,} made good"
        )
    rows = ", ".join(f"{count:,} {table}" for table, count in summary["rows"].items())
    lines.append(
        f"rows of this run in {output}: {rows}"
        if directory.get("runs", 1) > 1
        else f"rows in {output}: {rows}"
    )
    codes = {*summary["failures_by_code"], *((checks or {}).get("failures_by_code") or {})}
    if codes & WORTH_REPLAYING:
        lines.append(
            f"to ask the failed ones again: groundrows replay {_flag('failures', output)} "
            f"{_flag('output', output)} --append, and the other flags of this run except --input"
        )
    lines.append(f"to look at them: groundrows report {shlex.quote(output)}")
    return "\n".join(lines)


def nothing_done(output: str, also: Mapping[str, Any]) -> str:
    """Return the summary of a run that read no record, in a directory with the rows of earlier runs."""
    output = output.encode("utf-8", "backslashreplace").decode()
    lines = [_replayed(also["replay"])] if "replay" in also else []
    return "\n".join([*lines, f"There was nothing to ask, so {output} and its run.json are unchanged."])


def _by_code(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {code}" for code, count in failures.items())


def _flag(name: str, value: str) -> str:
    return shlex.quote(f"--{name}={value}")


def _replayed(replay: Mapping[str, Any]) -> str:
    left_out = ", ".join(
        f"{count:,} {reason.replace('_', ' ')}" for reason, count in replay["left_out"].items() if count
    )
    line = f"replay: {replay['found']:,} failures found, {replay['replayed']:,} of them replayed"
    return f"{line}; left out: {left_out}" if left_out else line
