"""`groundrows expire` after whole runs on both services: what goes, what stays, and what works on afterwards."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.expiring import without_search
from groundrows.transforms.generate.ledger.uri import open_ledger
from tests.support.gemini import MODEL
from tests.support.paths import ROOT
from tests.support.runs import GOOGLE_SEARCH, calls
from tests.support.tools import Groundrows, Result, rows, run_json, write_lines

SERVICES = {"discoveryengine": ("--location=projects/p/locations/global",), "gemini": (f"--model={MODEL}",)}
RECORDS: list[dict[str, Any]] = [
    {"id": "tall", "question": "How tall is Mount Everest?", **GOOGLE_SEARCH},
    {"id": "talk", "turns": ["How tall is Mount Everest?", "Who climbed it first?"], **GOOGLE_SEARCH},
    {"id": "facts", "question": "Who won the cup?", "facts": ["Ann won the cup.", "Bob lost."]},
]
LATER: list[dict[str, Any]] = [*RECORDS, {"id": "new", "question": "Why is the sky blue?", **GOOGLE_SEARCH}]
BROKEN: dict[str, Any] = {"id": "broken", "question": "Why?", "turns": ["Why?"]}

# A process that kills itself at a moment, and runs a command: before or after the nth file gets its name, or
# when all responses of the ledger are changed and the change is not committed.
KILLED = """
import os, signal, sys
from contextlib import contextmanager
from groundrows.pipeline.storage import whole
from groundrows.transforms.generate.ledger import sqlite

moment, count = sys.argv[1], int(sys.argv[2])
moves = transactions = 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def move(source, target, real=whole.move):
    global moves
    moves += 1
    if moment == "before" and moves == count:
        die()
    real(source, target)
    if moment == "after" and moves == count:
        die()

@contextmanager
def transaction_on(db, real=sqlite._transaction_on):
    global transactions
    transactions += 1
    with real(db):
        yield
        if moment == "ledger" and transactions == count:
            die()

