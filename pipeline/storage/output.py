"""The output directory of a run, and its state: new, unfinished or finished.

This module makes sure that rows of two runs are never mixed by accident.

- `run.json` is written last, so it marks a finished run.
- `.run.json` marks a run in progress. It holds the run's ID and the files of earlier runs to keep. The same
  command uses it to continue a run that was stopped.
- `runs/` holds the summary of each finished run (`summaries.py`).
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from groundrows.pipeline.storage import file_systems, summaries
from groundrows.pipeline.storage.files import (
    cause_of,
    check_name,
    delete,
    make_directory,
    read_json,
    remove_directory,
)
from groundrows.pipeline.storage.row_files import row_files
from groundrows.pipeline.storage.row_formats.known import FORMATS, format_of
from groundrows.pipeline.storage.row_formats.names import DEFAULT
from groundrows.pipeline.storage.row_formats.seam import RowFormat
from groundrows.pipeline.storage.summaries import PRIVATE, RUN
from groundrows.pipeline.storage.uris import is_remote
from groundrows.pipeline.storage.whole import write_whole
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES
from groundrows.schemas.wording import reason_of

UNDER_WAY = ".run.json"
STAGING = "staging"
LEDGER = "ledger.sqlite"


@dataclass(frozen=True, slots=True)
class Output:
    """The directory that a run writes to.

    Attributes:
        path: The directory, local or on `gs://`.
        run_id: The run's ID. A run keeps it when it is stopped and continued.
        kept_files: Row files that existed before and stay: files of finished runs (`--append`), and the
            `written_files`.
        started_at: When the run was first started, in UTC.
        row_format: The name of the format in which the run writes rows.
        written_files: Those `kept_files` that this run wrote itself before its calling stopped.
    """

    path: str
    run_id: str
    kept_files: tuple[str, ...]
    started_at: datetime
    row_format: str = DEFAULT
    written_files: tuple[str, ...] = ()

    @property
    def format(self) -> RowFormat:
        """The format in which the run writes rows."""
        return FORMATS[self.row_format]

    def private(self, *names: str) -> str:
        """Return a path below the directory of internal files."""
        return str(file_systems.join(self.path, PRIVATE, *names))

    @property
    def scratch(self) -> str:
        """A directory on this machine for temporary files. The end of the run removes it."""
        if not is_remote(self.path):
            return self.private(STAGING)
        return os.path.join(tempfile.gettempdir(), f"groundrows-{self.run_id}")

    def table(self, table: str) -> str:
        """Return a table's directory."""
        return str(file_systems.join(self.path, table))

    def table_files(self, table: str) -> list[str]:
        """Return a table's files that have their final names."""
        return row_files(self.table(table))

    @property
    def found_files(self) -> tuple[str, ...]:
        """The files of other runs that stay."""
        return tuple(file for file in self.kept_files if file not in self.written_files)

    def kept(self, table: str) -> list[str]:
        """Return a table's files that stay."""
        return [file for file in self.kept_files if _within(file).startswith(f"{table}/")]


def new(path: str, kept_files: Sequence[str] = (), row_format: str | None = None) -> Output:
    """Return the output of a run that begins now, with a new ID. This changes nothing in the directory.

    Args:
        path: The directory.
        kept_files: The row files that the run keeps.
        row_format: The requested format of the new rows; None for the format of the kept files.

    Raises:
        UsageError: The kept files have another format than the requested one.
    """
    chosen = format_beside(path, kept_files, row_format)
    return Output(path, uuid.uuid4().hex, tuple(kept_files), datetime.now(UTC), chosen)


def format_beside(path: str, files: Iterable[str], requested: str | None) -> str:
    """Return the format for new rows beside existing row files, which is the format of those files.

    Programs of users find row files by their suffix, so a second format would hide rows from them.

    Raises:
        UsageError: Another format is requested.
    """
    there = {format_of(file).name for file in files}
    if requested is None:
        return there.pop() if len(there) == 1 else DEFAULT
    if there and requested not in there:
        raise UsageError(
            f"--output={path} holds rows as {' and '.join(sorted(there))}, so {requested} can't be added: "
            f"leave --row_format={requested} out, or name another directory."
        )
    return requested


def check(path: str, *, overwrite: bool, append: bool, row_format: str | None = None) -> None:
    """Check whether a run may write to a directory, without changing anything.

    Raises:
        UsageError: It may not. `claimed` would raise the same error.
    """
    with errors_named(path):
        check_name(path)
        _new_or_continued(path, overwrite=overwrite, append=append, row_format=row_format)
        if not is_remote(path):
            check_writable(path)


