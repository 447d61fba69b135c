"""`groundrows plan`: estimates the calls, time and cost of a run. It makes no call and leaves no files.

The records that were seen are noted in a temporary SQLite file, so that memory stays bounded.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from groundrows.pipeline.emulator.options import add_flags, from_args
from groundrows.pipeline.options.parser import FlagParser
from groundrows.pipeline.options.plan import PlanOptions, parse_plan
from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.run.append import answered_turns, note_unchecked
from groundrows.pipeline.run.expected import expected_of
from groundrows.pipeline.run.prices import Prices
from groundrows.pipeline.run.settings import check_settings, prices_of, read_settings
from groundrows.pipeline.run.shown import cut, escaped, shown
from groundrows.pipeline.run.spending import cost_line, cost_of, usage_of
from groundrows.pipeline.run.survey import Survey, Surveyor
from groundrows.pipeline.sources.seam import Source, source_of
from groundrows.pipeline.storage.output import finished_files, is_finished, ledger_in
from groundrows.pipeline.storage.uris import without_password
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.durations import coarse_duration
from groundrows.schemas.errors import LedgerError, NoLedgerError, UsageError
from groundrows.schemas.question import RecordSettings
from groundrows.schemas.spending import CHARACTERS_PER_TOKEN, NOTHING, Spent
from groundrows.transforms.generate.calling.answered import AnsweredTurns
from groundrows.transforms.generate.ledger.base import Ledger
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from groundrows.transforms.generate.ledger.uri import open_ledger
from groundrows.transforms.generate.settings import CallSettings

REASONS_SHOWN = 10


def plan(argv: list[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        UsageError: Something is wrong with the flags or the ledger.
    """
    options = parse_plan(argv)
    source = source_of(options.run)
    records, prices = read_settings(options.run), prices_of(options.run)
    try:
        survey = _survey(options.run, source, records)
    except LedgerError as error:
        raise UsageError(str(error)) from None
    found = reckon(survey, options, prices)
    print(as_json(found) if options.as_json else for_people(found))
    return 0


def _survey(options: RunOptions, source: Source, records: RecordSettings | CheckSettings) -> Survey:
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="groundrows-"))
        ledger = stack.enter_context(closing(_ledger(options)))
        scratch = stack.enter_context(closing(SqliteLedger(os.path.join(directory, "seen.sqlite"))))
        answered = _answered(options, os.path.join(directory, "answered.sqlite"))
        if answered is not None:
            stack.enter_context(closing(answered))
        calls = _call_settings(options)
        checks = check_settings(options, calls)
        surveyor = Surveyor(records, calls, ledger, scratch, answered, checks, options.citation_threshold)
        surveyor.read(source.items())
        return surveyor.found


def _ledger(options: RunOptions) -> Ledger:
    uri = _ledger_uri(options)
    try:
        return open_ledger(uri, read_only=True) if uri else MemoryLedger()
    except NoLedgerError:
        return MemoryLedger()


def _ledger_uri(options: RunOptions) -> str | None:
    if options.ledger is not None:
        return None if options.ledger == "none" else options.ledger
    return ledger_in(options.output) if options.output else None


def _answered(options: RunOptions, path: str) -> AnsweredTurns | None:
    """Return the turns that the run's output has answers for, or None."""
    if not options.output or options.overwrite:
        return None
    if is_finished(options.output) and not options.append:
        return None
    files = finished_files(options.output, "answers")
    if files is None:
        return None
    turns = answered_turns(files, path)
    if options.check_grounding:
        note_unchecked(turns, lambda table: finished_files(options.output, table) or ())
    return turns


def _call_settings(options: RunOptions) -> CallSettings:
    return CallSettings(
        endpoint="",
        secure=False,
        location=options.location,
        api_version=options.api_version,
        run_id="plan",
        batch_size=options.batch_size,
        share_identical=options.share_identical,
        method=options.mode,  # type: ignore[arg-type]
        stream_answers=options.stream_answers,
        service=options.asked,
    )


