"""A run from its flags to its summary, against an emulator; and everything it refuses before it begins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.run import accounting
from groundrows.pipeline.run import session as main
from groundrows.pipeline.storage import output
from groundrows.schemas.tables import TABLES
from tests.support.made import answer, write_rows
from tests.support.services import redis_server
from tests.support.tools import (
    Groundrows,
    files_below,
    is_one_sentence,
    prompts_of,
    rows,
    run_json,
    write_lines,
)
from tests.unit.pipeline.run.test_summary import CONTRACT, SECRET

GOOD = [{"id": f"q{number}", "question": f"When does metal {number} melt?"} for number in range(3)]
BAD = {"qestion": "Why?"}


@pytest.fixture(scope="module")
def call_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("main") / "calls.jsonl"


@pytest.fixture(scope="module")
def address(call_log: Path) -> Iterator[str]:
    with running_emulator("--port=0", "--answers=canned", f"--call_log={call_log}") as emulator:
        yield emulator.address


@pytest.fixture(autouse=True)
def _interpreter_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings are a process's own affair, and looking over all that the tests have made takes long."""
    monkeypatch.setattr(main, "tune_interpreter", lambda: None)


@pytest.fixture
def groundrows(capsys: pytest.CaptureFixture[str], address: str) -> Groundrows:
    return Groundrows(capsys, "--service=emulator", f"--endpoint={address}")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "archive.jsonl", GOOD)


# -- what comes out ----------------------------------------------------------------------------------------


def test_a_run(groundrows: Groundrows, archive: Path, tmp_path: Path, call_log: Path) -> None:
    before = len(prompts_of(call_log))
    result = groundrows("run", f"--input={archive}", f"--output={tmp_path / 'out'}")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("3 records read = 3 answered + 0 failed + 0 duplicates + 0 already answered")
    assert sorted(prompts_of(call_log)[before:]) == [record["question"] for record in GOOD]
    run = run_json(tmp_path / "out")
    assert set(run) > CONTRACT
    assert (run["records_read"], run["answered"], run["failed"], run["balanced"]) == (3, 3, 0, True)
    assert (run["calls"], run["retries"]) == (3, 0)
    assert {table: len(rows(tmp_path / "out", table)) for table in TABLES} == run["rows"]
    assert {row["run_id"] for row in rows(tmp_path / "out", "answers")} == {run["run_id"]}
    assert run["wall_seconds"] > 0
    assert set(run["quantiles"]["latency_ms"]) >= {"p50", "p95", "p99"}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".groundrows",
        *sorted([*TABLES, "run.json", "runs"]),
    ]
    assert sorted(path.name for path in (tmp_path / "out" / ".groundrows").iterdir()) == [
        "ledger.sqlite",
        "ledger.sqlite-rows",
        "lock",
    ]


def test_an_empty_archive_is_a_run_like_any_other(groundrows: Groundrows, tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "empty.jsonl", [])
    assert groundrows("run", f"--input={archive}", f"--output={tmp_path / 'out'}").code == 0
    run = run_json(tmp_path / "out")
    assert set(run) > CONTRACT
    assert (run["records_read"], run["answered"], run["calls"], run["balanced"]) == (0, 0, 0, True)
    assert run["rows"] == dict.fromkeys(TABLES, 0)
    assert run["quantiles"] == {}
    for table in TABLES:
        assert len(list((tmp_path / "out" / table).glob("*.avro"))) == 1
        assert rows(tmp_path / "out", table) == []


def test_an_output_whose_path_is_relative(
    groundrows: Groundrows, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert groundrows("run", f"--input={archive.name}", "--output=a b/[out]").code == 0
    assert run_json(tmp_path / "a b" / "[out]")["answered"] == 3
    assert run_json(tmp_path / "a b" / "[out]")["flags"]["output"] == "a b/[out]"
    # The ledger has what was answered, wherever one stands.
    monkeypatch.chdir(tmp_path / "a b")
    assert groundrows("run", f"--input={archive}", "--output=[out]", "--overwrite").code == 0
    assert run_json(tmp_path / "a b" / "[out]")["calls"] == 0
    assert len(rows(tmp_path / "a b" / "[out]", "answers")) == 3


def test_an_archive_whose_name_is_no_utf8(groundrows: Groundrows, tmp_path: Path) -> None:
    archive = write_lines(tmp_path / "\udcff.jsonl", GOOD)
    assert groundrows("run", f"--input={archive}", f"--output={tmp_path / 'out'}").code == 0
    assert run_json(tmp_path / "out")["answered"] == 3


def test_quiet_says_nothing(groundrows: Groundrows, archive: Path, tmp_path: Path) -> None:
    result = groundrows("run", f"--input={archive}", f"--output={tmp_path / 'out'}", "--quiet")
    assert result == (0, "", "")


def test_append_after_append(groundrows: Groundrows, archive: Path, tmp_path: Path) -> None:
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}", "--ledger=none", "--quiet"]
    assert groundrows("run", *flags).code == 0
    assert groundrows("run", *flags).code == 2
    for count in (4, 5):
        new = {"id": f"new{count}", "question": f"How heavy is metal {count}?"}
        write_lines(archive, [*GOOD, *rows_asked(tmp_path / "out"), new])
        assert groundrows("run", *flags, "--append").code == 0
        run = run_json(tmp_path / "out")
        assert (run["already_answered"], run["answered"], run["calls"]) == (count - 1, 1, 1)
        assert run["rows"]["answers"] == 1
        assert len(rows(tmp_path / "out", "answers")) == count