@contextmanager
def claimed(path: str, *, overwrite: bool, append: bool, row_format: str | None = None) -> Iterator[Output]:
    """Claim the directory for a run, and keep it claimed while the block runs.

    Args:
        path: The directory.
        overwrite: Whether the run may remove a finished run's rows.
        append: Whether the run keeps those rows and adds to them.
        row_format: The format of the new rows, by name; None for the format of the rows that are there.

    Raises:
        UsageError: The directory holds a finished run and neither flag was given, its rows have another
            format than the new ones, another run is writing to it, or it can't be written.
    """
    with ExitStack() as stack:
        with errors_named(path):
            check_name(path)
            stack.enter_context(locked(path))
            output = _new_or_continued(path, overwrite=overwrite, append=append, row_format=row_format)
            _prepare(output)
        yield output


@contextmanager
def errors_named(path: str) -> Iterator[None]:
    """While the block runs, turn errors with the directory's files into an error that names `--output`.

    Raises:
        UsageError: The file system or the credentials failed, or a file has the wrong content.
    """
    try:
        yield
    except file_systems.errors() as error:
        raise UsageError(
            f"--output={path} can't be used: {reason_of(cause_of(error))}; name another directory."
        ) from error


def check_writable(path: str) -> None:
    """Check whether a run can write to a local directory, without creating anything.

    Raises:
        ValueError: It can't; the message says why.
    """
    if path != path.encode("utf-8", "replace").decode():
        raise ValueError("its name is not valid UTF-8")
    for name in ("", PRIVATE, *TABLES):
        part = os.path.join(path, name)
        if os.path.lexists(part) and not os.path.isdir(part):
            raise ValueError(f"{part} is not a directory")
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise ValueError(f"{above} is not a directory")
    if not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        raise ValueError(f"{above} can't be written")


def _new_or_continued(path: str, *, overwrite: bool, append: bool, row_format: str | None) -> Output:
    """Return the output of a new run or of a stopped run that continues. This changes nothing."""
    finished = is_finished(path)
    if finished and not overwrite and not append:
        raise UsageError(
            f"--output={path} holds a finished run: give --overwrite to replace it, --append to ask only the "
            "questions that it has no answer for, or name another directory."
        )
    stopped = None if finished else _stopped(path, or_none=overwrite)
    # The same command continues a stopped run, unless --overwrite is to remove files of earlier runs.
    if stopped is not None and not (overwrite and stopped.found_files):
        if row_format not in (None, stopped.row_format):
            raise UsageError(
                f"--output={path} holds a stopped run, whose rows are {stopped.row_format}: give "
                f"--row_format={stopped.row_format} to continue it, or name another directory."
            )
        return stopped
    files = _all_row_files(path)
    if files and not finished and not overwrite:
        raise UsageError(
            f"--output={path} holds rows, but no run.json that says which run wrote them: give --overwrite "
            "to replace them, or name another directory."
        )
    return new(path, files if append else (), row_format)


def _prepare(output: Output) -> None:
    """Write the mark of a run in progress, and remove the files that are not kept."""
    path = output.path
    make_directory(path)
    # The mark comes first. When the process is killed at any point, the directory then holds either the old
    # run as it was, or a new run that can be continued.
    _note_under_way(output)
    if output.kept_files:
        summaries.set_aside(path)
    else:
        summaries.remove(path)
    for file in _all_row_files(path):
        if file not in output.kept_files:
            delete(file)
    remove_staging(output)


def _note_under_way(output: Output) -> None:
    _write_json(
        output,
        UNDER_WAY,
        {
            "run_id": output.run_id,
            "kept_files": [_within(file) for file in output.found_files],
            "written_files": [_within(file) for file in output.written_files],
            "started_at": output.started_at.isoformat(),
            "row_format": output.row_format,
        },
    )


def _stopped(path: str, *, or_none: bool = False) -> Output | None:
    """Return the run that was stopped in a directory, or None.

    Raises:
        UsageError: The mark that it left is damaged, and `or_none` is false.
    """
    try:
        said = read_json(file_systems.join(path, UNDER_WAY))
        return None if said is None else _taken_up(path, said)
    except (ValueError, KeyError, TypeError, AttributeError):
        if or_none:
            return None
        raise UsageError(
            f"--output={path} holds a {UNDER_WAY} that is damaged, so the stopped run can't continue: give "
            "--overwrite to start again, or name another directory."
        ) from None


