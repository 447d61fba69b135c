"""Whole runs against Gemini's emulator: what calls took, and what holds them back for it."""

from __future__ import annotations

import json
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.support.gemini import MODEL
from tests.support.runs import GOOGLE_SEARCH, rows, run, summary, write_lines
from tests.support.tools import is_one_sentence

IN_FLIGHT = 4
REFUSED = {"PROMPT_BLOCKED", "TRUNCATED"}
QUESTIONS = [
    {"id": str(n), "question": f"Which planet is the largest, and which is number {n}?"} for n in range(40)
]


def flags_for(path: Path, address: str | None) -> list[str]:
    archive = write_lines(path / "questions.jsonl", QUESTIONS)
    defaults = path / "defaults.json"
    defaults.write_text(json.dumps(GOOGLE_SEARCH))
    return [
        "--service=gemini",
        f"--endpoint={address}",
        f"--model={MODEL}",
        f"--input={archive}",
        f"--request_defaults={defaults}",
        f"--max_in_flight={IN_FLIGHT}",
        "--requests_per_minute=60000",
    ]


def test_a_budget_of_tokens_is_passed_by_at_most_what_was_in_flight_and_what_is_stored_costs_nothing_again(
    tmp_path: Path,
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"models": {MODEL: {"prompt": 1e6, "answer": 0, "search": 2}}}))
    # Empty answers and blocked prompts are billed like others; what is refused is not.
    emulator = ("--rest_port=0", "--latency=0.02", f"--call_log={log}", "--seed=3")
    faults = "--faults=tool_call:0.3,prompt_blocked:0.1,unavailable:0.1,truncated:0.1"
    with running_emulator(*emulator, faults) as running:
        flags = [*flags_for(tmp_path, running.rest_address), f"--prices={prices}"]
        ledger = f"--ledger=sqlite:///{tmp_path}/ledger.sqlite"
        printed = run(*flags, f"--output={out}", ledger, "--max_tokens=600").stdout
        told = [json.loads(line) for line in log.read_text().splitlines()]
        again = tmp_path / "again"
        run(*flags, f"--output={again}", ledger, "--max_searches=1", "--max_in_flight=1")
    first = summary(out)
    taken = [line.get("tokens", 0) for line in told]
    (budget,) = first["budgets"].values()
    assert first["balanced"]
    assert budget == {"limit": 600, "spent": sum(taken), "passed_by": sum(taken) - 600}
    # When the limit was reached, the last calls that arrived were out.
    assert 0 <= budget["passed_by"] < sum(sorted(taken)[-IN_FLIGHT:])
    assert f"--max_tokens=600: {sum(taken):,} spent, passed by {budget['passed_by']:,}" in printed
    usage = first["usage"]
    assert usage["total"] == sum(taken) == usage["by_model"][MODEL]["total"]
    assert usage["unreported_calls"] == 0
    assert first["failures_by_code"]["NOT_ATTEMPTED"] > 0
    assert REFUSED & first["failures_by_code"].keys()
    assert first["retries_by_code"]["EMPTY_ANSWER"] > 0
    cost = first["cost"]["by_model"][MODEL]
    assert cost == usage["prompt"] + usage["tool"] + 2 * usage["searches"]
    second = summary(again)
    stored = [first["answered"], *(first["failures_by_code"].get(code, 0) for code in REFUSED)]
    assert second["from_ledger"] == sum(stored)
    assert second["budgets"]["max_searches"]["spent"] == second["usage"]["searches"] <= 2
    assert second["usage"]["total"] < first["usage"]["total"]


def test_a_quota_of_the_day_stops_the_run_instead_of_being_waited_for(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    with running_emulator("--rest_port=0", "--faults=day_quota:1", f"--call_log={log}") as running:
        ended = run(*flags_for(tmp_path, running.rest_address), f"--output={out}", "--max_attempts=9", code=1)
    assert "GenerateRequestsPerDay" in ended.stderr
    assert "tomorrow" in ended.stderr
    assert is_one_sentence(ended.stderr.strip().splitlines()[-1])
    # Nobody asked twice, and calling stopped after a few in a row.
    prompts = [json.loads(line)["prompt"] for line in log.read_text().splitlines()]
    assert len(prompts) == len(set(prompts)) <= 3 + IN_FLIGHT
    assert not rows(out, "answers")
