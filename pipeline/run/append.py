"""For `--append`: find the turns that the output has answers for, and the answers that have no check yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import columns_of, readable_rows
from groundrows.transforms.generate.calling.answered import AnsweredTurns, turn_name

# Files of the first versions have no column `question`.
_TURNS = columns_of("answers", "question_id", "turn_index", "question", missing={"question": ""})
_ANSWERS = columns_of(
    "answers", "question_id", "turn_index", "question", "answer_id", "answer_text", missing={"question": ""}
)
_CHUNKS = columns_of("support_chunks", "answer_id", "chunk_text")
_CHECKS = columns_of("grounding_checks", "answer_id")
_BATCH = 10_000

_UNREADABLE = "The answers in {path} can't be read: {reason}; repair the file or move it away."


def note_answered(output: Output, *, checks: bool = False) -> str | None:
    """Write the turns that earlier runs answered into a scratch file on this machine.

    The scratch file keeps memory bounded: an output directory may hold millions of answers.

    Args:
        output: Where the run writes; its `kept_files`, the files of earlier runs, are read.
        checks: Whether to note the answers that have no check yet as well.

    Returns:
        The scratch file's path, or None when the directory has no answers.
    """
    files = output.kept("answers")
    if not files:
        return None
    os.makedirs(output.scratch, mode=0o700, exist_ok=True)
    path = os.path.join(output.scratch, "answered.sqlite")
    with closing(answered_turns(files, path)) as turns:
        if checks:
            note_unchecked(turns, output.kept)
    return path


def note_unchecked(turns: AnsweredTurns, files_of: Callable[[str], Iterable[str]]) -> None:
    """Note the answers that have no check yet. `files_of` returns the files of a table."""
    # The same conditions as in `checks_of`: the answer has a text, and so has one of its support chunks.
    turns.add_unchecked(
        answers=(
            (turn_name(row["question_id"], row["question"]), row["turn_index"], row["answer_id"])
            for row in _rows(files_of("answers"), _ANSWERS)
            if row["answer_text"].strip()
        ),
        quoting=(
            row["answer_id"]
            for row in _rows(files_of("support_chunks"), _CHUNKS)
            if row["chunk_text"].strip()
        ),
        checked=(row["answer_id"] for row in _rows(files_of("grounding_checks"), _CHECKS)),
    )


def answered_turns(files: Iterable[str], path: str) -> AnsweredTurns:
    """Write the turns in these files of the answers table into a scratch file at `path`."""
    turns = AnsweredTurns(path)
    found = (
        (turn_name(row["question_id"], row["question"]), row["turn_index"]) for row in _rows(files, _TURNS)
    )
    while batch := list(islice(found, _BATCH)):
        turns.add(batch)
    return turns


def _rows(files: Iterable[str], columns: Any) -> Iterator[Any]:
    return readable_rows(files, columns, _UNREADABLE)
