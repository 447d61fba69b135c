"""`--append`: which turns the output holds already, and which of their answers are yet to be checked."""

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

_UNREADABLE = "What is answered in {path} can't be read: {reason}; mend the file or take it away."


def note_answered(output: Output, *, checks: bool = False) -> str | None:
    """Write the turns that the kept files answer into a scratch file on this machine.

    Args:
        output: Where the run writes; its `kept_files` are read.
        checks: Whether to note also which answers are yet to be checked, as the run checks answers.

    Returns:
        The scratch file's path, or None when nothing was answered before.
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
    """Note which answers have still to be checked, by the files that `files_of` names for a table."""
    # As `checks_of` decides it: a check needs a text, and a chunk that has one.
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
    """Read the turns that files of the answers table hold into a scratch file at `path`."""
    turns = AnsweredTurns(path)
    found = (
        (turn_name(row["question_id"], row["question"]), row["turn_index"]) for row in _rows(files, _TURNS)
    )
    while batch := list(islice(found, _BATCH)):
        turns.add(batch)
    return turns


def _rows(files: Iterable[str], columns: Any) -> Iterator[Any]:
    return readable_rows(files, columns, _UNREADABLE)
