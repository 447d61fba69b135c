"""Gemini as the service of whole runs: the same tables, the same count law, and nothing asked twice."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import fastavro
import pytest

from groundrows.schemas.tables import TABLES
from tests.support.gemini import MODEL
from tests.support.paths import ROOT
from tests.support.runs import GOOGLE_SEARCH, OF_A_RUN, calls, comparable, rows, run, summary, write_lines
from tests.system.test_main_job import questions

GEMINI = ("--service=gemini", f"--model={MODEL}", "--endpoint=emulator", "--quiet")
KEY = "AIza-a-key-of-nobody-0123456789"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records: list[dict[str, Any]] = [{**record, **GOOGLE_SEARCH} for record in questions(60)]
    records += [
        {"id": "talk", "turns": ["How tall is Mount Everest?", "Where is it?", "Why?"], **GOOGLE_SEARCH},
        {"id": "facts", "question": "Who won the cup?", "facts": ["Ann won the cup.", "Bob lost."]},
        {"id": "emoji", "question": "Was ist mit 🙂 und Zürich am Mount Everest?", **GOOGLE_SEARCH},
        {"id": "refused", "question": "Why?", "generation_spec": {"language_code": "de"}},
    ]
    return write_lines(tmp_path_factory.mktemp("archive") / "q.jsonl", records)


def test_a_run_is_answered_balanced_and_the_same_twice(archive: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        run(*GEMINI, f"--input={archive}", f"--output={tmp_path / name}", "--keep_response")
    told = summary(tmp_path / "first")
    assert told["balanced"]
    assert (told["records_read"], told["answered"], told["failed"]) == (64, 63, 1)
    assert told["failures_by_code"] == {"NO_COUNTERPART": 1}
    assert comparable(tmp_path / "first") == comparable(tmp_path / "second")
    answers = {row["answer_id"]: row for row in rows(tmp_path / "first", "answers")}
    assert {row["service"] for row in answers.values()} == {"gemini"}
    assert all(row["total_tokens"] > 0 and row["response_id"] for row in answers.values())
    claims = rows(tmp_path / "first", "claim_supports")
    assert claims
    for claim in claims:
        text = answers[claim["answer_id"]]["answer_text"]
        assert text[claim["claim_start"] : claim["claim_end"]] == claim["claim_text"]


def test_streamed_answers_say_the_same(archive: Path, tmp_path: Path) -> None:
    run(*GEMINI, f"--input={archive}", f"--output={tmp_path / 'whole'}")
    run(*GEMINI, f"--input={archive}", f"--output={tmp_path / 'parts'}", "--stream_answers")
    without = (*OF_A_RUN, "answer_id", "failure_id", "streamed", "first_part_ms", "warnings")
    assert comparable(tmp_path / "parts", without=without) == comparable(tmp_path / "whole", without=without)


def test_what_the_ledger_holds_is_not_asked_again(archive: Path, tmp_path: Path) -> None:
    ledger = f"--ledger=sqlite:///{tmp_path / 'ledger.sqlite'}"
    log = tmp_path / "calls.jsonl"
    logged = f"--emulator_flags=--call_log={log}"
    run(*GEMINI, f"--input={archive}", f"--output={tmp_path / 'first'}", ledger, logged)
    asked = len(calls(log))
    run(*GEMINI, f"--input={archive}", f"--output={tmp_path / 'second'}", ledger, logged)
    assert len(calls(log)) == asked
    assert summary(tmp_path / "second")["calls"] == 0
    assert comparable(tmp_path / "first") == comparable(tmp_path / "second")
    # The other service's answers are its own, whatever ledger they share.
    run("--service=emulator", "--quiet", f"--input={archive}", f"--output={tmp_path / 'third'}", ledger)
    assert summary(tmp_path / "third")["calls"] > 0


def test_faults_and_oddities_leave_the_count_law_standing(archive: Path, tmp_path: Path) -> None:
    run(
        *GEMINI,
        f"--input={archive}",
        f"--output={tmp_path / 'out'}",
        "--emulator_flags=--faults=all:0.2,odd:0.3 --seed=3",
        "--deadline_seconds=2",
        "--max_attempts=6",
        "--max_response_mb=1",
    )
    told = summary(tmp_path / "out")
    assert told["balanced"]
    assert told["retries"] > 0
    for table in ("answers", "failures"):
        assert all(row["attempts"] <= 6 for row in rows(tmp_path / "out", table))
    assert {"PROMPT_BLOCKED", "ANSWER_BLOCKED", "TRUNCATED"} & set(told["failures_by_code"])


def test_an_empty_answer_is_asked_for_three_times_and_never_kept(tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "q.jsonl", [{"id": "q", "question": "Why?"}])
    log = tmp_path / "calls.jsonl"
    common = (f"--input={archive}", f"--ledger=sqlite:///{tmp_path / 'ledger.sqlite'}")
    faulty = f"--emulator_flags=--faults=tool_call:1 --call_log={log}"
    run(*GEMINI, *common, f"--output={tmp_path / 'first'}", faulty, code=3)
    assert len(calls(log)) == 3
    [failure] = rows(tmp_path / "first", "failures")
    assert (failure["code"], failure["retryable"], failure["attempts"]) == ("EMPTY_ANSWER", True, 3)
    run(*GEMINI, *common, f"--output={tmp_path / 'second'}")
    assert summary(tmp_path / "second")["calls"] == 1
    assert summary(tmp_path / "second")["answered"] == 1


def test_a_refusal_is_kept_and_not_paid_for_again(tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "q.jsonl", [{"id": "q", "turns": ["Why?", "And then?"]}])
    common = (f"--input={archive}", f"--ledger=sqlite:///{tmp_path / 'ledger.sqlite'}")
    flags = "--emulator_flags=--faults=prompt_blocked:1"
    run(*GEMINI, *common, f"--output={tmp_path / 'first'}", flags, code=3)
    [failure] = rows(tmp_path / "first", "failures")
    assert (failure["code"], failure["turn_index"], failure["stage"]) == ("PROMPT_BLOCKED", 0, "flatten")
    assert summary(tmp_path / "first")["calls"] == 1
    run(*GEMINI, *common, f"--output={tmp_path / 'second'}", code=3)
    assert summary(tmp_path / "second")["calls"] == 0


def test_both_services_fill_the_same_tables_and_claims_stand_at_the_same_characters(tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "q.jsonl", [{**record, **GOOGLE_SEARCH} for record in questions(30)])
    run("--service=emulator", "--quiet", f"--input={archive}", f"--output={tmp_path / 'old'}")
    run(*GEMINI, f"--input={archive}", f"--output={tmp_path / 'new'}")

    def placed(output: Path) -> set[tuple[Any, ...]]:
        names = (
            "question_id",
            "turn_index",
            "claim_index",
            "claim_start",
            "claim_end",
            "claim_text",
            "chunk_index",
        )
        return {tuple(row[name] for name in names) for row in rows(output, "claim_supports")}

    assert placed(tmp_path / "old") == placed(tmp_path / "new")
    for table in TABLES:
        old, new = rows(tmp_path / "old", table), rows(tmp_path / "new", table)
        assert {tuple(row) for row in old} == {tuple(row) for row in new}
        assert schemas(tmp_path / "old", table) == schemas(tmp_path / "new", table) != []
    report = tmp_path / "report.html"
    finished = subprocess.run(
        [
            sys.executable,
            "-m",
            "groundrows",
            "report",
            str(tmp_path / "old"),
            str(tmp_path / "new"),
            "-o",
            report,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    page = report.read_text(encoding="utf-8")
    assert "Compared with an earlier run" in page
    assert re.search(r"answered in both</dt>\s*<dd>\s*30\b", page)


def schemas(output: Path, table: str) -> list[object]:
    """The columns and types of a table's files, each once."""
    found: list[object] = []
    for path in (output / table).glob("*.avro"):
        with path.open("rb") as file:
            written = fastavro.reader(file).writer_schema
        found += [] if written in found else [written]
    return found


