"""A directory of Parquet rows from its first run to what people make of it."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.storage.row_files import read_rows
from tests.support.tools import Groundrows, is_one_sentence, run_json, write_lines

RECORDS: list[object] = [
    {"id": "everest", "question": "How high is Mount Everest?", "answer": ["8,849 metres", "8849"]},
    {"id": "hamlet", "question": "Who wrote Hamlet?", "answer": "William Shakespeare"},
]
LATER = {"id": "moon", "question": "Who was the first human on the Moon?", "answer": "Neil Armstrong"}


def test_a_directory_of_parquet_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    groundrows = Groundrows(capsys, "--service=emulator", "--max_attempts=1")
    archive = write_lines(tmp_path / "archive.jsonl", RECORDS)
    defaults = tmp_path / "defaults.json"
    defaults.write_text(json.dumps({"grounding_sources": [{"google_search_source": {}}]}))
    out = tmp_path / "out"
    asked = [f"--output={out}", f"--request_defaults={defaults}", "--reference_field=answer"]
    with running_emulator("--port=0", "--faults=unavailable:1") as down:
        run = ["run", f"--input={archive}", "--row_format=parquet", f"--endpoint={down.address}", *asked]
        assert groundrows(*run).code == 3
    assert run_json(out)["row_format"] == "parquet"
    with running_emulator("--port=0") as healthy:
        again = [*asked, f"--endpoint={healthy.address}", "--append"]
        assert groundrows("replay", f"--failures={out}", *again).code == 0
        assert run_json(out)["directory"]["made_good"] == 2
        write_lines(archive, [*RECORDS, LATER])
        other = groundrows("run", f"--input={archive}", "--row_format=avro", *again)
        assert (other.code, is_one_sentence(other.err)) == (2, True)
        assert groundrows("run", f"--input={archive}", *again).code == 0
    summary = run_json(out)
    assert summary["already_answered"] == 2
    assert summary["directory"] | {"runs": 3, "answered": 3, "failed_open": 0} == summary["directory"]

    files = [path for path in out.rglob("*") if path.suffix in (".avro", ".parquet")]
    assert {path.suffix for path in files} == {".parquet"}
    answers = [row for path in sorted(out.glob("answers/*")) for row in read_rows(str(path))]
    assert {row["question_id"] for row in answers} == {"everest", "hamlet", "moon"}
    with duckdb.connect() as db:
        (found,) = db.execute(
            f"SELECT list(question_id ORDER BY question_id), count(*) FILTER (reference_exact IS NULL), "
            f"min(answered_at) > '2020-01-01 00:00:00+00' FROM '{out}/answers/*.parquet'"
        ).fetchall()
    assert found == (["everest", "hamlet", "moon"], 0, True)

    page, sheet = tmp_path / "page.html", tmp_path / "sheet.jsonl"
    bare = Groundrows(capsys)
    assert bare("report", str(out), "-o", str(page)).code == 0
    assert "Who was the first human on the Moon?" in page.read_text(encoding="utf-8")
    assert bare("export", str(out), "-o", str(sheet), "--flat").code == 0
    exported = [json.loads(line) for line in sheet.read_text(encoding="utf-8").splitlines()]
    assert {row["answer_text"] for row in exported} == {row["answer_text"] for row in answers}
