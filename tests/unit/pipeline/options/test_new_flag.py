"""A flag that is declared has all that a flag has: here two that are made up."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import shtab

from groundrows.pipeline.commands.completion import whole_parser
from groundrows.pipeline.deploy.flex_template import metadata
from groundrows.pipeline.deploy.reference import flags_page, whole_set_of_flags
from groundrows.pipeline.options import run
from groundrows.pipeline.options.flag import Flag, Only, Parameter, flag
from groundrows.pipeline.options.replay import parse_replay
from groundrows.pipeline.options.run import RunOptions, parse_run, run_parser, shown_flags
from groundrows.pipeline.report.replaying import replay_command
from groundrows.schemas.errors import UsageError
from tests.support.tools import is_one_sentence

LEAST = ["--service=emulator", "--output=out"]
ARCHIVE = [*LEAST, "--input=a.jsonl"]
STREAM = [*LEAST, "--input_subscription=projects/p/subscriptions/sub"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended(RunOptions):
    """A run's options with two flags more."""

    GROUP: ClassVar[str] = "what is made up"

    patience: int = flag(
        3, Flag("Wait N times.", metavar="N", least=1, most=9, only=Only.ARCHIVES, template=Parameter())
    )
    courier: str = flag(
        "",
        Flag(
            "Who brings the rows.",
            metavar="URI",
            pattern=r"courier://.+",
            noun="courier",
            example="courier://HOST",
            secret=True,
            replayed=False,
            template=None,
        ),
    )


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "RunOptions", Extended)


def parsed(*argv: str) -> Any:
    return parse_run(argv)


def refusal(*argv: str) -> str:
    with pytest.raises(UsageError) as raised:
        parse_run(argv)
    assert is_one_sentence(str(raised.value))
    return str(raised.value)


def test_the_parser_takes_it() -> None:
    assert (parsed(*ARCHIVE).patience, parsed(*ARCHIVE).courier) == (3, "")
    given = parsed(*ARCHIVE, "--patience=5", "--courier=courier://here")
    assert (given.patience, given.courier) == (5, "courier://here")


def test_its_value_is_checked() -> None:
    assert refusal(*ARCHIVE, "--patience=10") == (
        "--patience=10 makes no sense: give a whole number from 1 to 9."
    )
    assert (
        refusal(*ARCHIVE, "--courier=post") == "--courier=post is not a valid courier: write courier://HOST."
    )
    assert refusal(*STREAM, "--patience=5").startswith("--patience is for questions from files")
    assert refusal(*ARCHIVE, "--patiense=5") == "There is no flag --patiense: did you mean --patience?"


def test_the_help_explains_it() -> None:
    said = run_parser().format_help()
    heading = said.index("what is made up:")
    assert "--patience N" in said[heading:]
    assert "Wait N times. Default: 3." in said[heading:]
    assert "--courier URI" in said[heading:]


def test_the_reference_page_has_it() -> None:
    page = flags_page()
    assert "## What is made up" in page
    assert "| `--patience=N` | Wait N times. | `3` |" in page
    assert {"--patience", "--courier"} <= whole_set_of_flags()


def test_the_templates_have_it_as_a_parameter() -> None:
    backfill = {each["name"]: each for each in metadata("backfill")["parameters"]}
    assert backfill["patience"] == {
        "name": "patience",
        "label": "Patience",
        "helpText": "Wait N times.",
        "isOptional": True,
        "paramType": "TEXT",
        "groupName": "What is made up",
        "regexes": ["^(?:[0-9]+)$"],
        "defaultValue": "3",
    }
    assert "courier" not in backfill
    assert not {"patience", "courier"} & {each["name"] for each in metadata("stream")["parameters"]}


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_the_shells_complete_it(shell: str) -> None:
    script = shtab.complete(whole_parser(), shell=shell)
    assert "patience" in script
    assert "courier" in script


def test_a_replay_repeats_it_where_it_may() -> None:
    first = parsed(*ARCHIVE, "--patience=5", "--courier=courier://here")
    said = json.loads(json.dumps(shown_flags(first)))
    words = shlex.split(" ".join(replay_command("out", "UNAVAILABLE", said)))
    assert "--patience=5" in words
    assert not [word for word in words if "courier" in word]
    again: Any = parse_replay(words[2:]).run
    assert (again.patience, again.courier) == (5, "")


def test_run_json_shows_it_without_its_secret() -> None:
    shown = shown_flags(parsed(*ARCHIVE, "--courier=courier://me:hunter2@here"))
    assert shown["patience"] == 3
    assert "here" in shown["courier"]
    assert "hunter2" not in shown["courier"]
