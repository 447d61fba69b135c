"""What is found out before anything is called or touched; more of it is in `test_session.py`."""

from pathlib import Path

import pytest

from groundrows.pipeline.cli import main
from groundrows.pipeline.options.run import parse_run
from groundrows.pipeline.run import preflight
from groundrows.pipeline.run.intended import Intended, Kind
from groundrows.pipeline.run.session import submit
from groundrows.pipeline.sinks import failures_topic
from groundrows.pipeline.storage import output
from groundrows.schemas.errors import UsageError
from tests.support.made import answer, write_rows
from tests.support.services import free_port
from tests.support.tools import files_below, is_one_sentence, write_lines

TOPIC = "projects/demo-project/topics/bad"


def intended(flags: list[str], kind: Kind = Kind.ARCHIVES) -> Intended:
    return Intended(parse_run(flags), kind, 0.0)


def test_a_budget_over_answers_and_checks_needs_a_ledger():
    least = ["--service=emulator", "--input=a", "--output=o", "--max_requests=5"]
    with pytest.raises(UsageError, match="--ledger") as refused:
        preflight.check_budget_of_checks(intended([*least, "--check_grounding", "--ledger=none"]))
    assert is_one_sentence(str(refused.value))
    preflight.check_budget_of_checks(intended([*least, "--check_grounding", "--ledger=sqlite:///there"]))
    preflight.check_budget_of_checks(intended([*least, "--ledger=none"]))


@pytest.mark.parametrize("budget", ["--max_tokens=5", "--max_searches=5"])
def test_a_budget_in_units_is_counted_in_one_place(budget):
    least = ["--service=gemini", "--endpoint=emulator", "--model=m", "--input=a", "--output=o", budget]
    several = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    for flags in (several, ["--rate_limiter=sharded"]):
        with pytest.raises(UsageError, match="--ledger") as refused:
            preflight.check_sharing(intended([*least, "--ledger=none", *flags]))
        assert is_one_sentence(str(refused.value))
        preflight.check_sharing(intended([*least, "--ledger=sqlite:///there", *flags]))
    preflight.check_sharing(intended([*least, "--ledger=none"]))


def test_a_limit_in_tokens_is_not_kept_by_several_processes_apart():
    least = ["--service=gemini", "--endpoint=emulator", "--model=m", "--input=a", "--output=o"]
    several = ["--direct_num_workers=2", "--direct_running_mode=multi_processing", "--rate_limiter=local"]
    with pytest.raises(UsageError, match="redis://"):
        preflight.check_sharing(intended([*least, *several, "--tokens_per_minute=5"]))
    preflight.check_sharing(intended([*least, *several]))


ELSEWHERE = [
    "--service=emulator",
    "--endpoint=127.0.0.1:9",
    "--input=gs://b/a.jsonl",
    "--output=gs://b/out",
    "--runner=DataflowRunner",
]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--output=out"], "--output=out"),
        (["--ledger=sqlite:///l.sqlite"], "--ledger=sqlite"),
        (["--endpoint="], "--service=emulator"),
    ],
)
def test_what_only_this_machine_has_is_refused_on_dataflow(monkeypatch, flags, names):
    monkeypatch.setattr(output, "is_under_way", lambda _: False)
    given = [*ELSEWHERE, *flags]
    given = [
        flag
        for flag in given
        if flag != "--endpoint=" and not ("--endpoint=" in flags and "--endpoint=1" in flag)
    ]
    with pytest.raises(UsageError, match=names) as refused:
        preflight.check_dataflow(intended(given, Kind.JOB))
    assert is_one_sentence(str(refused.value))
    preflight.check_dataflow(intended([*ELSEWHERE, "--ledger=redis://h:1/0"], Kind.JOB))


def test_a_directory_that_another_job_may_be_writing_to(monkeypatch):
    monkeypatch.setattr(output, "is_under_way", lambda _: True)
    with pytest.raises(UsageError, match="may still be running") as refused:
        preflight.check_dataflow(intended(ELSEWHERE))
    assert is_one_sentence(str(refused.value))
    preflight.check_dataflow(intended([*ELSEWHERE, "--overwrite"]))


