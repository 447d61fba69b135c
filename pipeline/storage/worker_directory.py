"""The output directory of a worker, the process that answers a subscription's messages.

A worker is often stopped and started again, and it then continues in its directory. All row files there
stay, because their messages were acknowledged and Pub/Sub does not deliver them again.

A stopped run over archives is different: it writes its rows again. So a worker marks its directory with
another file, and neither kind of run takes the other's directory for its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any

from groundrows.pipeline.storage import file_systems, output, summaries
from groundrows.pipeline.storage.files import (
    check_name,
    make_directory,
    read_json,
)
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import row_files
from groundrows.pipeline.storage.uris import is_remote
from groundrows.pipeline.storage.whole import write_whole
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES

MARK = "worker.json"


def check(path: str, *, overwrite: bool, append: bool, row_format: str | None = None) -> None:
    """Check whether a worker may write to a directory, without changing anything.

    Raises:
        UsageError: It may not.
    """
    if overwrite:
        raise UsageError(
            "--overwrite would remove rows whose messages are acknowledged and are not delivered again: "
            "leave it out, or name another directory."
        )
    with output.errors_named(path):
        _new_or_continued(path, append=append, row_format=row_format)
        if not is_remote(path):
            output.check_writable(path)


@contextmanager
def claimed(path: str, *, append: bool, row_format: str | None = None) -> Iterator[Output]:
    """Claim the directory for a worker, and keep it claimed while the block runs.

    Args:
        path: The directory.
        append: Whether the worker may add to rows that no worker wrote.
        row_format: The format of the new rows, by name; None for the format of the rows that are there.

    Yields:
        The worker's output. Its `kept_files` are all row files in the directory.

    Raises:
        UsageError: The directory holds rows that no worker wrote and `append` is false, another run is
            writing to it, or it can't be written.
    """
    with ExitStack() as stack:
        with output.errors_named(path):
            stack.enter_context(output.locked(path))
            where = _new_or_continued(path, append=append, row_format=row_format)
            make_directory(where.private())
            _write_mark(where)
            summaries.set_aside(path)
            output.remove_staging(where)
        yield where


def renew(where: Output) -> None:
    """Mark a directory as the worker's again, after somebody removed it and new rows were written there."""
    make_directory(where.private())
    _write_mark(where)
    output.remove_staging(where)


def _new_or_continued(path: str, *, append: bool, row_format: str | None) -> Output:
    check_name(path)
    rows = tuple(file for table in TABLES for file in row_files(file_systems.join(path, table)))
    if file_systems.exists(file_systems.join(path, output.UNDER_WAY)):
        raise UsageError(
            f"--output={path} holds a stopped run over archives: run its command again to finish it, or name "
            "another directory."
        )
    mark = _mark(path)
    if mark is not None:
        chosen = output.format_beside(path, rows, row_format)
        return Output(path, mark["run_id"], rows, datetime.fromisoformat(mark["started_at"]), chosen)
    if (rows or output.is_finished(path)) and not append:
        raise UsageError(
            f"--output={path} holds the rows of another run: give --append to add to them, or name another "
            "directory."
        )
    return output.new(path, rows, row_format)


def _mark(path: str) -> dict[str, Any] | None:
    """Return the mark that a worker left in its directory, or None.

    Raises:
        ValueError: The mark is damaged.
    """
    name = str(file_systems.join(path, summaries.PRIVATE, MARK))
    try:
        mark = read_json(name)
        if mark is not None:
            datetime.fromisoformat(mark["started_at"])
            if not isinstance(mark["run_id"], str) or not mark["run_id"]:
                raise ValueError("no run")
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{name} is damaged") from None
    return mark


def _write_mark(where: Output) -> None:
    if file_systems.exists(where.private(MARK)):
        return
    text = json.dumps({"run_id": where.run_id, "started_at": where.started_at.isoformat()})
    write_whole(where.private(MARK), text.encode(), where.private(f"half.{MARK}"))
