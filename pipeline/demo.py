"""`make demo`: asks the sample questions of the emulator, and prints three of the answers."""

from __future__ import annotations

import shutil
import sys
import textwrap
from importlib import resources
from pathlib import Path

from fastavro import reader

from groundrows.pipeline.cli import main

OUTPUT = "out/demo"


def demo() -> int:
    """Run the demo; return the exit code."""
    samples = resources.files("groundrows.pipeline") / "samples"
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
    rows = []
    for path in Path(OUTPUT, "answers").glob("*.avro"):
        with path.open("rb") as file:
            rows += reader(file)
    rows.sort(key=lambda row: (-row["supported_claim_count"], row["question_id"], row["turn_index"]))
    for row in rows[:count]:
        print(f"\n  Q  {row['question']}")
        print(textwrap.fill(row["answer_text"], 96, initial_indent="  A  ", subsequent_indent="     "))
        print(
            f"     {row['supported_claim_count']} of {row['claim_count']} claims supported,"
            f" {row['support_coverage']:.0%} of the text; sources cited: {row['chunk_count']}"
        )


if __name__ == "__main__":
    sys.exit(demo())
