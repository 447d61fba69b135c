"""Failures that are exported, mended and asked again."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from groundrows.pipeline.cli import main
from tests.support.tools import rows, run_json, write_lines

QUESTIONS: list[object] = [
    {"id": "good", "question": "What is a tide?", "topic": "sea"},
    {"id": "two", "question": "What is a moor?", "turns": ["What is a fen?"], "topic": "land"},
    {"id": "none", "qestion": "=What is a bog?", "topic": "land"},
    b"no JSON",
]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_failures_that_are_mended_end_as_answers(tmp_path: Path, kind: str) -> None:
    archive, out, failed = tmp_path / "archive.jsonl", tmp_path / "out", tmp_path / f"failed.{kind}"
    write_lines(archive, QUESTIONS)
    asked = ["run", f"--output={out}", "--service=emulator", "--quiet"]
    assert main([*asked, f"--input={archive}", "--max_failure_share=1"]) == 0
    assert main(["export", str(out), "-o", str(failed), "--table=failures"]) == 0
    mended = tmp_path / f"mended.{kind}"
    records = read(failed)
    assert [record["groundrows_failure"].split(":")[0] for record in records] == [
        "TWO_QUESTIONS",
        "NEAR_MISS",
        "INVALID_JSON",
    ]
    records[0]["turns"] = None
    records[1]["question"] = records[1].pop("qestion")
    records[2].update(id="new", question=f"What is {records[2]['groundrows_record']}?")
    write(mended, records)
    assert main([*asked, f"--input={mended}", "--append"]) == 0
    assert run_json(out)["balanced"]
    answers = {row["question_id"]: row for row in rows(out, "answers")}
    assert {name: row["question"] for name, row in answers.items()} == {
        "good": "What is a tide?",
        "two": "What is a moor?",
        "none": "=What is a bog?",
        "new": "What is no JSON?",
    }
    # What told a person what to mend is no part of what was asked.
    assert {name: json.loads(row["metadata"] or "{}") for name, row in answers.items()} == {
        "good": {"topic": "sea"},
        "two": {"topic": "land"},
        "none": {"topic": "land"},
        "new": {},
    }


def read(path: Path) -> list[dict[str, str | None]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    with path.open(encoding="utf-8", newline="") as file:
        return [dict(row) for row in csv.DictReader(file)]


def write(path: Path, records: list[dict[str, str | None]]) -> None:
    if path.suffix == ".jsonl":
        return write_lines(path, records)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for record in records for name in record)))
        writer.writeheader()
        writer.writerows(records)
    return None
