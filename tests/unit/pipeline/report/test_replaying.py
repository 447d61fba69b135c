import json
import shlex

import pytest

from groundrows.pipeline.options.replay import parse_replay
from groundrows.pipeline.options.run import parse_run, shown_flags
from groundrows.pipeline.report.replaying import replay_command


@pytest.mark.parametrize(
    "flags",
    [
        ["--service=emulator"],
        [
            "--service=emulator",
            "--emulator_flags=--answers=canned --latency=0.1",
            "--requests_per_minute=90.5",
        ],
        [
            "--service=emulator",
            "--endpoint=127.0.0.1:4000",
            "--location=projects/p/locations/us",
            "--api_version=v1beta",
        ],
        [
            "--service=discoveryengine",
            "--location=projects/p/locations/global",
            "--max_in_flight=3",
            "--keep_response",
        ],
        [
            "--service=emulator",
            "--question_template=What of {it}?",
            "--question_template=And 'then'?",
            "--id_field=no",
        ],
        [
            "--service=emulator",
            "--share_identical",
            "--deadline_seconds=5",
            "--max_attempts=2",
            "--quiet",
            "--overwrite",
        ],
    ],
)
def test_the_command_asks_as_the_run_did(flags, tmp_path):
    directory = str(tmp_path / "with a space")
    first = parse_run(["--input=a.jsonl", f"--output={directory}", *flags])
    said = json.loads(json.dumps(shown_flags(first)))
    words = shlex.split(" ".join(replay_command(directory, "UNAVAILABLE", said)))
    assert words[:2] == ["groundrows", "replay"]
    again = parse_replay(words[2:])
    assert (again.failures, again.codes, again.run.append) == ((directory,), ("UNAVAILABLE",), True)
    differing = {"inputs", "append", "overwrite", "quiet"}
    for name in set(first.__slots__) - differing:
        assert getattr(again.run, name) == getattr(first, name), name


def test_without_a_summary_it_names_what_is_known():
    assert replay_command("out/x", "INTERNAL", {}) == [
        "groundrows",
        "replay",
        "--failures=out/x",
        "--codes=INTERNAL",
        "--output=out/x",
        "--append",
    ]