def rows_asked(directory: Path) -> list[dict[str, str]]:
    """What earlier runs were asked beside the first questions."""
    found = rows(directory, "answers")
    return [
        {"id": row["question_id"], "question": row["question"]}
        for row in found
        if row["question_id"].startswith("new")
    ]


def test_a_run_that_is_taken_up_keeps_its_name_and_its_budget(
    groundrows: Groundrows, archive: Path, tmp_path: Path, call_log: Path
) -> None:
    directory = tmp_path / "out"
    flags = [f"--input={archive}", f"--output={directory}", "--max_requests=3", "--quiet"]
    assert groundrows("run", *flags).code == 0
    run_id = run_json(directory)["run_id"]
    # As a kill in the last moment leaves it, but that the ledger is as good as new.
    (directory / "run.json").rename(directory / "done.json")
    note = {"run_id": run_id, "kept_files": [], "started_at": "2025-03-01T12:00:00+00:00"}
    (directory / ".run.json").write_text(json.dumps(note))
    before = len(prompts_of(call_log))
    assert groundrows("run", *flags).code == 0
    run = run_json(directory)
    assert (run["run_id"], run["answered"], run["calls"]) == (run_id, 3, 0)
    assert run["duplicates"] == 0
    assert run["started_at"] == "2025-03-01T12:00:00+00:00"
    assert len(rows(directory, "answers")) == 3
    assert len(prompts_of(call_log)) == before


# -- exit codes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad", "share", "code"),
    [
        (3, 1, "0.25", 0),
        (3, 1, "0.24", 3),
        (0, 2, "1", 3),
    ],
)
def test_more_failures_than_were_allowed(
    groundrows: Groundrows, tmp_path: Path, good: int, bad: int, share: str, code: int
) -> None:
    bads = [{**BAD, "id": str(number)} for number in range(bad)]
    archive = write_lines(tmp_path / "a.jsonl", [*GOOD[:good], *bads])
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}", f"--max_failure_share={share}", "--quiet"]
    result = groundrows("run", *flags)
    assert result.code == code
    run = run_json(tmp_path / "out")  # the run has finished all the same
    assert (run["answered"], run["failed"], run["balanced"]) == (good, bad, True)
    if code:
        assert is_one_sentence(result.err)
        assert f"records failed, {bad} of {good + bad};" in result.err
        assert str(tmp_path / "out" / "failures") in result.err
    else:
        assert result.err == ""


def test_a_law_that_does_not_hold_is_a_failed_run(
    groundrows: Groundrows, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "rows_on_disk", lambda _: {**dict.fromkeys(TABLES, 0), "answers": 2})
    result = groundrows("run", f"--input={archive}", f"--output={tmp_path / 'out'}", "--quiet")
    assert result.code == 1
    assert is_one_sentence(result.err)
    assert "The count law does not hold" in result.err
    assert run_json(tmp_path / "out")["balanced"] is False


# -- refused -----------------------------------------------------------------------------------------------

TWO_PROCESSES = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]


@pytest.fixture
def no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "no such key.json"))