def reckon(survey: Survey, options: PlanOptions, prices: Prices | None = None) -> dict[str, Any]:
    """Return what `--json` prints: the survey's figures, and time and cost of the calls in the budget.

    A run spends its budget on calls and checks in the order in which they come. Here it is assumed that calls
    come first, which makes no difference to their total number and price.
    """
    run = options.run
    budget = survey.calls + survey.checks if run.max_requests is None else run.max_requests
    allowed = [(survey.calls, ""), (budget, "max_requests"), *_calls_for_units(survey, options)]
    calls, budget_flag = min(allowed, key=lambda pair: pair[0])
    checks = min(survey.checks, budget - calls)
    tokens = math.ceil(survey.characters / CHARACTERS_PER_TOKEN)
    latency, latency_from = latency_of(options)
    expected = _expected(survey, options, calls / survey.calls if survey.calls else 0.0)
    seconds, limited_by = _time(calls, survey.most_calls, checks, run, latency, expected.values())
    cost = _cost(calls + checks, tokens * calls / survey.calls if survey.calls else 0, options)
    by_model = None
    if prices is not None:
        by_model = cost_of(expected, {model: need.calls for model, need in survey.needs.items()}, prices)
        cost = by_model["total"]
    reasons = sorted(survey.reasons.values(), key=lambda reason: (-reason.count, reason.code))
    uri = _ledger_uri(run)
    found: dict[str, Any] = {
        "records": survey.records,
        "questions": survey.questions,
        "invalid": survey.invalid,
        "duplicates": survey.duplicates,
        "already_answered": survey.already_answered,
        "invalid_by_code": [
            {
                "stage": reason.stage,
                "code": reason.code,
                "count": reason.count,
                "example": {"origin": reason.origin, "message": reason.message},
            }
            for reason in reasons
        ],
        "turns": survey.turns,
        "ledger": without_password(uri) if uri else None,
        "turns_in_ledger": survey.stored_turns,
        "turns_shared": survey.shared_turns,
        "calls": survey.calls,
        "calls_within_budget": calls,
        "budget_flag": budget_flag or None,
        "checks": survey.checks,
        "checks_within_budget": checks,
        "characters": survey.characters,
        "estimated_tokens": tokens,
        "requests_per_minute": run.requests_per_minute,
        "check_requests_per_minute": run.check_requests_per_minute if run.check_grounding else None,
        "max_in_flight": run.max_in_flight,
        "expected_latency_seconds": latency,
        "latency_from": latency_from,
        "seconds": round(seconds, 3),
        "limited_by": limited_by,
        "cost": cost,
        "tokens_per_minute": run.tokens_per_minute,
        "expected_usage": usage_of(expected),
        "expected_answer_tokens": options.expected_answer_tokens,
        "cost_by_prices": by_model,
        "largest_request": (
            {"bytes": survey.largest_bytes, "origin": survey.largest_origin} if survey.largest_bytes else None
        ),
    }
    if run.question_template:
        found["prompts"] = survey.prompts
    return found


def _expected(survey: Survey, options: PlanOptions, share: float = 1.0) -> dict[str, Spent]:
    return expected_of(survey.needs, options.expected_answer_tokens, options.expected_searches, share)


def _calls_for_units(survey: Survey, options: PlanOptions) -> Iterator[tuple[int, str]]:
    """How many calls the budgets in tokens and searches are expected to last for, with their flags."""
    whole = sum(_expected(survey, options).values(), NOTHING)
    needed = {"max_tokens": whole.total, "max_searches": whole.searches}
    for flag, units in needed.items():
        limit = getattr(options.run, flag)
        if limit is not None and units > limit:
            yield math.ceil(survey.calls * limit / units), flag


def latency_of(options: PlanOptions) -> tuple[float, str]:
    """Return a call's average duration in seconds, and its origin: `given`, `emulator` or `assumed`.

    Raises:
        UsageError: The flags for the emulator that the run would start are wrong.
    """
    run = options.run
    if options.latency_given:
        return run.expected_latency_seconds, "given"
    if run.endpoint is None:
        return emulator_latency(run.emulator_flags), "emulator"
    return run.expected_latency_seconds, "assumed"


def emulator_latency(flags: Sequence[str]) -> float:
    """Return the average duration, in seconds, of a call to an emulator with these flags.

    Raises:
        UsageError: The emulator refuses the flags.
    """
    parser = FlagParser(prog="groundrows emulator", add_help=False)
    add_flags(parser)
    try:
        return from_args(parser.parse_args(list(flags))).latency.mean
    except ValueError as error:
        raise UsageError(f"--emulator_flags: {error}") from None


def _time(
    calls: int,
    most_calls: int,
    checks: int,
    run: RunOptions,
    latency: float,
    expected: Iterable[Spent] = (),
) -> tuple[float, str | None]:
    """Return the least time that calls and checks take, in seconds, and what limits them, if anything does.

    Calls and checks run at the same time, each with its own rate limit and its own number of calls in flight.
    Only the check of an answer waits for that answer.
    """
    if not calls and not checks:
        return 0.0, None
    reasons = {
        "in_flight": calls * latency / run.max_in_flight,
        "checks_in_flight": checks * latency / run.max_in_flight,
        "latency": (min(calls, most_calls) + min(checks, 1)) * latency,
    }
    if run.requests_per_minute is not None:
        reasons["rate"] = calls / run.requests_per_minute * 60
    if run.tokens_per_minute is not None:
        reasons["token_rate"] = sum(spent.total for spent in expected) / run.tokens_per_minute * 60
    if run.check_requests_per_minute is not None:
        reasons["check_rate"] = checks / run.check_requests_per_minute * 60
    limited_by = max(reasons, key=lambda reason: reasons[reason])
    return (reasons[limited_by], limited_by) if reasons[limited_by] else (0.0, None)


