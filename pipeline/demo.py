"""`make demo`: the sample archive through the emulator, and three of its answers to read."""

from __future__ import annotations

import shutil
import sys
import textwrap
from importlib import resources
from pathlib import Path

from fastavro import reader

from pipeline.cli import main

OUTPUT = "out/demo"


def demo() -> int:
    """Run it; returns the exit code."""
    samples = resources.files("pipeline") / "samples"
    shutil.rmtree(OUTPUT, ignore_errors=True)
    print("Asking the sample questions of an emulator on this machine …")
    code = main(
        [
            "run",
            "--service=emulator",
            f"--input={samples / 'questions.jsonl'}",
            f"--request_defaults={samples / 'request_defaults.json'}",
            f"--output={OUTPUT}",
        ]
    )
    if code == 0:
        _show_answers(3)
        print(f"\nAll rows are in {OUTPUT}; README shows how to query them.")
    return code


def _show_answers(count: int) -> None:
    shown = 0
    for path in sorted(Path(OUTPUT, "answers").glob("*.avro")):
        with path.open("rb") as file:
            for row in reader(file):
                if shown == count:
                    return
                shown += 1
                coverage = row["support_coverage"]
                print(f"\n  Q  {row['question']}")
                print(
                    textwrap.fill(row["answer_text"], 96, initial_indent="  A  ", subsequent_indent="     ")
                )
                print(
                    f"     {row['supported_claim_count']} of {row['claim_count']} claims supported by "
                    f"{row['chunk_count']} chunks"
                    + (f", {coverage:.0%} of the text" if coverage is not None else "")
                )


if __name__ == "__main__":
    sys.exit(demo())
