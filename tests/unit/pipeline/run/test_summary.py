"""A run's figures for scripts and for people."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import version
from typing import Any

import pytest

from groundrows.pipeline.options.run import parse_run, run_parser
from groundrows.pipeline.run.accounting import Account
from groundrows.pipeline.run.summary import for_people, nothing_done, run_json

SECRET = "hunter2"
CONTRACT = {
    "records_read",
    "answered",
    "failed",
    "duplicates",
    "already_answered",
    "balanced",
    "calls",
    "retries",
    "from_ledger",
    "rows",
    "failures_by_code",
    "run_id",
    "wall_seconds",
}
ACCOUNT = Account(
    records_read=12_345,
    answered=12_000,
    failed=300,
    duplicates=40,
    already_answered=5,
    calls=12_500,
    retries=200,
    retries_by_code={"UNAVAILABLE": 200},
    failures_by_code={"INVALID_ARGUMENT": 100, "UNAVAILABLE": 200},
    throttled_seconds=17,
    rows={"answers": 12_000, "support_chunks": 30_000, "claim_supports": 20_000, "failures": 300},
)
QUANTILES = {"latency_ms": {"p50": 810.4, "p95": 1999.6, "max": 5000.0}}


def summary_of(*flags: str, account: Account = ACCOUNT, **changes: Any) -> dict[str, Any]:
    options = parse_run(["--service=emulator", "--input=a.jsonl", "--output=out", *flags])
    arguments: dict[str, Any] = {
        "run_id": "run",
        "balanced": True,
        "quantiles": QUANTILES,
        "row_format": "avro",
        "started_at": "2025-03-01T12:00:00+00:00",
        "wall_seconds": 750.0,
    }
    return run_json(account, options, **(arguments | changes))


def test_the_keys_that_scripts_use() -> None:
    summary = summary_of()
    assert set(summary) > CONTRACT
    assert json.loads(json.dumps(summary, allow_nan=False)) == {
        **summary,
        "flags": json.loads(json.dumps(summary["flags"])),
    }
    assert summary["rows"] == dict(ACCOUNT.rows)
    assert summary["failures_by_code"] == {"INVALID_ARGUMENT": 100, "UNAVAILABLE": 200}
    assert summary["retries_by_code"] == {"UNAVAILABLE": 200}
    assert summary["version"] == version("groundrows")
    for name in ("records_read", "answered", "failed", "duplicates", "already_answered", "calls", "retries"):
        assert summary[name] == getattr(ACCOUNT, name)
    assert (summary["run_id"], summary["wall_seconds"], summary["throttled_seconds"]) == ("run", 750.0, 17)
    assert summary["quantiles"] == QUANTILES


@pytest.mark.parametrize("balanced", [True, False])
def test_whether_the_law_held(balanced: bool) -> None:
    summary = summary_of(balanced=balanced)
    assert summary["balanced"] is balanced
    assert ("(balanced)" if balanced else "(NOT BALANCED)") in for_people(summary, "out")


def test_the_share_of_the_rate_that_was_used() -> None:
    assert summary_of()["rate_used"] is None
    assert summary_of("--requests_per_minute=1000")["rate_used"] == 1.0
    assert summary_of("--requests_per_minute=4000")["rate_used"] == 0.25
    assert summary_of("--requests_per_minute=4000", wall_seconds=0.0)["rate_used"] is None


def test_the_flags_are_there() -> None:
    flags = summary_of("--endpoint=[::1]:80", "--max_in_flight=7", "--ledger=sqlite:///home/me@work/l")[
        "flags"
    ]
    named = {action.dest for action in run_parser()._actions}
    assert named - set(flags) == {"help", "input"}
    assert flags["inputs"] == ("a.jsonl",)
    assert flags["endpoint"] == "[::1]:80"
    assert flags["max_in_flight"] == 7
    assert flags["ledger"] == "sqlite:///home/me@work/l"


@pytest.mark.parametrize(
    "flags",
    [
        [f"--ledger=redis://:{SECRET}@h:6379/0"],
        [f"--rate_limiter=redis://u:{SECRET}@h:6379/0", "--requests_per_minute=60"],
        [f"--s3_secret_access_key={SECRET}"],
        ["--s3_secret_access_key", SECRET],
        [f"--s3_access_key_id={SECRET}", f"--s3_session_token={SECRET}"],
        [f"--azure_connection_string=AccountKey={SECRET}"],
    ],
)
def test_no_secret_is_in_it(flags: list[str]) -> None:
    text = json.dumps(summary_of(*flags))
    assert SECRET not in text
    assert "h:6379/0" in text or "***" in text


def test_other_flags_of_the_runner_are_there() -> None:
    flags = ["--s3_secret_access_key", SECRET, "--runner=DirectRunner", "--project", "p"]
    assert summary_of(*flags)["flags"]["runner_flags"] == [
        "--s3_secret_access_key",
        "***",
        "--runner=DirectRunner",
        "--project",
        "p",
    ]


def test_for_people() -> None:
    assert for_people(summary_of(), "out").splitlines() == [
        "12,345 records read = 12,000 answered + 300 failed + 40 duplicates + 5 already answered (balanced)",
        "12,500 calls, 200 of them retries, in 750.0 s",
        "failures: 100 INVALID_ARGUMENT, 200 UNAVAILABLE",
        "latency: 810 ms median, 2000 ms p95, 5000 ms at most",
        "rows in out: 12,000 answers, 30,000 support_chunks, 20,000 claim_supports, 300 failures",
        "to ask the failed ones again: groundrows replay --failures=out --output=out --append, and the "
        "other flags of this run except --input",
        "to look at them: groundrows report out",
    ]


def test_after_several_runs_the_directory_is_summed_up() -> None:
    directory = {"answered": 12_100, "failed_open": 1, "made_good": 20, "runs": 3}
    said = for_people(summary_of() | {"directory": directory}, "out")
    assert "in out after 3 runs: 12,100 answered, 1 still failed, 20 made good" in said.splitlines()
    assert any(line.startswith("rows of this run in out: 12,000 answers") for line in said.splitlines())
    alone = for_people(summary_of() | {"directory": directory | {"runs": 1}}, "out")
    assert "after" not in alone
    assert any(line.startswith("rows in out: 12,000 answers") for line in alone.splitlines())


@pytest.mark.parametrize("replay", [True, False])
def test_where_there_was_nothing_to_ask(replay: bool) -> None:
    found = {"found": 2, "replayed": 0, "left_out": {"older": 0, "not_asked_for": 2}}
    said = nothing_done("out", {"replay": found} if replay else {}).splitlines()
    assert said[-1] == "There was nothing to ask, so out and its run.json are unchanged."
    assert said[:-1] == (
        ["replay: 2 failures found, 0 of them replayed; left out: 2 not asked for"] if replay else []
    )


def test_without_failures_and_calls_there_is_less_to_say() -> None:
    text = for_people(summary_of(quantiles={}) | {"failures_by_code": {}}, "out")
    assert "replay" not in text
    assert "latency" not in text
    assert "failures:" not in text


def test_records_that_can_not_be_asked_are_not_worth_a_replay() -> None:
    for code, worth in (("NO_QUESTION", False), ("INVALID_CSV", False), ("NOT_ATTEMPTED", True)):
        text = for_people(summary_of() | {"failures_by_code": {code: 3}}, "out")
        assert ("groundrows replay" in text) == worth


def test_the_command_it_names_can_be_pasted() -> None:
    replay, look = for_people(summary_of(), "my out/[1]'").splitlines()[-2:]
    words = shlex.split(replay.partition(": ")[2].partition(", and")[0])
    assert words == ["groundrows", "replay", "--failures=my out/[1]'", "--output=my out/[1]'", "--append"]
    assert shlex.split(look.partition(": ")[2]) == ["groundrows", "report", "my out/[1]'"]


def test_a_directory_whose_name_is_no_utf8_can_be_printed() -> None:
    assert "\\udcff" in for_people(summary_of(), "\udcff").encode().decode()