def _cost(calls: int, tokens: float, options: PlanOptions) -> float | None:
    a_thousand, a_million = options.price_per_1000_requests, options.price_per_million_tokens
    if a_thousand is None and a_million is None:
        return None
    return round(calls * (a_thousand or 0) / 1_000 + tokens * (a_million or 0) / 1_000_000, 6)


def as_json(found: Mapping[str, Any]) -> str:
    """Return the plan as indented JSON without control characters."""
    text = json.dumps(found, indent=2, ensure_ascii=False)
    return escaped(text, lambda character: json.dumps(character)[1:-1], kept="\n")


def for_people(found: Mapping[str, Any]) -> str:
    """Return the plan as a few lines of text."""
    lines = [
        f"{found['records']:,} records read = {found['questions']:,} questions to ask"
        f" + {found['invalid']:,} invalid + {found['duplicates']:,} duplicates"
        f" + {found['already_answered']:,} already answered"
    ]
    reasons = found["invalid_by_code"]
    for reason in reasons[:REASONS_SHOWN]:
        example = reason["example"]
        lines.append(
            f"  {reason['count']:>9,} {reason['code']}, as {shown(example['origin'])}:"
            f" {cut(example['message'])}"
        )
    if len(reasons) > REASONS_SHOWN:
        lines.append(f"            and {len(reasons) - REASONS_SHOWN} more reasons; --json lists all")
    lines.append(
        f"turns: {found['turns']:,}, of which the ledger holds {found['turns_in_ledger']:,}{_shared(found)}"
    )
    lines.append(f"calls: {found['calls']:,}, retries not counted{_budget(found)}")
    if found["checks"]:
        lines.append(
            f"checks: up to {found['checks']:,} more calls, if each answer has one candidate; time and cost"
            " include all of them"
        )
    if found["calls"]:
        lines += [
            f"text: {found['characters']:,} characters, about {found['estimated_tokens']:,} tokens (estimated"
            f" as characters / {CHARACTERS_PER_TOKEN}; requests only, without the answers that later turns"
            " and checks repeat)",
            f"largest request: {found['largest_request']['bytes']:,} bytes, of"
            f" {shown(found['largest_request']['origin'])}",
        ]
    if found["limited_by"] is None and found["calls"] + found["checks"]:
        lines.append("time: only what the program itself needs, because the emulator answers at once")
    elif found["limited_by"] is not None:
        lines.append(
            f"time: at least {coarse_duration(math.ceil(found['seconds']))}, limited by {_limit(found)}"
        )
    if found["expected_usage"] is not None:
        usage = found["expected_usage"]
        lines.append(
            f"expected: about {usage['total']:,} tokens and {usage['searches']:,} searches, assuming"
            f" {found['expected_answer_tokens']:,} tokens per answer (--expected_answer_tokens); what tools"
            " give the model to read is not counted"
        )
    if found["cost_by_prices"] is not None:
        lines.append(f"expected {cost_line(found['cost_by_prices'])}")
    elif found["cost"] is not None:
        lines.append(f"cost: {found['cost']:,.2f}, at the given prices")
    if found.get("prompts"):
        lines.append("the first prompts:")
        for first, *later in found["prompts"]:
            lines += [f"  {cut(first)}", *(f"    then {cut(turn)}" for turn in later)]
    return "\n".join(lines)


def _shared(found: Mapping[str, Any]) -> str:
    return f" and {found['turns_shared']:,} share an equal request" if found["turns_shared"] else ""


def _budget(found: Mapping[str, Any]) -> str:
    allowed = found["calls_within_budget"] + found["checks_within_budget"]
    if allowed == found["calls"] + found["checks"]:
        return ""
    counted = ", checks included" if found["checks"] else ""
    flag = found["budget_flag"] or "max_requests"
    return f"; --{flag} allows {allowed:,}{counted}, and time and cost are for these"


_HOW_KNOWN = {
    "given": " (--expected_latency_seconds)",
    "emulator": ", from the emulator's flags",
    "assumed": ", an assumption that --expected_latency_seconds changes",
}


def _limit(found: Mapping[str, Any]) -> str:
    latency = f"{found['expected_latency_seconds']:.3g} s per call{_HOW_KNOWN[found['latency_from']]}"
    if found["limited_by"] == "rate":
        return f"the rate of {found['requests_per_minute']:g} calls a minute"
    if found["limited_by"] == "token_rate":
        return f"the rate of {found['tokens_per_minute']:g} tokens a minute"
    if found["limited_by"] == "check_rate":
        return f"the rate of {found['check_requests_per_minute']:g} checks a minute"
    if found["limited_by"] == "in_flight":
        return f"{found['max_in_flight']} calls in flight at {latency}"
    if found["limited_by"] == "checks_in_flight":
        return f"{found['max_in_flight']} checks in flight at {latency}"
    return f"the turns of the longest conversation, one after another, at {latency}"
