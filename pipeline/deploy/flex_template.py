"""Makes the metadata of the two Dataflow Flex Templates from the flags, and the commands that build them.

`python -m groundrows.pipeline.deploy.flex_template` prints the commands; `--write` renews `templates/*.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from groundrows.pipeline.options.flag import Flag, Only, Parameter
from groundrows.pipeline.options.run import run_flags

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
_NUMBERS = {int: r"[0-9]+", float: r"[0-9]+(\.[0-9]+)?"}


def metadata(kind: Kind) -> dict[str, Any]:
    """Return a template's metadata for Dataflow, with the flags of `groundrows run` that it has."""
    name, description = _DESCRIPTIONS[kind]
    stream = kind == "stream"
    return {
        "name": name,
        "description": description,
        "streaming": stream,
        # With this mode, a row may be written twice. The views show each row once.
        "supportsAtLeastOnce": stream,
        "supportsExactlyOnce": stream,
        **({"defaultStreamingMode": "AT_LEAST_ONCE"} if stream else {}),
        "parameters": [
            _parameter(flag, flag.template)
            for flag in run_flags()
            if flag.template is not None and _takes(kind, flag, flag.template)
        ],
    }


def _takes(kind: Kind, flag: Flag, template: Parameter) -> bool:
    """Whether a template of this kind has the parameter."""
    if kind == "stream":
        return template.in_stream and flag.only is not Only.ARCHIVES
    return flag.only is not Only.STREAMS


def _parameter(flag: Flag, template: Parameter) -> dict[str, Any]:
    said: dict[str, Any] = {
        "name": flag.name,
        "label": flag.name.replace("_", " ").capitalize(),
        "helpText": flag.help,
        "isOptional": not template.required,
        "paramType": "BOOLEAN" if flag.is_switch else "ENUM" if flag.choices else template.kind,
        "groupName": flag.group.capitalize(),
    }
    if flag.choices:
        said["enumOptions"] = [{"value": choice} for choice in template.choices or flag.choices]
    pattern = flag.pattern or _NUMBERS.get(flag.kind)
    if pattern is not None:
        said["regexes"] = [f"^(?:{pattern})$"]
    if flag.is_switch:
        said["defaultValue"] = "false"
    elif not template.required and flag.default not in (None, "", ()):
        said["defaultValue"] = str(flag.default)
    return said


def rendered(kind: Kind) -> str:
    """Return the text of the metadata file."""
    return json.dumps(metadata(kind), indent=2, ensure_ascii=False) + "\n"


def commands(project: str, region: str, bucket: str) -> str:
    """Return the shell commands that build the image and both templates, and start a job of each."""
    image = f"{region}-docker.pkg.dev/{project}/groundrows/groundrows:0.1.0"
    lines = [
        "# Build the image once per version. The launcher and the workers use it.",
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
            f" --parameters='{source},output=gs://{bucket}/rows/{kind},service=discoveryengine,"
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
