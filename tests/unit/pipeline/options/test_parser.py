"""Flags that are neither ours nor the runner's."""

from __future__ import annotations

import pytest

from groundrows.pipeline.options.run import run_parser
from groundrows.pipeline.options.runner import check_runner_flags
from groundrows.schemas.errors import UsageError
from tests.support.tools import is_one_sentence

OURS = {name for action in run_parser()._actions for name in action.option_strings}


def refusal(*flags: str) -> str:
    with pytest.raises(UsageError) as raised:
        check_runner_flags(run_parser(), flags)
    assert is_one_sentence(str(raised.value))
    return str(raised.value)


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--runner=DirectRunner"],
        ["--runner", "DirectRunner"],
        ["--direct_num_workers=2", "--direct_running_mode=multi_processing"],
        ["--project=p", "--region=europe-west1", "--temp_location=gs://b/tmp", "--experiments=a"],
        ["--experiments", "a", "--experiments", "b"],
        ["--save_main_session", "--streaming"],
        ["--environment_options", "process_command=a b"],
    ],
)
def test_the_runners_flags_pass(flags: list[str]) -> None:
    check_runner_flags(run_parser(), flags)


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--ouput=x", "--output"),
        ("--outputt", "--output"),
        ("--request_per_minute=3", "--requests_per_minute"),
        ("--direct_num_worker=2", "--direct_num_workers"),
        ("-output=x", "--output"),
        ("--max-in-flight=3", "--max_in_flight"),
        ("--temp_locatoin=gs://b", "--temp_location"),
    ],
)
def test_a_misspelt_flag_is_told_the_nearest(flag: str, meant: str) -> None:
    said = refusal(flag)
    assert flag.split("=")[0] in said
    assert said.endswith(f"did you mean {meant}?")


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("--limits", "--limit"),
        ("--limt", "--limit"),
        ("--samples", "--sample"),
        ("--sampel", "--sample"),
        ("--seeds", "--seed"),
    ],
)
def test_a_slip_of_a_short_flag_is_told_ours(slip: str, meant: str) -> None:
    assert refusal(f"{slip}=20").endswith(f"did you mean {meant}?")


@pytest.mark.parametrize(
    "flag",
    [
        *(
            "--format",
            "--formats",
            "--file_format",
            "--output_format",
            "--fmt",
            "--max_limit",
            "--max_records",
        ),
        *(
            "--count",
            "--number",
            "--records",
            "--rows",
            "--head",
            "--top",
            "--size",
            "--max",
            "--first",
            "--n",
        ),
        *("--random", "--shuffle", "--type", "--name", "--workers", "--timeout", "--retries", "--version"),
    ],
)
def test_a_word_that_a_runner_has_too_is_never_told_the_runners_flag(flag: str) -> None:
    said = refusal(f"{flag}=20")
    assert said.endswith("lists the flags.") or said.split("did you mean ")[1].rstrip("?") in OURS, said


@pytest.mark.parametrize("flag", ["--zzzzzz", "-x", "--9", "-"])
def test_a_flag_like_no_other_is_pointed_to_the_help(flag: str) -> None:
    said = refusal(flag)
    assert f"There is no flag {flag}:" in said
    assert "`groundrows run --help`" in said


def test_an_abbreviation_is_no_flag() -> None:
    assert "--direct_num_workers" in refusal("--direct_num_work=2")


@pytest.mark.parametrize(
    "flags",
    [
        ["questions.jsonl"],
        ["--runner=DirectRunner", "stray"],
        ["--direct_num_workers", "1", "stray"],
        ["--", "x"],
    ],
)
def test_a_value_without_a_flag(flags: list[str]) -> None:
    assert "belongs to no flag" in refusal(*flags)


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("--direct_num_workers=two", "--direct_num_workers"),
        ("--direct_running_mode=quick", "multi_processing"),
        ("--runner", "--runner"),
    ],
)
def test_a_bad_value_of_a_runners_flag_is_one_sentence_too(flag: str, names: str) -> None:
    assert names in refusal(flag)


def test_a_parser_never_prints_and_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="invalid int value: 'x'"):
        run_parser().parse_known_args(["--max_attempts=x"])
    assert capsys.readouterr() == ("", "")