FILES = {
    "no.json": b"no JSON",
    "list.json": b"[]",
    "latin.json": b'{"model": "\xe9"}',
    "rule.json": b'{"user_labels": {"Upper Case": "x"}}',
    "unknown.json": b'{"systemInstructions": "x"}',
    "question.json": b'{"question": "Why?"}',
    "cut.json.gz": b"\x1f\x8b",
    "text.txt": b"What is this?",
    "ledger.txt": b"this is no database",
    "empty.avro": b"",
    "no.jsonl.gz": b"this is no gzip",
}


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--input={here}/nothing*.jsonl"], "nothing*.jsonl"),
        (["--input={here}/archive.jsonl,{here}/none.csv"], "none.csv"),
        (["--input={here}/text.txt"], ".jsonl"),
        (["--input="], "--input"),
        (["--input_topic=projects/p/topics/t"], "exactly one"),
        (["--output="], "--output"),
        (["--output={here}/archive.jsonl"], "is not a directory"),
        (["--output={here}/archive.jsonl/below"], "is not a directory"),
        (["--output=/proc/nowhere/out"], "--output=/proc/nowhere/out"),
        (["--output={here}/out-\udcfe"], "not valid UTF-8"),
        (["--ouput=x"], "--output?"),
        (["--overwrite", "--append"], "only one"),
        (["--request_defaults={here}/none.json"], "none.json"),
        (["--request_defaults={here}"], "--request_defaults"),
        (["--request_defaults={here}/no.json"], "--request_defaults"),
        (["--request_defaults={here}/list.json"], "--request_defaults"),
        (["--request_defaults={here}/latin.json"], "latin.json"),
        (["--request_defaults={here}/rule.json"], "user_labels"),
        (["--request_defaults={here}/unknown.json"], "system_instruction"),
        (["--request_defaults={here}/question.json"], "question"),
        (["--request_defaults={here}/cut.json.gz"], "--request_defaults"),
        (["--question_template=no field"], "template"),
        (["--question_template={{open"], "template"),
        (["--question_template={{}}"], "template"),
        (["--question_template={{a..b}}"], "template"),
        (["--question_template="], "template"),
        (["--question_field=id"], "id"),
        (["--question_field=facts"], "facts"),
        (["--rate_limiter=sharded", "--pacing_shards=4", "--requests_per_minute=7"], "at most 3"),
        (["--pacing_shards=4", "--requests_per_minute=7"], "at most 3"),
        (["--rate_limiter=local", "--requests_per_minute=60", *TWO_PROCESSES], "sharded"),
        (["--rate_limiter=redis://127.0.0.1:1/0", "--requests_per_minute=60"], "can't be reached"),
        (["--rate_limiter=envoy://127.0.0.1:1"], "can't be reached"),
        (["--question_field="], "--question_field"),
        (["--id_field="], "--id_field"),
        (["--direct_running_mode=multi_processing", "--direct_num_workers=-1"], "--direct_num_workers"),
        (["--input={here}/empty.avro"], "can be read"),
        (["--input={here}/no.jsonl.gz"], "can be read"),
        (["--input=gs://no-such-bucket/x.jsonl"], "gcloud auth"),
        (["--max_requests=5", "--ledger=none", "--rate_limiter=local", *TWO_PROCESSES], "share nothing"),
        (["--ledger=sqlite://{here}/ledger.txt"], "ledger.txt"),
        (["--ledger=sqlite://{here}"], "{here}"),
        (["--ledger=sqlite:///proc/nowhere/ledger"], "/proc/nowhere/ledger"),
        ([f"--ledger=redis://:{SECRET}@127.0.0.1:1/0"], "127.0.0.1:1"),
        (["--runner=NoSuchRunner"], "NoSuchRunner"),
        (["--runner=DataflowRunner"], "gs://"),
        (["--runner=DataflowRunner", "--project=p", "--share_identical"], "--share_identical"),
        (["--direct_num_workers=many"], "--direct_num_workers"),
        (["--service=discoveryengine"], "--location"),
        (
            [
                "--service=discoveryengine",
                "--location=projects/p/locations/eu",
                "--endpoint=https://h.example",
            ],
            "gcloud auth",
        ),
        (["--endpoint=http://service.example:80"], "TLS"),
        (["--requests_per_minute=0"], "--requests_per_minute"),
        (["--location=global"], "--location"),
        (["--api_version=v1alpha"], "--transport=rest"),
    ],
)
@pytest.mark.parametrize("finished", [False, True], ids=["new", "overwriting"])
def test_what_is_refused_is_one_sentence_and_leaves_everything_as_it_was(
    groundrows: Groundrows,
    archive: Path,
    tmp_path: Path,
    call_log: Path,
    flags: list[str],
    names: str,
    finished: bool,
) -> None:
    for name, body in FILES.items():
        (tmp_path / name).write_bytes(body)
    always = [f"--input={archive}", f"--output={tmp_path / 'out'}"]
    if finished:
        with output.claimed(str(tmp_path / "out"), overwrite=False, append=False) as claimed:
            write_rows(tmp_path / "out" / "answers" / "old.avro", [answer()])
            output.finish(claimed, {})
        always += ["--overwrite"] if "--append" not in flags else []
    before, called = files_below(tmp_path), prompts_of(call_log)
    result = groundrows("run", *always, *[flag.format(here=tmp_path) for flag in flags])
    assert (result.code, result.out) == (2, "")
    assert is_one_sentence(result.err), result.err
    assert names.format(here=tmp_path) in result.err
    assert SECRET not in result.err
    assert files_below(tmp_path) == before
    assert prompts_of(call_log) == called
    assert (tmp_path / "out").exists() is finished


