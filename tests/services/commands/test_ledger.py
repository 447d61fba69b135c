"""`groundrows ledger`, on ledgers of both kinds that runs and the ledgers themselves wrote."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest
import redis

from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.transforms.generate.ledger.base import Entry
from groundrows.transforms.generate.ledger.uri import open_ledger
from tests.support.paths import ROOT
from tests.support.tools import Groundrows, files_below, is_one_sentence

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def response(text: str) -> bytes:
    message: Any = response_class("v1")()
    message.candidates.add(grounding_score=0.5).content.parts.add().text = text
    data: bytes = message.SerializeToString()
    return data


def entry(number: int, model_id: str = "", answer: bytes | None = None) -> Entry:
    asked = NOON + timedelta(seconds=number)
    return Entry(
        key=number.to_bytes(16, "big"),
        question_id=f"q{number}",
        turn_index=number % 3,
        model_id=model_id,
        response=response(f"Answer {number} “ü”") if answer is None else answer,
        attempts=number + 1,
        latency_ms=number + 0.5,
        asked_at=asked,
        answered_at=asked + timedelta(seconds=1),
    )


ENTRIES = [entry(1, "gemini-b"), entry(0), entry(2, "gemini-a"), entry(3, "gemini-b")]


@pytest.fixture
def groundrows(capsys: pytest.CaptureFixture[str]) -> Groundrows:
    return Groundrows(capsys)


@pytest.fixture(params=["sqlite", "redis"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        found: str = request.getfixturevalue("redis_uri")
        return found
    return f"sqlite://{tmp_path / 'a ledger?#%.sqlite'}"


def fill(uri: str, entries: list[Entry]) -> None:
    ledger = open_ledger(uri)
    ledger.put_many(entries)
    ledger.close()


def test_it_shows_what_is_there_by_model(groundrows: Groundrows, uri: str) -> None:
    fill(uri, ENTRIES)
    found = groundrows("ledger", uri, "--json").json
    assert found["entries"] == 4
    assert (found["oldest"], found["newest"]) == (
        "2026-03-01T12:00:00.250000+00:00",
        "2026-03-01T12:00:03.250000+00:00",
    )
    by_model = {model["model_id"]: model for model in found["models"]}
    assert {name: model["entries"] for name, model in by_model.items()} == {
        None: 1,
        "gemini-a": 1,
        "gemini-b": 2,
    }
    assert by_model["gemini-b"]["oldest"] == "2026-03-01T12:00:01.250000+00:00"
    assert by_model["gemini-b"]["newest"] == found["newest"]
    assert found["stored_bytes"] == sum(model["stored_bytes"] for model in found["models"]) > 0

    text = groundrows("ledger", uri).out
    assert "4 responses" in text
    assert "gemini-b: 2 responses" in text
    assert "Answer" not in text


def test_an_empty_ledger_is_one_with_nothing_in_it(groundrows: Groundrows, uri: str, tmp_path: Path) -> None:
    fill(uri, [])
    found = groundrows("ledger", uri, "--json").json
    assert (found["entries"], found["stored_bytes"], found["oldest"], found["models"]) == (0, 0, None, [])
    assert groundrows("ledger", uri).code == 0
    assert groundrows("ledger", uri, f"--export={tmp_path / 'x.avro'}").code == 0
    with (tmp_path / "x.avro").open("rb") as file:
        assert list(fastavro.reader(file)) == []


def test_the_export_holds_every_response_as_json_and_as_received(
    groundrows: Groundrows, uri: str, tmp_path: Path
) -> None:
    broken = b"\xff\xff\xff"
    fill(uri, [*ENTRIES, entry(4, answer=broken)])
    target = tmp_path / "export.avro"
    assert groundrows("ledger", uri, f"--export={target}", "--json").json["entries"] == 5
    with target.open("rb") as file:
        rows = {row["question_id"]: row for row in fastavro.reader(file)}
    assert len(rows) == 5
    for one in ENTRIES:
        row = rows[one.question_id]
        assert (row["turn_index"], row["model_id"]) == (one.turn_index, one.model_id or None)
        assert (row["asked_at"], row["answered_at"]) == (one.asked_at, one.answered_at)
        assert (row["latency_ms"], row["attempts"]) == (one.latency_ms, one.attempts)
        assert row["response"] == one.response
        (candidate,) = json.loads(row["response_json"])["candidates"]
        assert candidate["content"]["parts"] == [{"text": f"Answer {one.attempts - 1} “ü”"}]
        assert candidate["groundingScore"] == 0.5
    assert (rows["q4"]["response_json"], rows["q4"]["response"]) == (None, broken)
    assert [path.name for path in tmp_path.glob("export*")] == ["export.avro"]


def test_a_file_that_is_there_is_not_replaced(groundrows: Groundrows, uri: str, tmp_path: Path) -> None:
    fill(uri, ENTRIES)
    target = tmp_path / "export.avro"
    target.write_bytes(b"mine")
    result = groundrows("ledger", uri, f"--export={target}")
    assert result.code == 2
    assert is_one_sentence(result.err)
    assert target.read_bytes() == b"mine"


def test_an_export_that_fails_leaves_no_file(groundrows: Groundrows, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    fill(f"sqlite://{path}", [entry(number) for number in range(700)])
    with sqlite3.connect(path) as db:
        db.execute("UPDATE responses SET response = x'00' WHERE question_id = 'q650'")
    db.close()
    result = groundrows("ledger", f"sqlite://{path}", f"--export={tmp_path / 'x.avro'}")
    assert result.code == 2
    assert is_one_sentence(result.err)
    assert list(tmp_path.glob("x.avro*")) == []


def test_where_there_is_no_ledger_none_is_made(
    groundrows: Groundrows, tmp_path: Path, redis_uri: str
) -> None:
    missing = tmp_path / "deep" / "down.sqlite"
    for uri in (f"sqlite://{missing}", redis_uri):
        for more in ([], [f"--export={tmp_path / 'x.avro'}"]):
            result = groundrows("ledger", uri, *more)
            assert result.code == 2
            assert is_one_sentence(result.err)
            assert "no ledger" in result.err
    assert list(tmp_path.iterdir()) == []
    with redis.Redis.from_url(redis_uri) as server:
        assert server.dbsize() == 0


@pytest.mark.parametrize("what", ["foreign", "empty", "text", "directory", "later version", "cut"])
def test_what_is_no_ledger_is_refused_and_left_as_it_was(
    groundrows: Groundrows, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "file.sqlite"
    if what == "foreign":
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE responses (key)")
        db.close()
    elif what == "directory":
        path.mkdir()
    elif what in ("later version", "cut"):
        fill(f"sqlite://{path}", ENTRIES)
        if what == "cut":
            path.write_bytes(path.read_bytes()[:5000])
        else:
            with sqlite3.connect(path) as db:
                db.execute("PRAGMA user_version=99")
            db.close()
    else:
        path.write_bytes(b"" if what == "empty" else b"Dear diary, " * 500)
    before = path.read_bytes() if path.is_file() else None
    result = groundrows("ledger", f"sqlite://{path}")
    assert result.code == 2
    assert is_one_sentence(result.err)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_ledger_stays_as_it_was_and_usable_after_a_killed_run(
    groundrows: Groundrows, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.sqlite"
    # The process ends without closing the file: everything is in the write-ahead log still.
    program = (
        "import os, sys\n"
        "from tests.services.commands.test_ledger import ENTRIES\n"
        "from groundrows.transforms.generate.ledger.sqlite import SqliteLedger\n"
        "SqliteLedger(sys.argv[1]).put_many(ENTRIES)\n"
        "os._exit(9)\n"
    )
    root = ROOT
    ended = subprocess.run(
        [sys.executable, "-c", program, path], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    assert ended.returncode == 9
    before = path.read_bytes()
    assert groundrows("ledger", f"sqlite://{path}", "--json").json["entries"] == 4
    assert path.read_bytes() == before
    fill(f"sqlite://{path}", [entry(9)])
    assert groundrows("ledger", f"sqlite://{path}", "--json").json["entries"] == 5


def test_a_password_is_not_shown(groundrows: Groundrows, redis_uri: str) -> None:
    fill(redis_uri, ENTRIES)
    with redis.Redis.from_url(redis_uri) as server:
        server.config_set("requirepass", "hunter2")
        try:
            with_password = redis_uri.replace("redis://", "redis://:hunter2@")
            shown = groundrows("ledger", with_password)
            refused = groundrows("ledger", redis_uri.replace("redis://", "redis://:hunter3@"))
        finally:
            server.config_set("requirepass", "")
    assert shown.code == 0
    assert "4 responses" in shown.out
    assert refused.code == 2
    assert "hunter" not in shown.out + shown.err + refused.out + refused.err


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["none"],
        ["ledger.sqlite"],
        ["sqlite://x"],
        ["sqlite:///x", "y"],
        ["sqlite:///x", "--out=y"],
        ["sqlite:///x", "--ledger=sqlite:///y"],
        ["--ledger="],
        ["--ledger=none"],
        ["."],
    ],
)
def test_bad_flags_are_one_sentence(groundrows: Groundrows, flags: list[str]) -> None:
    result = groundrows("ledger", *flags)
    assert result.code == 2
    assert is_one_sentence(result.err)


def test_it_is_named_by_uri_path_or_the_directory_of_a_run(
    groundrows: Groundrows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path / "out" / ".groundrows" / "ledger.sqlite"
    where.parent.mkdir(parents=True)
    uri = f"sqlite://{where}"
    fill(uri, ENTRIES)
    monkeypatch.chdir(tmp_path)
    named = [uri, str(where), "out/.groundrows/ledger.sqlite", "out", "out/", str(tmp_path / "out")]
    said = {groundrows("ledger", *[each]).out for each in named}
    said |= {groundrows("ledger", f"--ledger={each}").out for each in named}
    said.add(groundrows("ledger", "--ledger", "out").out)
    assert len(said) == 1
    assert said.pop().startswith(f"{uri} holds {len(ENTRIES)} responses")


def test_a_run_that_named_its_ledger_is_shown_that_one(groundrows: Groundrows, tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path / 'elsewhere.sqlite'}"
    fill(uri, ENTRIES)
    (tmp_path / "out").mkdir()
    for ledger, code, said in (
        (uri, 0, f"{uri} holds"),
        ("none", 2, "had no ledger"),
        ("redis://:***@127.0.0.1:1/0", 2, "has a password"),
        (None, 2, "has no ledger"),
    ):
        (tmp_path / "out/run.json").write_text(json.dumps({"flags": {"ledger": ledger}}))
        result = groundrows("ledger", str(tmp_path / "out"))
        assert result.code == code
        assert said in result.out + result.err
        assert code == 0 or is_one_sentence(result.err)


def test_an_export_into_nowhere_is_one_sentence(groundrows: Groundrows, tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path / 'ledger.sqlite'}"
    fill(uri, ENTRIES)
    (tmp_path / "file").write_bytes(b"")
    result = groundrows("ledger", uri, f"--export={tmp_path / 'file' / 'x.avro'}")
    assert result.code == 2
    assert is_one_sentence(result.err)
    assert files_below(tmp_path)["file"] == b""