def with_topic(name: str | None) -> Intended:
    flags = [] if name is None else [f"--failures_topic={name}"]
    source = "--input_subscription=projects/demo-project/subscriptions/questions"
    return intended(["--service=emulator", source, "--output=o", *flags], Kind.JOB)


def test_a_topic_that_nobody_answers_for(monkeypatch):
    monkeypatch.setattr(failures_topic, "CHECK_SECONDS", 0.5)
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{free_port()}")
    with pytest.raises(UsageError, match="can't be looked up") as refused:
        preflight.check_failures_topic(with_topic(TOPIC))
    assert is_one_sentence(str(refused.value))


def test_no_topic_is_no_matter():
    preflight.check_failures_topic(with_topic(None))


# -- every check is made, whoever carries the run out


@pytest.fixture
def no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "no such key.json"))
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)


def of_kind(kind: Kind, tmp_path: Path, *flags: str) -> Intended:
    """A run of the kind with which nothing is wrong but what the flags bring."""
    archive = write_lines(tmp_path / "a.jsonl", [{"question": "Why?"}])
    source = {
        Kind.ARCHIVES: [f"--input={archive}"],
        Kind.JOB: [f"--input={archive}"],
        Kind.WORKER: ["--input_subscription=projects/demo-project/subscriptions/questions"],
        Kind.REPLAY: [f"--input={archive}"],
    }[kind]
    always = ["--service=emulator", "--endpoint=127.0.0.1:9", f"--output={tmp_path / 'out'}"]
    return intended([*always, *source, *flags], kind)


@pytest.mark.parametrize("kind", Kind)
def test_a_run_with_which_nothing_is_wrong_passes_and_leaves_nothing(kind, tmp_path):
    preflight.check(of_kind(kind, tmp_path))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--request_defaults=gs://bucket/defaults.json"], "gcloud auth"),
        (["--output=gs://bucket/out"], "gcloud auth"),
        (["--request_defaults=/no/such/defaults.json"], "defaults.json"),
        (["--check_grounding", "--max_requests=5", "--ledger=none"], "--ledger"),
        (["--rate_limiter=redis://127.0.0.1:1/0", "--requests_per_minute=60"], "can't be reached"),
        (["--ledger=redis://127.0.0.1:1/0"], "nothing answers there"),
        (["--ledger=sqlite:///proc/nowhere/ledger"], "/proc/nowhere/ledger"),
    ],
)
def test_every_kind_of_run_is_refused_alike(kind, tmp_path, flags, names):
    with pytest.raises(UsageError, match=names) as refused:
        preflight.check(of_kind(kind, tmp_path, *flags))
    assert is_one_sentence(str(refused.value))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize(
    "flags",
    [
        ["--failures=gs://bucket/first", "--output={here}/again"],
        ["--failures={here}/first", "--output=gs://bucket/again"],
        ["--failures={here}/first", "--output={here}/again", "--request_defaults=gs://bucket/defaults.json"],
    ],
)
def test_a_replay_without_credentials_is_refused_before_anything_is_looked_up(tmp_path, capsys, flags):
    finished_run(tmp_path / "first")
    given = [flag.format(here=tmp_path) for flag in flags]
    assert main(["replay", "--service=emulator", "--endpoint=127.0.0.1:9", *given]) == 2
    said = capsys.readouterr().err
    assert "gcloud auth" in said
    assert is_one_sentence(said)
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("matching", ["nothing", "unreadable"])
def test_a_job_whose_input_is_no_good_removes_no_rows(tmp_path, matching):
    finished_run(tmp_path / "out")
    (tmp_path / "unreadable.avro").write_bytes(b"no Avro")
    before = files_below(tmp_path / "out")
    flags = [f"--input={tmp_path / matching}*.avro", f"--output={tmp_path / 'out'}", "--overwrite"]
    with pytest.raises(UsageError, match=matching) as refused:
        submit(parse_run(["--service=emulator", "--endpoint=127.0.0.1:9", *flags]))
    assert is_one_sentence(str(refused.value))
    assert files_below(tmp_path / "out") == before


def finished_run(directory: Path) -> None:
    with output.claimed(str(directory), overwrite=False, append=False) as claimed:
        write_rows(directory / "answers" / "old.avro", [answer()])
        output.finish(claimed, {})