def test_a_key_file_that_is_none(
    groundrows: Groundrows, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(archive))
    flags = [
        "--service=discoveryengine",
        "--location=projects/p/locations/eu",
        "--endpoint=https://h.example",
    ]
    result = groundrows("run", f"--input={archive}", f"--output={tmp_path / 'out'}", *flags)
    assert result.code == 2
    assert "GOOGLE_APPLICATION_CREDENTIALS" in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("emulator_flags", ["--latency=soon", "--corpus={here}/none", "--nonsense", "--help"])
def test_an_emulator_that_does_not_start(
    capsys: pytest.CaptureFixture[str], archive: Path, tmp_path: Path, emulator_flags: str
) -> None:
    groundrows = Groundrows(capsys, "--service=emulator")
    result = groundrows(
        "run",
        f"--input={archive}",
        f"--output={tmp_path / 'out'}",
        f"--emulator_flags={emulator_flags.format(here=tmp_path)}",
    )
    assert result.code == 2
    assert is_one_sentence(result.err), result.err
    assert "The emulator" in result.err
    assert files_below(tmp_path).keys() == {archive.name}


def test_a_damaged_ledger_in_the_output_does_not_cost_the_rows(
    groundrows: Groundrows, archive: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "out"
    flags = [f"--input={archive}", f"--output={directory}", "--quiet"]
    assert groundrows("run", *flags).code == 0
    (directory / ".groundrows" / "ledger.sqlite").write_bytes(
        b"no database, but long enough to look like one"
    )
    before = files_below(directory)
    result = groundrows("run", *flags, "--overwrite")
    assert result.code == 2
    assert "ledger.sqlite" in result.err
    assert files_below(directory) == before


def test_rows_that_cannot_be_read_are_a_sentence_and_mending_them_goes_on(
    groundrows: Groundrows, archive: Path, tmp_path: Path, call_log: Path
) -> None:
    directory = tmp_path / "out"
    flags = [f"--input={archive}", f"--output={directory}", "--ledger=none", "--quiet"]
    assert groundrows("run", *flags).code == 0
    bad = directory / "answers" / "bad.avro"
    bad.write_bytes(b"no Avro")
    called = prompts_of(call_log)
    result = groundrows("run", *flags, "--append")
    assert result.code == 2
    assert is_one_sentence(result.err)
    assert str(bad) in result.err
    assert prompts_of(call_log) == called
    bad.unlink()
    assert groundrows("run", *flags, "--append").code == 0
    assert run_json(directory)["already_answered"] == 3


# -- secrets -----------------------------------------------------------------------------------------------


def test_no_password_is_written_or_said(
    groundrows: Groundrows, archive: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server(None, "--requirepass", SECRET) as server:
        uri = f"redis://:{SECRET}@127.0.0.1:{server.port}/0"
        flags = [f"--ledger={uri}", f"--rate_limiter={uri}", "--requests_per_minute=60000"]
        result = groundrows("run", f"--input={archive}", f"--output={tmp_path / 'out'}", *flags)
        assert result.code == 0
    flags_said = run_json(tmp_path / "out")["flags"]
    shown = f"redis://127.0.0.1:{server.port}/0"
    assert (flags_said["ledger"], flags_said["rate_limiter"]) == (shown, shown)
    everything = b"".join(files_below(tmp_path / "out").values()).decode("latin-1")
    assert SECRET not in everything + result.out + result.err + caplog.text


# -- from flags to settings --------------------------------------------------------------------------------


def test_settings_reach_the_calls(groundrows: Groundrows, tmp_path: Path) -> None:
    """Flags that change the request change what is asked, and the others do not."""
    archive = write_lines(tmp_path / "a.jsonl", [{"text": "Why?", "key": 5, "other": 1}])
    flags = [
        f"--input={archive}",
        f"--output={tmp_path / 'out'}",
        "--question_field=text",
        "--id_field=key",
        "--location=projects/mine/locations/eu",
        "--api_version=v1beta",
        "--keep_response",
        "--quiet",
    ]
    assert groundrows("run", *flags).code == 0
    (row,) = rows(tmp_path / "out", "answers")
    assert (row["question_id"], row["question"], row["api_version"]) == ("5", "Why?", "v1beta")
    assert json.loads(row["metadata"]) == {"other": 1}
    assert json.loads(row["request_json"])["location"] == "projects/mine/locations/eu"
    assert row["response_json"] is not None


def test_the_emulator_of_a_run_ends_with_it(
    capsys: pytest.CaptureFixture[str], archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    before = main.running_emulator

    def noting(*flags: str) -> Any:
        started.append(before(*flags))
        return started[-1]

    monkeypatch.setattr(main, "running_emulator", noting)
    groundrows = Groundrows(capsys, "--service=emulator")
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}"]
    result = groundrows("run", *flags, f"--emulator_flags=--answers=canned --call_log={tmp_path / 'log'}")
    assert result.code == 0
    assert len(started) == 1
    assert len(prompts_of(tmp_path / "log")) == 3
    assert re.fullmatch(r"\{.*\}", json.dumps(run_json(tmp_path / "out")["flags"]))
    assert run_json(tmp_path / "out")["flags"]["endpoint"] is None


# -- a part of an archive ----------------------------------------------------------------------------------


def test_answers_are_checked_in_part_too(groundrows: Groundrows, tmp_path: Path) -> None:
    archive = write_lines(
        tmp_path / "a.jsonl", [{"answer": f"Metal {n} melts.", "facts": ["Metals melt."]} for n in range(9)]
    )
    flags = ["--mode=check", f"--input={archive}", "--ledger=none", "--quiet"]
    for part in ("--limit=4", "--sample=4"):
        assert groundrows("run", *flags, part, f"--output={tmp_path / part}").code == 0
        run = run_json(tmp_path / part)
        assert (run["records_read"], run["answered"], run["calls"]) == (4, 4, 4)


def test_several_processes_read_the_same_part(groundrows: Groundrows, archive: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "b.jsonl", [{"id": f"b{n}", "question": f"What is {n}?"} for n in range(20)])
    flags = [f"--input={tmp_path / '*.jsonl'}", "--sample=8", "--seed=5", "--ledger=none", "--quiet"]
    several = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    asked = []
    for name, more in (("one", []), ("two", several)):
        assert groundrows("run", *flags, *more, f"--output={tmp_path / name}").code == 0
        assert run_json(tmp_path / name)["records_read"] == 8
        asked.append({row["question_id"] for row in rows(tmp_path / name, "answers")})
    assert asked[0] == asked[1]
    assert len(asked[0]) == 8


# -- why records failed ------------------------------------------------------------------------------------


def test_a_field_that_no_record_has_is_told_at_once_and_at_the_end(
    groundrows: Groundrows, tmp_path: Path
) -> None:
    archive = tmp_path / "a.csv"
    archive.write_text("id,text,team\n" + "1,Why?,art\n" * 400)
    result = groundrows("run", f"--input={archive}", "--question_field=query", f"--output={tmp_path / 'out'}")
    assert result.code == 3
    early, complaint = result.err.splitlines()
    assert early.startswith("The first 100 records all fail for one reason, NO_QUESTION")
    assert early.endswith("The fields of that record are id, text, team.")
    assert complaint.startswith("Too many records failed, 400 of 400")
    (example,) = [line for line in result.out.splitlines() if line.startswith("  NO_QUESTION, as ")]
    assert f"{archive}:2: the record asks nothing: give one of `query`" in example


def test_each_reason_has_one_example(groundrows: Groundrows, tmp_path: Path) -> None:
    broken = [b"no JSON", b"none either", {"id": "a"}, {"id": "b"}, {"qestion": "Why?"}]
    archive = write_lines(tmp_path / "a.jsonl", [*GOOD, *broken])
    flags = [f"--input={archive}", f"--output={tmp_path / 'out'}"]
    for more in ([], ["--append"]):
        result = groundrows("run", *flags, *more)
        lines = result.out.splitlines()
        start = lines.index(next(line for line in lines if line.startswith("failures: ")))
        examples = [line.partition(": ")[0] for line in lines[start + 1 :] if line.startswith("  ")]
        assert examples == [
            f"  INVALID_JSON, as {archive}:4",
            f"  NO_QUESTION, as {archive}:6",
            f"  NEAR_MISS, as {archive}:8",
        ]
        assert result.err == ""