def test_answers_are_checked_by_the_service_that_checks(archive: Path, tmp_path: Path) -> None:
    run(*GEMINI, f"--input={archive}", f"--output={tmp_path / 'out'}", "--check_grounding")
    told = summary(tmp_path / "out")
    assert told["balanced"]
    assert told["checks"]["checked"] >= 1
    facts = {row["answer_id"] for row in rows(tmp_path / "out", "support_chunks") if row["kind"] == "fact"}
    checks = [row for row in rows(tmp_path / "out", "grounding_checks") if row["answer_id"] in facts]
    assert checks
    assert {row["api_version"] for row in checks} == {"v1"}
    assert any(row["cited_chunk_count"] for row in checks)
    # A check fills its own table alone: claims are what the model's service said.
    assert not [row for row in rows(tmp_path / "out", "claim_supports") if row["answer_id"] in facts]


def test_a_failed_run_is_replayed_on_an_emulator_again(tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "q.jsonl", [{"id": "q", "question": "Why?"}])
    run(
        *GEMINI,
        f"--input={archive}",
        f"--output={tmp_path / 'out'}",
        "--emulator_flags=--faults=unavailable:1",
        "--max_attempts=1",
        code=3,
    )
    assert summary(tmp_path / "out")["flags"]["endpoint"] == "emulator"
    flags = [*GEMINI, f"--failures={tmp_path / 'out'}", f"--output={tmp_path / 'out'}", "--append"]
    finished = subprocess.run(
        [sys.executable, "-m", "groundrows", "replay", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert [row["answer_text"] != "" for row in rows(tmp_path / "out", "answers")] == [True]


def test_the_key_is_nowhere_in_what_a_run_leaves(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    finished = run(*GEMINI, f"--input={archive}", f"--output={tmp_path / 'out'}", "--keep_response")
    assert KEY not in finished.stdout + finished.stderr
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--service=gemini", "--endpoint=emulator"), "give --model=NAME"),
        (("--service=gemini", "--model=m"), "set GEMINI_API_KEY"),
        (("--service=gemini", "--model=m", "--transport=grpc"), "give rest"),
        (("--service=gemini", "--model=m", "--api_version=v1"), "give v1beta or v1alpha"),
        (("--service=gemini", "--model=a b"), "is not a valid model"),
        (("--service=gemini", "--mode=check", "--endpoint=emulator"), "has no method that checks"),
        (
            (
                "--service=gemini",
                "--model=m",
                "--endpoint=emulator",
                "--check_location=projects/p/locations/eu",
            ),
            "leave it out here",
        ),
        (
            ("--service=discoveryengine", "--location=projects/p/locations/global", "--api_version=v1beta1"),
            "give v1",
        ),
    ],
)
def test_what_can_not_work_is_refused_before_the_first_call(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], says: str
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    finished = run(*flags, f"--input={archive}", f"--output={tmp_path / 'out'}", code=2)
    assert says in finished.stderr
    assert not (tmp_path / "out").exists()
