"""`--append`: which turns the output holds already."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from fastavro import reader

from pipeline.errors import UsageError
from pipeline.formats.items import reason_of
from pipeline.output import Output
from transforms.generate.answered import AnsweredTurns, turn_name

# Only these columns are decoded into Python; the rest is skipped over.
_COLUMNS = {
    "type": "record",
    "name": "groundrows.answers",
    "fields": [
        {"name": "question_id", "type": "string"},
        {"name": "turn_index", "type": "int"},
        {"name": "question", "type": "string", "default": ""},
    ],
}
_BATCH = 10_000


def note_answered(output: Output) -> str | None:
    """Write the turns that the kept files answer into a scratch file on this machine.

    Args:
        output: Where the run writes; its `kept_files` are read.

    Returns:
        The scratch file's path, or None when nothing was answered before.
    """
    files = output.kept("answers")
    if not files:
        return None
    os.makedirs(output.scratch, mode=0o700, exist_ok=True)
    path = os.path.join(output.scratch, "answered.sqlite")
    answered_turns(files, path).close()
    return path


def answered_turns(files: Iterable[str], path: str) -> AnsweredTurns:
    """Read the turns that files of the answers table hold into a scratch file at `path`."""
    turns = AnsweredTurns(path)
    for file in files:
        found = _turns(file)
        while batch := list(islice(found, _BATCH)):
            turns.add(batch)
    return turns


def _turns(path: str) -> Iterator[tuple[str, int]]:
    try:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            for row in reader(file, reader_schema=_COLUMNS):
                yield turn_name(row["question_id"], row["question"]), row["turn_index"]
    except Exception as error:
        raise UsageError(
            f"What is answered in {path} can't be read: {reason_of(error)}; mend the file or take it away."
        ) from None
