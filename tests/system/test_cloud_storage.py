"""Archives, request defaults and rows on Cloud Storage: what holds for local files holds there."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest

from groundrows.pipeline.cli import main
from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.sinks.files import PublishFn
from groundrows.pipeline.storage import files, output, whole
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES
from tests.support.cloud import CloudStorage, cloud_storage
from tests.support.runs import GOOGLE_SEARCH, OF_A_RUN, ROOT, calls
from tests.system.test_main_job import questions


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudStorage]:
    with cloud_storage(tmp_path_factory.mktemp("objects")) as running:
        yield running


@pytest.fixture
def folder() -> str:
    """A name for what the test puts into the bucket, with which nothing else begins."""
    return uuid.uuid4().hex


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def rows(storage: CloudStorage, folder: str, table: str) -> list[dict[str, Any]]:
    """Every row of a table; fails on an object that can't be read whole."""
    names = storage.names(f"{folder}/{table}/")
    return [dict(row) for name in names for row in fastavro.reader(BytesIO(storage.get(name)))]


def comparable(found: list[dict[str, Any]]) -> list[str]:
    return sorted(repr({k: v for k, v in row.items() if k not in OF_A_RUN}) for row in found)


def summary(storage: CloudStorage, folder: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(storage.get(f"{folder}/run.json"))
    return said


def run(*flags: str, code: int = 0) -> None:
    assert main(["run", "--service=emulator", "--ledger=none", "--quiet", *flags]) == code


def test_what_google_search_found_expires_in_place(
    storage: CloudStorage, folder: str, tmp_path: Path
) -> None:
    record = {"question": "How tall is Mount Everest?", **GOOGLE_SEARCH}
    source = storage.put(f"{folder}/in.jsonl", lines([record]))
    out = storage.url(folder, "out")
    run(f"--input={source}", f"--output={out}")
    before = {table: rows(storage, f"{folder}/out", table) for table in ("answers", "support_chunks")}
    names = storage.names(f"{folder}/out/")
    assert main(["expire", out, "--older_than=1d"]) == 0
    assert {table: rows(storage, f"{folder}/out", table) for table in before} == before
    assert main(["expire", out, "--older_than=0d"]) == 0
    chunks = rows(storage, f"{folder}/out", "support_chunks")
    assert len(chunks) == len(before["support_chunks"]) > 0
    assert not [row for row in chunks if row["uri"] or row["chunk_text"]]
    texts = [row["answer_text"] for row in rows(storage, f"{folder}/out", "answers")]
    assert texts == [row["answer_text"] for row in before["answers"]]
    assert storage.names(f"{folder}/out/") == names
    # Nothing says whether a run that was begun there is still alive.
    storage.put(f"{folder}/out/.run.json", b"{}")
    assert main(["expire", out, "--older_than=0d"]) == 2


def test_a_run(storage: CloudStorage, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bad = b'{"question": "one", "turns": ["two"]}\n'
    plain, packed = lines(questions(30)[:20]) + bad, gzip.compress(lines(questions(30)[20:]))
    defaults = json.dumps(GOOGLE_SEARCH).encode()
    storage.put(f"{folder}/in/a.jsonl", plain)
    storage.put(f"{folder}/in/b.jsonl.gz", packed)
    run(
        f"--input={storage.url(folder, 'in', '*.jsonl')},{storage.url(folder, 'in', '*.gz')}",
        f"--request_defaults={storage.put(f'{folder}/defaults.json', defaults)}",
        f"--output={storage.url(folder, 'out')}/",
    )
    assert os.listdir(tmp_path) == []

    said = summary(storage, f"{folder}/out")
    assert (said["balanced"], said["records_read"], said["answered"], said["failed"]) == (True, 31, 30, 1)
    (failure,) = rows(storage, f"{folder}/out", "failures")
    assert failure["origin"] == storage.url(folder, "in", "a.jsonl:21")
    assert failure["record"] + b"\n" == bad

    (tmp_path / "a.jsonl").write_bytes(plain)
    (tmp_path / "b.jsonl.gz").write_bytes(packed)
    (tmp_path / "defaults.json").write_bytes(defaults)
    run("--input=*.jsonl,*.gz", "--request_defaults=defaults.json", "--output=out")
    for table in ("answers", "support_chunks", "claim_supports"):
        local = [
            row for path in (tmp_path / "out" / table).iterdir() for row in fastavro.reader(path.open("rb"))
        ]
        assert comparable(rows(storage, f"{folder}/out", table)) == comparable(local)
        assert said["rows"][table] == len(local) > 0
    # A table without rows has a file with its columns.
    (name,) = storage.names(f"{folder}/out/grounding_checks/")
    reader = fastavro.reader(BytesIO(storage.get(name)))
    assert "check_id" in {field["name"] for field in reader.writer_schema["fields"]}
    assert list(reader) == []
    # Nothing is left over but what a finished run holds.
    tables = [name.removeprefix(f"{folder}/out/").split("/")[0] for name in storage.names(f"{folder}/out/")]
    assert sorted(tables) == sorted([*TABLES, "run.json", "runs"])


def test_append_and_overwrite(
    storage: CloudStorage, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    flags = (f"--input={storage.url(folder, 'in.jsonl')}", f"--output={storage.url(folder, 'out')}")
    storage.put(f"{folder}/in.jsonl", lines(questions(6)))
    run(*flags)
    first = {name: storage.get(name) for name in storage.names(f"{folder}/out/answers/")}
    with pytest.raises(UsageError, match="holds a finished run"):
        output.check(storage.url(folder, "out"), overwrite=False, append=False)

    storage.put(f"{folder}/in.jsonl", lines(questions(9)))
    run(*flags, "--append")
    said = summary(storage, f"{folder}/out")
    assert (said["answered"], said["already_answered"], said["calls"]) == (3, 6, 3)
    assert len(rows(storage, f"{folder}/out", "answers")) == 9
    assert {name: storage.get(name) for name in first} == first
    assert list(tmp_path.glob("groundrows*")) == []
    assert not (tmp_path / "gs:").exists()

    storage.put(f"{folder}/in.jsonl", lines(questions(4)))
    run(*flags, "--overwrite")
    assert len(rows(storage, f"{folder}/out", "answers")) == 4
    assert not set(storage.names(f"{folder}/out/")) & set(first)


def test_a_replay(storage: CloudStorage, folder: str) -> None:
    source, where = storage.put(f"{folder}/in.jsonl", lines(questions(3))), storage.url(folder, "out")
    run(f"--input={source}", f"--output={where}", "--max_requests=1")
    assert len(rows(storage, f"{folder}/out", "answers")) == 1
    again = (f"--failures={where}", f"--output={where}", "--append", "--quiet", "--ledger=none")
    assert main(["replay", "--service=emulator", *again]) == 0
    answered = [row["question_id"] for row in rows(storage, f"{folder}/out", "answers")]
    assert sorted(answered) == ["q0", "q1", "q2"]


ALONE = """
import sys
from groundrows.pipeline.cli import main
from tests.support.cloud import without_credentials
with without_credentials():
    sys.exit(main(sys.argv[1:]))
"""


def test_a_killed_run_is_taken_up(storage: CloudStorage, folder: str, tmp_path: Path) -> None:
    log, in_flight, count = tmp_path / "calls.jsonl", 8, 120
    source = storage.put(f"{folder}/in.jsonl", lines(questions(count)))
    with running_emulator("--port=0", "--latency=0.1", f"--call_log={log}") as emulator:
        flags = (
            f"--endpoint={emulator.address}",
            f"--input={source}",
            f"--output={storage.url(folder, 'out')}",
            f"--max_in_flight={in_flight}",
            f"--ledger=sqlite://{tmp_path}/ledger.sqlite",
        )
        child = subprocess.Popen(
            [sys.executable, "-c", ALONE, "run", "--service=emulator", "--quiet", *flags], cwd=ROOT
        )
        try:
            give_up = time.monotonic() + 60
            while not log.exists() or len(calls(log)) < count // 4:
                assert child.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.02)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert f"{folder}/out/.run.json" in storage.names(f"{folder}/out/")
        assert f"{folder}/out/run.json" not in storage.names(f"{folder}/out/")
        killed = json.loads(storage.get(f"{folder}/out/.run.json"))
        run(*flags)
        assert len(calls(log)) <= count + in_flight
    said = summary(storage, f"{folder}/out")
    assert said["run_id"] == killed["run_id"]
    assert (said["balanced"], said["answered"]) == (True, count)
    assert said["calls"] < count
    answered = [row["question_id"] for row in rows(storage, f"{folder}/out", "answers")]
    assert sorted(answered) == sorted(f"q{number}" for number in range(count))


# -- what can go wrong on the way --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("gs://groundrows-tests/run[1]", "would match other files"),
        ("gs://groundrows-tests/*/out", "would match other files"),
        ("gs://", "names no bucket"),
        ("gs:", "names no bucket"),
        ("gs://no-such-bucket/out", "NotFound"),
    ],
)
def test_a_name_that_can_t_be_used(storage: CloudStorage, path: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        output.check(path, overwrite=True, append=False)
    assert str(raised.value).startswith(f"--output={path} can't be used: ")
    with pytest.raises(UsageError, match=why), output.claimed(path, overwrite=True, append=False):
        pass


def published(storage: CloudStorage, folder: str, staged: str) -> list[str]:
    where = Output(storage.url(folder), "run", (), datetime.now(UTC))
    return list(PublishFn(where).process(("answers", [storage.url(folder, staged)])))


def test_publishing_broken_off_is_made_good(storage: CloudStorage, folder: str) -> None:
    staged, final = ".groundrows/staging/answers-1.avro", "answers/answers-1.avro"
    storage.put(f"{folder}/{staged}", b"rows")
    assert published(storage, folder, staged) == [storage.url(folder, final)]
    assert storage.names(folder) == [f"{folder}/{final}"]
    # Tried again after it was done, and after a copy whose original was not deleted yet.
    assert published(storage, folder, staged) == [storage.url(folder, final)]
    storage.put(f"{folder}/{staged}", b"rows")
    assert published(storage, folder, staged) == [storage.url(folder, final)]
    assert storage.names(folder) == [f"{folder}/{final}"]
    assert storage.get(f"{folder}/{final}") == b"rows"
    storage.delete(f"{folder}/{final}")
    with pytest.raises(FileNotFoundError):
        published(storage, folder, staged)


class Killed(BaseException):
    pass


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, count: int) -> Iterator[None]:
    """Raise instead of the operation on objects that comes after `count` of them."""
    done: list[str] = []

    def dying(name: str) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            if len(done) == count:
                raise Killed(name)
            done.append(name)
            return getattr(files, name)(*arguments)

        return step

    with monkeypatch.context() as patched:
        for name in ("delete", "move", "open_for_writing", "remove_directory"):
            for module in (output, whole):
                patched.setattr(module, name, dying(name), raising=False)
        yield


