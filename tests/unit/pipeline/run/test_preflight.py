"""What is found out before anything is called or touched; more of it is in `test_session.py`."""

import pytest

from groundrows.pipeline.options.run import parse_run
from groundrows.pipeline.run import preflight
from groundrows.pipeline.storage import output
from groundrows.schemas.errors import UsageError
from tests.support.services import free_port
from tests.support.tools import is_one_sentence

TOPIC = "projects/demo-project/topics/bad"


def test_a_budget_over_answers_and_checks_needs_a_ledger():
    least = ["--service=emulator", "--input=a", "--output=o", "--max_requests=5"]
    with pytest.raises(UsageError, match="--ledger") as refused:
        preflight.check_budget_of_checks(parse_run([*least, "--check_grounding"]), "none")
    assert is_one_sentence(str(refused.value))
    preflight.check_budget_of_checks(parse_run([*least, "--check_grounding"]), "sqlite:///there")
    preflight.check_budget_of_checks(parse_run(least), "none")


ELSEWHERE = ["--service=emulator", "--endpoint=127.0.0.1:9", "--input=gs://b/a.jsonl", "--output=gs://b/out"]


@pytest.mark.parametrize(
    ("flags", "ledger", "names"),
    [
        (["--output=out"], "none", "--output=out"),
        ([], "sqlite:///l.sqlite", "--ledger=sqlite"),
        (["--endpoint="], "none", "--service=emulator"),
    ],
)
def test_what_only_this_machine_has_is_refused_on_dataflow(monkeypatch, flags, ledger, names):
    monkeypatch.setattr(output, "is_under_way", lambda _: False)
    given = [*ELSEWHERE, *flags]
    given = [
        flag
        for flag in given
        if flag != "--endpoint=" and not ("--endpoint=" in flags and "--endpoint=1" in flag)
    ]
    with pytest.raises(UsageError, match=names) as refused:
        preflight.check_dataflow(parse_run(given), ledger)
    assert is_one_sentence(str(refused.value))
    preflight.check_dataflow(parse_run(ELSEWHERE), "redis://h:1/0")


def test_a_directory_that_another_job_may_be_writing_to(monkeypatch):
    monkeypatch.setattr(output, "is_under_way", lambda _: True)
    with pytest.raises(UsageError, match="may still be at work") as refused:
        preflight.check_dataflow(parse_run(ELSEWHERE), "none")
    assert is_one_sentence(str(refused.value))
    preflight.check_dataflow(parse_run([*ELSEWHERE, "--overwrite"]), "none")


def test_a_topic_that_nobody_answers_for(monkeypatch):
    monkeypatch.setattr(preflight, "CONNECT_SECONDS", 0.5)
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{free_port()}")
    with pytest.raises(UsageError, match="can't be looked up") as refused:
        preflight.check_topic(TOPIC)
    assert is_one_sentence(str(refused.value))


def test_no_topic_is_no_matter():
    preflight.check_topic(None)
