"""Several runs and workers that share a ledger: a question is paid for once, whoever asks it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.support.runs import calls, rows, start, summary, write_lines

COUNT = 400
SECONDS = 90


def archive(folder: Path, count: int = COUNT) -> Path:
    records = [{"id": f"q{number}", "question": f"Question {number}?"} for number in range(count)]
    return write_lines(folder / "archive.jsonl", records)


def test_two_archive_runs_over_one_sqlite_ledger_ask_each_question_once(tmp_path: Path) -> None:
    log, source = tmp_path / "calls.jsonl", archive(tmp_path)
    with running_emulator("--port=0", "--latency=0.3", f"--call_log={log}") as emulator:
        runs = [
            start(
                "--service=emulator",
                f"--endpoint={emulator.address}",
                f"--input={source}",
                f"--output={tmp_path / name}",
                f"--ledger=sqlite://{tmp_path}/ledger.sqlite",
            )
            for name in ("one", "two")
        ]
        assert [each.wait(SECONDS) for each in runs] == [0, 0]
    assert Counter(call["prompt"] for call in calls(log)) == {
        f"Question {number}?": 1 for number in range(COUNT)
    }
    said = [summary(tmp_path / name) for name in ("one", "two")]
    assert [(each["answered"], each["balanced"]) for each in said] == [(COUNT, True), (COUNT, True)]
    assert sum(each["calls"] for each in said) == COUNT
    for name in ("one", "two"):
        assert {row["question_id"] for row in rows(tmp_path / name, "answers")} == {
            f"q{number}" for number in range(COUNT)
        }