@pytest.mark.parametrize("flag", ["overwrite", "append"])
def test_a_kill_while_claiming(
    storage: CloudStorage, folder: str, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flags = storage.url(folder), {"overwrite": flag == "overwrite", "append": flag == "append"}
    old = [f"{folder}/answers/a.avro", f"{folder}/failures/b.avro"]
    for count in range(20):
        for name in storage.names(folder):
            storage.delete(name)
        for name in (*old, f"{folder}/run.json"):
            storage.put(name, b'{"run_id": "old"}')
        ended = False
        with killed_at(monkeypatch, count):
            try:
                with output.claimed(path, **flags):
                    ended = True
            except Killed:
                pass
        if output.is_finished(path):
            # Nothing has happened: the old run is whole.
            assert set(old) <= set(storage.names(folder))
        # Either way the same command goes on, and nothing of either run is lost or mixed.
        with output.claimed(path, **flags) as claimed:
            left = [name for name in storage.names(folder) if name.endswith(".avro")]
            assert left == (old if flag == "append" else [])
            assert len(claimed.kept_files) == len(left)
            output.finish(claimed, {"run_id": claimed.run_id})
        runs = [claimed.run_id, *(["old"] if flag == "append" else [])]
        summaries = [f"{folder}/run.json", *(f"{folder}/runs/{run}.json" for run in runs)]
        assert storage.names(folder) == sorted([*left, *summaries])
        if ended:
            assert count >= 3
            return
    raise AssertionError("it never came to an end")
