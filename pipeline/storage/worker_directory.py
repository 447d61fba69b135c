"""A worker's output directory: its own, for as long as there is a subscription to work off.

To be started again is the normal thing for a worker, so it goes on in its directory whatever ended it before,
and every row file that is there stays: its messages were acknowledged and do not come again. For the same
reason the directory must not be taken for that of a run over archives which was stopped, whose rows are made
anew: the worker's mark is another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any

from apache_beam.io.filesystems import FileSystems

from groundrows.pipeline.storage import output, summaries
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


def check(path: str, *, overwrite: bool, append: bool) -> None:
    """Find out, without touching anything, whether a worker may write to a directory.

    Raises:
        UsageError: It may not.
    """
    if overwrite:
        raise UsageError(
            "--overwrite would remove rows whose messages are acknowledged and do not come again: leave it "
            "out, or name another directory."
        )
    with output.errors_named(path):
        _begun(path, append=append)
        if not is_remote(path):
            output.check_writable(path)


@contextmanager
def claimed(path: str, *, append: bool) -> Iterator[Output]:
    """Claim the directory for a worker, for as long as it works.

    Yields:
        Where it writes. `kept_files` are all the row files that were there.

    Raises:
        UsageError: It holds rows that are no worker's and `append` was not given, something else is writing
            to it, or it can't be written.
    """
    with ExitStack() as stack:
        with output.errors_named(path):
            stack.enter_context(output.locked(path))
            where = _begun(path, append=append)
            make_directory(where.private())
            _write_mark(where)
            summaries.set_aside(path)
            output.remove_staging(where)
        yield where


def renew(where: Output) -> None:
    """Mark a directory as the worker's once more, after it was taken away and rows came there anew."""
    make_directory(where.private())
    _write_mark(where)
    output.remove_staging(where)


def _begun(path: str, *, append: bool) -> Output:
    check_name(path)
    rows = tuple(file for table in TABLES for file in row_files(FileSystems.join(path, table)))
    if FileSystems.exists(FileSystems.join(path, output.UNDER_WAY)):
        raise UsageError(
            f"--output={path} holds a run over archives that was stopped: give its command again to finish "
            "it, or name another directory."
        )
    mark = _mark(path)
    if mark is not None:
        return Output(path, mark["run_id"], rows, datetime.fromisoformat(mark["started_at"]))
    if (rows or output.is_finished(path)) and not append:
        raise UsageError(
            f"--output={path} holds the rows of another run: give --append to add to them, or name another "
            "directory."
        )
    return output.new(path, rows)


def _mark(path: str) -> dict[str, Any] | None:
    """What a worker noted in its directory, or None where none has worked.

    Raises:
        ValueError: It is damaged.
    """
    name = str(FileSystems.join(path, summaries.PRIVATE, MARK))
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
    if FileSystems.exists(where.private(MARK)):
        return
    text = json.dumps({"run_id": where.run_id, "started_at": where.started_at.isoformat()})
    write_whole(where.private(MARK), text.encode(), where.private(f"half.{MARK}"))
