"""The templates' files say what the flags say, and the commands name the files that are there."""

import json
import re
import shlex

import pytest

from groundrows.pipeline.deploy.flex_template import KINDS, Kind, commands, main, metadata, rendered
from groundrows.pipeline.deploy.launch import flags_of
from groundrows.pipeline.options.run import parse_run, run_parser
from tests.support.paths import ROOT

# As Dataflow knows them: https://cloud.google.com/dataflow/docs/guides/templates/using-flex-templates
PARAM_TYPES = {
    "TEXT",
    "BOOLEAN",
    "ENUM",
    "GCS_READ_FILE",
    "GCS_WRITE_FOLDER",
    "PUBSUB_SUBSCRIPTION",
    "PUBSUB_TOPIC",
}


def parameters(kind: Kind) -> dict[str, dict]:
    return {parameter["name"]: parameter for parameter in metadata(kind)["parameters"]}


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_metadata_is_the_flags(kind):
    assert (ROOT / f"templates/{kind}.json").read_text() == rendered(kind), (
        "run `python -m groundrows.pipeline.deploy.flex_template --write`"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_a_flag_with_its_default(kind):
    actions = {action.dest: action for action in run_parser()._actions}
    for name, parameter in parameters(kind).items():
        action = actions[name]
        assert parameter["paramType"] in PARAM_TYPES
        assert parameter["helpText"].strip(".")
        for pattern in parameter.get("regexes", []):
            if action.default is not None:
                assert re.fullmatch(pattern, str(action.default))
        if "enumOptions" in parameter:
            offered = [option["value"] for option in parameter["enumOptions"]]
            # A job never asks an emulator of its own.
            assert offered == [
                choice for choice in action.choices if (name, choice) != ("service", "emulator")
            ]
            assert parameter["paramType"] == "ENUM"


def test_every_flag_is_in_a_template_or_makes_no_sense_there():
    flags = {action.dest for action in run_parser()._actions}
    taken = set(parameters("backfill")) | set(parameters("stream"))
    assert flags - taken == {"help", "endpoint", "emulator_flags", "stop_when_idle", "quiet"}


def test_what_each_template_reads():
    assert "input" in parameters("backfill")
    assert not parameters("backfill")["input"]["isOptional"]
    assert "input_subscription" not in parameters("backfill")
    assert "input" not in parameters("stream")
    assert metadata("stream")["streaming"]
    assert not metadata("backfill")["streaming"]


def test_a_jobs_parameters_are_a_runs_flags():
    flags = flags_of(
        [
            "--input=gs://b/questions.csv",
            "--output=gs://b/rows",
            "--location=projects/p/locations/global",
            "--keep_response=true",
            "--overwrite=false",
            "--request_defaults=",
            "--question_template=What is {thing}?\nAnd why?",
            "--max_attempts=3",
            "--runner=DataflowRunner",
        ]
    )
    options = parse_run(flags)
    assert options.service == "discoveryengine"
    assert (options.keep_response, options.overwrite, options.request_defaults) == (True, False, None)
    assert options.question_template == ("What is {thing}?", "And why?")
    assert options.max_attempts == 3
    assert options.runner_flags == ("--runner=DataflowRunner",)


def test_a_jobs_parameters_may_name_gemini():
    for kind in KINDS:
        assert {"value": "gemini"} in parameters(kind)["service"]["enumOptions"]
    given = ["--input=gs://b/q.jsonl", "--output=gs://b/rows", "--location=projects/p/locations/global"]
    options = parse_run(flags_of([*given, "--service=gemini", "--model=gemini-2.5-flash"]))
    assert (options.service, options.model) == ("gemini", "gemini-2.5-flash")


def test_every_default_of_a_template_is_taken_by_the_launcher():
    least = {
        "backfill": {"input": "gs://b/q.jsonl"},
        "stream": {"input_subscription": "projects/p/subscriptions/sub"},
    }
    for kind in KINDS:
        given = {"output": "gs://b/rows", "location": "projects/p/locations/global", **least[kind]}
        plain = parse_run(flags_of([f"--{name}={value}" for name, value in given.items()]))
        for name, parameter in parameters(kind).items():
            if "defaultValue" in parameter:
                given[name] = parameter["defaultValue"]
        assert parse_run(flags_of([f"--{name}={value}" for name, value in given.items()])) == plain


def test_neither_true_nor_false(capsys):
    from groundrows.pipeline.deploy.launch import main as launch

    assert launch(["--keep_response=maybe"]) == 2
    assert capsys.readouterr().err == "--keep_response=maybe is neither true nor false.\n"


def test_the_commands(capsys):
    assert main(["--project=proj", "--region=europe-west1", "--bucket=buck"]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == commands("proj", "europe-west1", "buck")
    for line in printed.splitlines():
        words = shlex.split(line, comments=True)
        for word in words:
            name, _, value = word.partition("=")
            if name in ("--file", "--metadata-file"):
                assert (ROOT / value).is_file()
            if name == "--parameters":
                given = dict(pair.split("=", 1) for pair in value.split(","))
                kind = "stream" if "input_subscription" in given else "backfill"
                assert set(given) - {"sdk_container_image"} <= set(parameters(kind))
                required = {n for n, p in parameters(kind).items() if not p["isOptional"]}
                assert required <= set(given)


def test_the_image_holds_what_it_starts():
    text = (ROOT / "templates/Dockerfile").read_text()
    for words in (
        line.split() for line in text.splitlines() if line.startswith("COPY") and "--from" not in line
    ):
        for name in words[1:-1]:
            assert (ROOT / name).exists()
    assert "apache/beam_python3.11_sdk:2.77.0" in text
    pinned = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )
    assert pinned["apache-beam"] == "2.77.0"
    assert json.loads((ROOT / "templates/stream.json").read_text())["name"]