def _taken_up(path: str, said: dict[str, Any]) -> Output:
    run_id, kept = said["run_id"], [_within(file) for file in said["kept_files"]]
    started_at = datetime.fromisoformat(said["started_at"])
    if not isinstance(run_id, str) or not run_id or started_at.tzinfo is None:
        raise ValueError("no run")
    found = _there(path, kept)
    written = _there(path, [_within(file) for file in said.get("written_files", ())])
    row_format = said.get("row_format", DEFAULT)  # earlier versions had no other
    if row_format not in FORMATS:
        raise ValueError("no format")
    return Output(path, run_id, found + written, started_at, row_format, written)


def _there(path: str, files: Iterable[str]) -> tuple[str, ...]:
    """Return the full paths of files, without those that somebody has removed."""
    names = [str(file_systems.join(path, *file.split("/"))) for file in files]
    return tuple(name for name in names if file_systems.exists(name))


def _within(file: str) -> str:
    """Return `TABLE/NAME` of a row file: the next command may spell the path of `--output` differently."""
    return "/".join(file.rsplit("/", 2)[-2:])


def is_finished(path: str) -> bool:
    """Whether a directory holds a finished run."""
    return bool(file_systems.exists(file_systems.join(path, RUN)))


def is_under_way(path: str) -> bool:
    """Whether a run has started in a directory and has not finished."""
    return bool(file_systems.exists(file_systems.join(path, UNDER_WAY)))


def finished_files(path: str, table: str) -> list[str] | None:
    """Return a table's files that finished runs wrote; None when no run has finished in the directory.

    While a run with `--append` is in progress or stopped, these are the files that it found.
    """
    if is_finished(path):
        return row_files(file_systems.join(path, table))
    stopped = _stopped(path)
    return stopped.kept(table) if stopped is not None and stopped.found_files else None


def ledger_in(path: str) -> str | None:
    """Return the URI of the default ledger in an output directory; None when the directory is not local."""
    return None if is_remote(path) else "sqlite://" + os.path.abspath(os.path.join(path, PRIVATE, LEDGER))


def finish(output: Output, summary: dict[str, Any], *, again: bool = False) -> None:
    """Write the run's summary and remove its temporary files. The run is finished then.

    Args:
        output: The run's output.
        summary: The content of `run.json`.
        again: Whether a run with the same ID may have finished there before, as a worker does.
    """
    remove_staging(output)
    summaries.write(output.path, output.run_id, summary, again=again)
    delete(file_systems.join(output.path, UNDER_WAY))


def halt(output: Output) -> None:
    """Leave a run whose calling stopped in a state in which the same command continues it.

    The rows of its answers stay, so their questions are not asked again even when the ledger is lost. The
    rows of its failures are removed, so their questions are asked again.
    """
    make_directory(output.private())
    written = [
        file
        for table in TABLES
        if table != "failures"
        for file in output.table_files(table)
        if file not in output.kept_files
    ]
    left = replace(
        output,
        kept_files=(*output.kept_files, *written),
        written_files=(*output.written_files, *written),
    )
    # The mark comes first. When the process is killed here, the next run removes the failures.
    _note_under_way(left)
    for file in left.table_files("failures"):
        if file not in left.kept_files:
            delete(file)
    remove_staging(left)


def finish_unchanged(output: Output) -> bool:
    """End a run that had nothing to do, and leave the directory as it was before.

    Returns:
        Whether a run had finished there before. If not, this does nothing.
    """
    if not summaries.put_back(output.path):
        return False
    remove_staging(output)
    delete(file_systems.join(output.path, UNDER_WAY))
    return True


def remove_staging(output: Output) -> None:
    """Remove files without a final name, and other temporary files of a run."""
    for directory in {output.private(STAGING), output.scratch}:
        remove_directory(directory)


def _all_row_files(path: str) -> list[str]:
    return [file for table in TABLES for file in row_files(file_systems.join(path, table))]


def _write_json(output: Output, name: str, value: dict[str, Any]) -> None:
    """Write a JSON file. It appears only when it is complete."""
    # A path may hold bytes that are not valid UTF-8; they are written as escapes.
    text = json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    # The unfinished file is in the directory of internal files, so that no reader lists it.
    write_whole(file_systems.join(output.path, name), text + b"\n", output.private(f"half{name}"))


@contextmanager
def locked(path: str, said: str = "") -> Iterator[None]:
    """Keep other runs on this machine out of a directory. The lock ends with the process, even when killed.

    Args:
        path: The directory.
        said: The error's text. By default it is what helps the caller of a second run.

    Raises:
        UsageError: Another run holds the lock.
    """
    if is_remote(path):
        yield
        return
    private = os.path.join(path, PRIVATE)
    os.makedirs(private, exist_ok=True)
    with open(os.path.join(private, "lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                said
                or f"--output={path} is being written by another run: wait for it, or name another directory."
            ) from None
        yield
