"""The two Flex Templates, derived from the flags: their metadata, and the commands that build and run them.

`python -m groundrows.pipeline.deploy.flex_template` prints the commands; `--write` renews `templates/*.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from groundrows.pipeline.options.run import run_parser

Kind = Literal["backfill", "stream"]

KINDS: tuple[Kind, ...] = ("backfill", "stream")
DIRECTORY = Path(__file__).resolve().parents[2] / "templates"

_DESCRIPTIONS: dict[Kind, tuple[str, str]] = {
    "backfill": (
        "Groundrows: backfill",
        "Asks every question of an archive on Cloud Storage and writes the grounded answers as rows.",
    ),
    "stream": (
        "Groundrows: stream",
        "Asks each question that arrives on Pub/Sub and writes the grounded answers as rows.",
    ),
}
# Flags that make no sense in a job on Dataflow, or that only this machine's worker has.
_HERE_ONLY = frozenset({"help", "service", "endpoint", "emulator_flags", "stop_when_idle", "quiet"})
_OF_STREAMS = frozenset(
    {
        "input_subscription",
        "input_topic",
        "id_attribute",
        "timestamp_attribute",
        "window_seconds",
        "output_shards",
    }
)
_OF_BACKFILLS = frozenset({"input", "overwrite", "append", "max_failure_share"})
_REQUIRED: dict[Kind, frozenset[str]] = {
    "backfill": frozenset({"input", "output", "location"}),
    "stream": frozenset({"output", "location"}),  # and one of two sources
}
_TYPES = {
    "input_subscription": "PUBSUB_SUBSCRIPTION",
    "input_topic": "PUBSUB_TOPIC",
    "failures_topic": "PUBSUB_TOPIC",
    "output": "GCS_WRITE_FOLDER",
    "request_defaults": "GCS_READ_FILE",
}
_NUMBERS = {int: r"^[0-9]+$", float: r"^[0-9]+(\.[0-9]+)?$"}


def metadata(kind: Kind) -> dict[str, Any]:
    """A template's metadata file, as Dataflow reads it: every flag of `groundrows run` that it takes."""
    name, description = _DESCRIPTIONS[kind]
    stream = kind == "stream"
    return {
        "name": name,
        "description": description,
        "streaming": stream,
        # Rows are written at least once either way; the views take doubles out.
        "supportsAtLeastOnce": stream,
        "supportsExactlyOnce": stream,
        **({"defaultStreamingMode": "AT_LEAST_ONCE"} if stream else {}),
        "parameters": [_parameter(action, group, kind) for action, group in _flags(kind)],
    }


def _flags(kind: Kind) -> Iterator[tuple[argparse.Action, str]]:
    left_out = _HERE_ONLY | (_OF_BACKFILLS if kind == "stream" else _OF_STREAMS)
    for group in run_parser()._action_groups:
        for action in group._group_actions:
            if action.dest not in left_out:
                yield action, group.title or ""


def _parameter(action: argparse.Action, group: str, kind: Kind) -> dict[str, Any]:
    said: dict[str, Any] = {
        "name": action.dest,
        "label": action.dest.replace("_", " ").capitalize(),
        "helpText": _help(action),
        "isOptional": action.dest not in _REQUIRED[kind],
        "paramType": _param_type(action),
        "groupName": group.capitalize(),
    }
    if action.choices:
        said["enumOptions"] = [{"value": str(choice)} for choice in action.choices]
    if isinstance(action.type, type) and action.type in _NUMBERS:
        said["regexes"] = [_NUMBERS[action.type]]
    if said["isOptional"] and action.default not in (None, "", []):
        said["defaultValue"] = _text(action.default)
    return said


def _help(action: argparse.Action) -> str:
    text = action.help or ""
    return f"{text[:1].upper()}{text[1:]}."


def _param_type(action: argparse.Action) -> str:
    if isinstance(action, argparse._StoreTrueAction):
        return "BOOLEAN"
    return "ENUM" if action.choices else _TYPES.get(action.dest, "TEXT")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def rendered(kind: Kind) -> str:
    """The metadata file's text."""
    return json.dumps(metadata(kind), indent=2, ensure_ascii=False) + "\n"


def commands(project: str, region: str, bucket: str) -> str:
    """The shell commands that build the image and both templates, and start a job of each."""
    image = f"{region}-docker.pkg.dev/{project}/groundrows/groundrows:0.1.0"
    lines = [
        "# The image, once a version; it serves the launcher and the workers.",
        f"gcloud artifacts repositories create groundrows --project={project} --location={region}"
        " --repository-format=docker",
        f"docker build --file=templates/Dockerfile --tag={image} .",
        f"docker push {image}",
    ]
    for kind in KINDS:
        spec = f"gs://{bucket}/templates/groundrows-{kind}.json"
        source = (
            f"input=gs://{bucket}/questions/*.jsonl"
            if kind == "backfill"
            else f"input_subscription=projects/{project}/subscriptions/questions"
        )
        lines += [
            "",
            f"# {_DESCRIPTIONS[kind][1]}",
            f"gcloud dataflow flex-template build {spec} --project={project} --image={image}"
            f" --sdk-language=PYTHON --metadata-file=templates/{kind}.json",
            f"gcloud dataflow flex-template run groundrows-{kind} --project={project} --region={region}"
            f" --template-file-gcs-location={spec}"
            f" --parameters='{source},output=gs://{bucket}/rows/{kind},"
            f"location=projects/{project}/locations/global,requests_per_minute=60,"
            f"sdk_container_image={image}'",
        ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the commands, or write the metadata files."""
    parser = argparse.ArgumentParser(
        prog="python -m groundrows.pipeline.deploy.flex_template", description=__doc__
    )
    parser.add_argument("--project", default="PROJECT")
    parser.add_argument("--region", default="REGION")
    parser.add_argument("--bucket", default="BUCKET")
    parser.add_argument("--write", action="store_true", help="write templates/*.json instead")
    flags = parser.parse_args(argv)
    if flags.write:
        for kind in KINDS:
            (DIRECTORY / f"{kind}.json").write_text(rendered(kind), encoding="utf-8")
        return 0
    print(commands(flags.project, flags.region, flags.bucket))
    return 0


if __name__ == "__main__":
    sys.exit(main())
