"""`groundrows replay` after runs against a server that fails, and one that does not."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundrows.pipeline.cli import main
from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.storage import output
from tests.support.tools import (
    Groundrows,
    files_below,
    is_one_sentence,
    prompts_of,
    rows,
    run_json,
    write_lines,
)

QUESTIONS: list[object] = [{"id": f"q{n}", "question": f"What is {n}?", "n": n} for n in range(8)]
TALK = {
    "id": "talk",
    "turns": ["Who was Ada Lovelace?", "When was she born?", "And where?"],
    "grounding_sources": [{"google_search_source": {}}],
}
BROKEN: list[object] = [b"no JSON", {"qestion": "Why?"}]
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (generate|parse|validate) [A-Z_]+ after \d+ attempts?")
# What one run's rows cannot share with another's.
OWN = ("run_id", "attempts", "latency_ms", "asked_at", "answered_at", "from_ledger", "uris_expire_at")


@pytest.fixture(scope="module")
def call_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replay") / "calls.jsonl"


@pytest.fixture(scope="module")
def healthy(call_log: Path) -> Iterator[str]:
    with running_emulator("--port=0", f"--call_log={call_log}") as emulator:
        yield f"--endpoint={emulator.address}"


@pytest.fixture(scope="module")
def down() -> Iterator[str]:
    with running_emulator("--port=0", "--faults=unavailable:1") as emulator:
        yield f"--endpoint={emulator.address}"


@pytest.fixture
def groundrows(capsys: pytest.CaptureFixture[str]) -> Groundrows:
    return Groundrows(capsys, "--service=emulator", "--max_attempts=1")


@pytest.fixture(scope="module")
def everything_failed(down: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    archive = write_lines(directory / "archive.jsonl", [*QUESTIONS, TALK, *BROKEN])
    flags = [f"--input={archive}", f"--output={directory / 'first'}", "--max_attempts=1", "--quiet"]
    assert main(["run", "--service=emulator", down, *flags]) == 3
    found = run_json(directory / "first")["failures_by_code"]
    assert found == {"INVALID_JSON": 1, "NEAR_MISS": 1, "UNAVAILABLE": 9}
    return directory


@pytest.fixture
def first(everything_failed: Path, tmp_path: Path) -> Path:
    """The output of a run in which everything failed, two records for good; its archive lies beside it."""
    shutil.copytree(everything_failed, tmp_path, dirs_exist_ok=True)
    return tmp_path / "first"


def law_holds(run: dict[str, Any]) -> bool:
    outcomes = run["answered"] + run["failed"] + run["duplicates"] + run["already_answered"]
    return run["balanced"] is True and run["records_read"] == outcomes


def left_out(run: dict[str, Any]) -> dict[str, int]:
    return {reason: count for reason, count in run["replay"]["left_out"].items() if count}


def test_what_is_replayed_ends_as_if_it_had_never_failed(
    groundrows: Groundrows, first: Path, healthy: str, tmp_path: Path
) -> None:
    again, undisturbed = tmp_path / "again", tmp_path / "undisturbed"
    replayed = groundrows("replay", f"--failures={first}", healthy, f"--output={again}")
    assert replayed.code == 0
    assert "11 failures found, 11 of them replayed" in replayed.out
    archive = first.parent / "archive.jsonl"
    assert groundrows("run", f"--input={archive}", healthy, f"--output={undisturbed}", "--quiet").code == 0
    run = run_json(again)
    assert law_holds(run)
    assert (run["records_read"], run["answered"], run["failed"]) == (11, 9, 2)
    assert (run["replay"]["found"], run["replay"]["replayed"], left_out(run)) == (11, 11, {})
    for table in ("answers", "support_chunks", "claim_supports"):

        def shared(directory: Path, table: str = table) -> list[str]:
            return sorted(
                repr({name: value for name, value in row.items() if name not in OWN})
                for row in rows(directory, table)
            )

        assert shared(again) == shared(undisturbed)
        assert shared(again)

    before = {row["question_id"]: row for row in rows(first, "failures")}
    for row in rows(again, "failures"):
        old = before[row["question_id"]]
        for name in ("failure_id", "code", "origin", "record", "message", "metadata"):
            assert row[name] == old[name]
        assert (old["generation"], old["history"]) == (0, [])
        assert row["generation"] == len(row["history"]) == 1
        assert row["history"][0].startswith(
            f"{old['failed_at']:%Y-%m-%dT%H:%M:%SZ} {old['stage']} {old['code']} after 0"
        )


def test_history_grows_up_to_the_cap_and_what_is_left_out_is_counted(
    groundrows: Groundrows, first: Path, down: str, tmp_path: Path
) -> None:
    source = first
    flags = ["--only_retryable", "--max_generations=2", down, "--quiet"]
    for generation in (1, 2):
        target = tmp_path / f"generation {generation}"
        assert groundrows("replay", f"--failures={source}", *flags, f"--output={target}").code == 3
        found = rows(target, "failures")
        assert len(found) == 9
        for row in found:
            assert row["generation"] == len(row["history"]) == generation
            assert all(LINE.fullmatch(line) for line in row["history"])
            assert row["history"][-1].endswith("generate UNAVAILABLE after 1 attempt")
        source = target
    result = groundrows("replay", f"--failures={source}", *flags, f"--output={tmp_path / 'last'}")
    run = run_json(tmp_path / "last")
    assert result.code == 0
    assert (run["records_read"], run["calls"], law_holds(run)) == (0, 0, True)
    assert left_out(run) == {"at_max_generations": 9}
    assert len(rows(source, "failures")) == 9
    said = groundrows(
        "replay", f"--failures={source}", *flags[:-1], f"--output={tmp_path / 'last'}", "--overwrite"
    ).out
    assert "9 at max generations" in said


def test_a_replay_that_finds_nothing_leaves_the_directory_as_it_was(
    groundrows: Groundrows, first: Path, healthy: str
) -> None:
    before = files_below(first)
    flags = [f"--failures={first}", "--codes=ABORTED", healthy, f"--output={first}", "--append"]
    result = groundrows("replay", *flags)
    assert (result.code, result.err) == (0, "")
    assert "11 failures found, 0 of them replayed; left out: 11 not asked for" in result.out
    assert f"{first} and its run.json are unchanged" in result.out
    after = files_below(first)
    assert {name for name in after if before.get(name) != after[name]} <= {".groundrows/ledger.sqlite"}
    assert set(after) == set(before)
    assert groundrows("replay", *flags, "--quiet") == (0, "", "")
    # The report is of the run that did something.
    page = first.parent / "page.html"
    assert main(["report", str(first), "-o", str(page)]) == 0
    assert "<b>11</b> records read" in page.read_text()


def test_the_directorys_own_totals_count_every_run(groundrows: Groundrows, first: Path, healthy: str) -> None:
    assert run_json(first)["directory"] == {"answered": 0, "failed_open": 11, "made_good": 0, "runs": 1}
    flags = [f"--failures={first}", healthy, f"--output={first}", "--append"]
    said = groundrows("replay", *flags, "--only_retryable").out
    assert f"in {first} after 2 runs: 9 answered, 2 still failed, 9 made good" in said
    after = {"answered": 9, "failed_open": 2, "made_good": 9, "runs": 2}
    assert run_json(first)["directory"] == after
    assert groundrows("replay", *flags).code == 3  # nothing is left but what can never be asked
    assert run_json(first)["directory"] == after | {"runs": 3}
    kept = sorted((first / "runs").iterdir())
    assert len(kept) == 3
    assert {path.stem for path in kept} == {
        run["run_id"] for run in map(json.loads, map(Path.read_text, kept))
    }
    page = first.parent / "page.html"
    assert main(["report", str(first), "-o", str(page)]) == 0
    stands = "in which 9 records were answered, 2 still fail, and 9 were made good after a failure"
    assert stands in page.read_text()


def test_replayed_into_its_own_directory_it_is_asked_once(
    groundrows: Groundrows, first: Path, healthy: str, call_log: Path
) -> None:
    flags = [f"--failures={first}", healthy, f"--output={first}", "--append", "--quiet"]
    assert groundrows("replay", *flags).code == 0
    assert run_json(first)["answered"] == 9
    assert len(rows(first, "answers")) == 11
    assert len(rows(first, "failures")) == 11 + 2
    calls = prompts_of(call_log)
    assert groundrows("replay", *flags).code == 3  # nothing is left but what can never be asked
    run = run_json(first)
    assert law_holds(run)
    assert left_out(run) == {"older": 2, "answered_since": 9}
    assert (run["records_read"], run["failed"]) == (2, 2)
    assert prompts_of(call_log) == calls
    assert sorted(row["generation"] for row in rows(first, "failures")) == [0] * 11 + [1] * 2 + [2] * 2


def test_each_failure_is_asked_once_however_often_it_is_found(
    groundrows: Groundrows, first: Path, healthy: str, down: str, tmp_path: Path, call_log: Path
) -> None:
    second, third = tmp_path / "second", tmp_path / "third"
    codes = "--codes=UNAVAILABLE"
    assert groundrows("replay", f"--failures={first}", codes, down, f"--output={second}", "--quiet").code == 3
    before = len(prompts_of(call_log))
    everything = f"--failures={first},{second},{first}/,{tmp_path / 'x' / '..' / 'first'}"
    assert groundrows("replay", everything, codes, healthy, f"--output={third}", "--quiet").code == 0
    run = run_json(third)
    assert (run["replay"]["found"], run["records_read"], run["answered"]) == (20, 9, 9)
    assert left_out(run) == {"older": 9, "not_asked_for": 2}
    assert len(prompts_of(call_log)) - before == run["calls"] == 11


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        (["--codes=NEAR_MISS"], 1),
        (["--codes=NEAR_MISS,UNAVAILABLE"], 10),
        (["--codes=NEAR_MISS,UNAVAILABLE", "--only_retryable"], 9),
        (["--codes=ABORTED"], 0),
    ],
)
def test_only_what_was_asked_for_is_replayed(
    groundrows: Groundrows, first: Path, healthy: str, tmp_path: Path, flags: list[str], asked: int
) -> None:
    groundrows("replay", f"--failures={first}", *flags, healthy, f"--output={tmp_path / 'again'}", "--quiet")
    run = run_json(tmp_path / "again")
    assert run["records_read"] == run["replay"]["replayed"] == asked
    assert left_out(run) == {"not_asked_for": 11 - asked}
    assert law_holds(run)


def test_a_conversation_goes_on_where_it_stopped(
    groundrows: Groundrows, healthy: str, tmp_path: Path, call_log: Path
) -> None:
    archive = write_lines(tmp_path / "talk.jsonl", [TALK])
    cut, again = tmp_path / "cut", tmp_path / "again"
    flags = [healthy, "--quiet"]
    assert groundrows("run", f"--input={archive}", *flags, f"--output={cut}", "--max_requests=2").code == 3
    assert [row["turn_index"] for row in rows(cut, "failures")] == [2]
    calls = prompts_of(call_log)
    assert groundrows("replay", f"--failures={cut}", *flags, f"--output={again}").code == 0
    # The first run's ledger holds the turns before the one that failed.
    assert prompts_of(call_log)[len(calls) :] == [TALK["turns"][2]]
    assert [row["turn_index"] for row in rows(again, "answers")] == [0, 1, 2]
    assert [row["from_ledger"] for row in rows(again, "answers")] == [True, True, False]
    anew = [f"--ledger=sqlite://{tmp_path / 'new.sqlite'}", f"--output={tmp_path / 'anew'}"]
    assert groundrows("replay", f"--failures={cut}", *flags, *anew).code == 0
    assert run_json(tmp_path / "anew")["calls"] == 3


def test_a_row_of_a_table_replays_as_the_record_it_was(
    groundrows: Groundrows, healthy: str, down: str, tmp_path: Path
) -> None:
    archive = tmp_path / "metals.csv"
    with archive.open("w", newline="") as file:
        csv.writer(file).writerows([["metal", "price"], ["tin, or\nso", "3"], ["", "4"]])
    flags = ["--question_template=When does {metal} melt?", "--quiet"]
    assert groundrows("run", f"--input={archive}", *flags, down, f"--output={tmp_path / 'first'}").code == 3
    again = [f"--failures={tmp_path / 'first'}", f"--output={tmp_path / 'again'}"]
    assert groundrows("replay", *again, *flags, healthy).code == 0
    (answer,) = rows(tmp_path / "again", "answers")
    assert answer["question"] == "When does tin, or\nso melt?"
    assert json.loads(answer["metadata"])["price"] == "3"
    (failure,) = rows(tmp_path / "again", "failures")
    assert failure["origin"].startswith(f"{archive}:")


def test_a_replay_that_was_stopped_is_taken_up(
    groundrows: Groundrows, first: Path, healthy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A kill leaves the directory as claiming it does, whatever the path was spelled like.
    with output.claimed(str(first), overwrite=False, append=True) as claimed:
        run_id = claimed.run_id
    assert not (first / "run.json").exists()
    monkeypatch.chdir(first.parent)
    flags = ["--failures=./first", healthy, "--output=first", "--append", "--quiet"]
    assert groundrows("replay", *flags).code == 0
    run = run_json(first)
    assert (run["run_id"], run["answered"], law_holds(run)) == (run_id, 9, True)
    assert len(rows(first, "failures")) == 11 + 2


def test_the_summary_of_a_run_with_failures_names_the_command(
    groundrows: Groundrows, first: Path, down: str, healthy: str
) -> None:
    archive = first.parent / "archive.jsonl"
    said = groundrows("run", f"--input={archive}", down, f"--output={first}", "--overwrite").out
    assert f"groundrows replay --failures={first}" in said
    fine = write_lines(first.parent / "fine.jsonl", QUESTIONS)
    said = groundrows("run", f"--input={fine}", healthy, f"--output={first}", "--overwrite").out
    assert "replay" not in said


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--output={new}"], "--failures"),
        (["--failures=,", "--output={new}"], "--failures"),
        (["--failures={first}"], "--output"),
        (["--failures={first}", "--output={first}"], "--append"),
        (["--failures={first}", "--output={first}", "--overwrite"], "--append"),
        (["--failures={first}", "--output={first}/../first/", "--overwrite"], "--append"),
        (["--failures={new}", "--output={new}"], "--append"),
        (["--failures={new}", "--output={first}", "--append"], "no finished run"),
        (["--failures={first}", "--output={new}", "--codes=unavailable"], "--codes"),
        (["--failures={first}", "--output={new}", "--codes=,"], "--codes"),
        (["--failures={first}", "--output={new}", "--max_generations=0"], "--max_generations"),
        (["--failures={first}", "--output={new}", "--max_generations=few"], "--max_generations"),
        (["--failures={first}", "--output={new}", "--input=x.jsonl"], "--input"),
        (["--failures={first}", "--output={new}", "--question_template=none"], "template"),
    ],
)
def test_bad_flags_are_one_sentence_and_nothing_is_touched(
    groundrows: Groundrows, first: Path, healthy: str, tmp_path: Path, flags: list[str], names: str
) -> None:
    before = files_below(tmp_path)
    result = groundrows(
        "replay", healthy, *[flag.format(first=first, new=tmp_path / "new") for flag in flags]
    )
    assert result.code == 2
    assert is_one_sentence(result.err)
    assert names in result.err
    assert files_below(tmp_path) == before


def test_a_run_that_was_stopped_is_not_replayed(groundrows: Groundrows, first: Path, healthy: str) -> None:
    with output.claimed(str(first), overwrite=True, append=False):
        pass
    result = groundrows("replay", healthy, f"--failures={first}", f"--output={first}", "--append")
    assert result.code == 2
    assert "no finished run" in result.err


def test_failures_that_cannot_be_read_are_one_sentence(
    groundrows: Groundrows, first: Path, healthy: str, tmp_path: Path
) -> None:
    (first / "failures" / "more.avro").write_bytes(b"no Avro")
    result = groundrows("replay", healthy, f"--failures={first}", f"--output={tmp_path / 'new'}")
    assert result.code == 2
    assert is_one_sentence(result.err)
    assert "more.avro" in result.err
    assert not (tmp_path / "new").exists()