whole.move, sqlite._transaction_on = move, transaction_on
from groundrows.pipeline.cli import main
sys.exit(main(sys.argv[3:]))
"""
# With each moment goes the number of the three files that are new by then.
MOMENTS = (("after", 1, 1), ("before", 2, 2), ("ledger", 2, 3))


@pytest.fixture(scope="module", params=SERVICES)
def service(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def log(service: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(service) / "calls.jsonl"


@pytest.fixture(scope="module")
def flags(service: str, log: Path) -> Iterator[tuple[str, ...]]:
    with running_emulator("--port=0", "--rest_port=0", f"--call_log={log}") as emulator:
        endpoint = emulator.rest_address if service == "gemini" else emulator.address
        yield (f"--service={service}", f"--endpoint={endpoint}", *SERVICES[service])


@pytest.fixture
def groundrows(capsys: pytest.CaptureFixture[str]) -> Groundrows:
    return Groundrows(capsys)


@pytest.fixture
def out(groundrows: Groundrows, flags: tuple[str, ...], tmp_path: Path) -> Path:
    archive = write_lines(tmp_path / "q.jsonl", [*RECORDS, BROKEN])
    asked = groundrows(
        "run", *flags, "--quiet", "--keep_response", f"--input={archive}", f"--output={tmp_path / 'out'}"
    )
    assert asked.code == 0, asked.err
    return tmp_path / "out"


def expired(groundrows: Groundrows, out: Path) -> Result:
    return groundrows("expire", str(out), "--older_than=0h", "--json")


def found_by_search(out: Path) -> list[str]:
    """The places that still hold something of Google Search."""
    left = [
        f"{table}: {name}"
        for table, names in (
            ("answers", ("search_suggestions_html", "search_sdk_blob")),
            ("claim_supports", ("chunk_uri", "chunk_title")),
        )
        for row in rows(out, table)
        for name in names
        if row[name] is not None
    ]
    left += [
        f"support_chunks: {row['uri']}"
        for row in rows(out, "support_chunks")
        if row["question_id"] != "facts" and (row["uri"] or row["chunk_text"] or row["source_metadata"])
    ]
    left += [
        "response_json"
        for row in rows(out, "answers")
        if "renderedContent" in row["response_json"] or "://" in row["response_json"]
    ]
    ledger = open_ledger(f"sqlite://{out}/.groundrows/ledger.sqlite", read_only=True)
    left += [
        f"ledger: {entry.question_id}"
        for entry in ledger.entries()
        if without_search(entry.response, searched=False) != entry.response
    ]
    ledger.close()
    return left


def test_what_expired_is_gone_and_the_directory_works_on(
    groundrows: Groundrows, flags: tuple[str, ...], log: Path, out: Path, tmp_path: Path
) -> None:
    before = {table: rows(out, table) for table in ("answers", "claim_supports", "failures")}
    assert found_by_search(out)
    said = expired(groundrows, out).json
    assert said["tables"]["support_chunks"]["links"] > 0
    assert said["tables"]["answers"]["search_suggestions"] == 3
    assert [each["responses"] for each in said["ledgers"]] == [3]
    assert not found_by_search(out)
    assert any(row["chunk_text"] == "Ann won the cup." for row in rows(out, "support_chunks"))
    after = {table: rows(out, table) for table in before}
    for name in ("answer_text", "web_search_queries", "claim_count", "answered_at", "answer_id"):
        assert [row[name] for row in after["answers"]] == [row[name] for row in before["answers"]]
    for name in ("claim_text", "claim_start", "claim_end", "chunk_index"):
        key = [row[name] for row in after["claim_supports"]]
        assert key == [row[name] for row in before["claim_supports"]]
    assert after["failures"] == before["failures"]

    # Nothing that is answered is asked again: not by --append, which asks what is new, nor by a replay.
    asked = len(calls(log))
    archive = write_lines(tmp_path / "later.jsonl", [*LATER, BROKEN])
    appended = groundrows(
        "run", *flags, "--quiet", "--keep_response", f"--input={archive}", f"--output={out}", "--append"
    )
    assert appended.code == 0, appended.err
    assert (run_json(out)["answered"], run_json(out)["already_answered"]) == (1, 3)
    assert len(calls(log)) == asked + 1
    replayed = groundrows("replay", *flags, "--quiet", f"--failures={out}", f"--output={tmp_path / 'again'}")
    assert replayed.code in (0, 3), replayed.err
    page = tmp_path / "report.html"
    assert groundrows("report", str(out), "-o", str(page)).code == 0
    assert "How tall is Mount Everest?" in page.read_text()
    exported = groundrows("export", str(out), "-o", str(tmp_path / "flat.csv"), "--flat")
    assert exported.code == 0, exported.err
    # The ledger, whose responses have no links any more, still answers for a whole new set of rows.
    asked = len(calls(log))
    redone = groundrows("run", *flags, "--quiet", f"--input={archive}", f"--output={out}", "--overwrite")
    assert redone.code == 0, redone.err
    assert len(calls(log)) == asked
    assert run_json(out)["from_ledger"] == 5
    claims = [row for row in rows(out, "claim_supports") if row["question_id"] != "new"]
    assert {
        (row["question_id"], row["claim_text"], row["claim_start"], row["chunk_index"]) for row in claims
    } == {
        (row["question_id"], row["claim_text"], row["claim_start"], row["chunk_index"])
        for row in before["claim_supports"]
    }


@pytest.mark.parametrize("service", ["gemini"], indirect=True)
def test_killed_at_any_moment_each_file_is_old_or_new_and_the_next_time_finishes(
    groundrows: Groundrows, out: Path
) -> None:
    old = {path: path.read_bytes() for path in out.rglob("*.avro")}
    for moment, count, new in MOMENTS:
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, moment, str(count), "expire", str(out), "--older_than=0h"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        seen = {path: path.read_bytes() for path in out.rglob("*.avro")}
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert seen.keys() == old.keys()
        assert sum(seen[path] != old[path] for path in old) == new
        for table in ("answers", "support_chunks", "claim_supports", "failures"):
            rows(out, table)  # reads every file under a final name, whole
    said = expired(groundrows, out).json
    assert [each["responses"] for each in said["ledgers"]] == [3]  # the transaction was whole or not at all
    assert not found_by_search(out)
    assert json.dumps(expired(groundrows, out).json["tables"]).count('"rows": 0') == 4
