"""The output directory: new, unfinished or finished, and never two runs' rows mixed by accident.

`run.json` appears last, when a run has finished. While a run is under way `.run.json` says which one, and
which files it found there and keeps; a run that was stopped is taken up by what it says. What each finished
run said of itself stays under `runs/` (`summaries.py`).
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

from apache_beam.io.filesystems import FileSystems
from google.api_core.exceptions import GoogleAPIError
from google.auth.exceptions import GoogleAuthError

from groundrows.pipeline.storage import summaries
from groundrows.pipeline.storage.files import (
    cause_of,
    check_name,
    delete,
    make_directory,
    read_json,
    remove_directory,
)
from groundrows.pipeline.storage.row_files import row_files
from groundrows.pipeline.storage.row_formats.known import DEFAULT, FORMATS
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
    """Where a run writes.

    Attributes:
        path: The directory, local or `gs://`.
        run_id: The run's name; a run that is taken up keeps it.
        kept_files: Files that were there before and stay: those of finished runs (`--append`), and
        written_files: among them those that this very run wrote before its calling stopped.
        started_at: When the run was first started, UTC.
        row_format: The name of the format of the row files that the run writes.
    """

    path: str
    run_id: str
    kept_files: tuple[str, ...]
    started_at: datetime
    row_format: str = DEFAULT
    written_files: tuple[str, ...] = ()

    @property
    def format(self) -> RowFormat:
        """The format of the row files that the run writes."""
        return FORMATS[self.row_format]

    def private(self, *names: str) -> str:
        """A path among the run's own things."""
        return str(FileSystems.join(self.path, PRIVATE, *names))

    @property
    def scratch(self) -> str:
        """A directory on this machine for what need not outlive the run; it goes when the run ends."""
        if not is_remote(self.path):
            return self.private(STAGING)
        return os.path.join(tempfile.gettempdir(), f"groundrows-{self.run_id}")

    def table(self, table: str) -> str:
        """A table's directory."""
        return str(FileSystems.join(self.path, table))

    def table_files(self, table: str) -> list[str]:
        """A table's files under their final names."""
        return row_files(self.table(table))

    @property
    def found_files(self) -> tuple[str, ...]:
        """The files that stay and are of other runs."""
        return tuple(file for file in self.kept_files if file not in self.written_files)

    def kept(self, table: str) -> list[str]:
        """A table's files among those that stay."""
        return [file for file in self.kept_files if _within(file).startswith(f"{table}/")]


def new(path: str, kept_files: Sequence[str] = ()) -> Output:
    """A directory for a run that begins now, under a new name; nothing is touched."""
    return Output(path, uuid.uuid4().hex, tuple(kept_files), datetime.now(UTC))


def check(path: str, *, overwrite: bool, append: bool) -> None:
    """Find out, without touching anything, whether a run may write to a directory.

    Raises:
        UsageError: It may not; `claimed` would say the same.
    """
    with errors_named(path):
        check_name(path)
        _begun(path, overwrite=overwrite, append=append)
        if not is_remote(path):
            check_writable(path)


@contextmanager
def claimed(path: str, *, overwrite: bool, append: bool) -> Iterator[Output]:
    """Claim the directory for a run, for as long as the run goes on.

    Raises:
        UsageError: It holds a finished run and neither flag was given, another run is under way in it, or
            it can't be written.
    """
    with ExitStack() as stack:
        with errors_named(path):
            check_name(path)
            stack.enter_context(locked(path))
            output = _begun(path, overwrite=overwrite, append=append)
            _make_way(output)
        yield output


@contextmanager
def errors_named(path: str) -> Iterator[None]:
    """Name the output in whatever goes wrong with its files while the block lasts.

    Raises:
        UsageError: In place of an error of the file system, of what was found there, or of credentials.
    """
    try:
        yield
    except (OSError, ValueError, GoogleAPIError, GoogleAuthError) as error:
        raise UsageError(
            f"--output={path} can't be used: {reason_of(cause_of(error))}; name another directory."
        ) from error


def check_writable(path: str) -> None:
    """Find out, without making anything, whether a local directory can hold a run.

    Raises:
        ValueError: It can't; the text says why.
    """
    if path != path.encode("utf-8", "replace").decode():
        raise ValueError("the names of its files would be no UTF-8")
    for name in ("", PRIVATE, *TABLES):
        part = os.path.join(path, name)
        if os.path.lexists(part) and not os.path.isdir(part):
            raise ValueError(f"{part} is no directory")
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise ValueError(f"{above} is no directory")
    if not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        raise ValueError(f"{above} can't be written")


def _begun(path: str, *, overwrite: bool, append: bool) -> Output:
    """The run that may begin, or go on, in a directory; nothing is touched."""
    finished = is_finished(path)
    if finished and not overwrite and not append:
        raise UsageError(
            f"--output={path} holds a finished run: give --overwrite to replace it, --append to ask only "
            "what is not answered there yet, or name another directory."
        )
    stopped = None if finished else _stopped(path, or_none=overwrite)
    # The same command takes a stopped run up; but --overwrite keeps nothing of those before it.
    if stopped is not None and not (overwrite and stopped.found_files):
        return stopped
    files = _all_row_files(path)
    if files and not finished and not overwrite:
        raise UsageError(
            f"--output={path} holds rows, but no run.json says whose: give --overwrite to replace them, or "
            "name another directory."
        )
    return new(path, files if append else ())


def _make_way(output: Output) -> None:
    """Note which run is under way, and remove what is not to be kept."""
    path = output.path
    make_directory(path)
    # In this order a kill in between leaves either the old run whole or this one to be taken up.
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
        },
    )


def _stopped(path: str, *, or_none: bool = False) -> Output | None:
    """The run that was stopped in a directory, if one was.

    Raises:
        UsageError: What it left is damaged; unless `or_none`.
    """
    try:
        said = read_json(FileSystems.join(path, UNDER_WAY))
        return None if said is None else _taken_up(path, said)
    except (ValueError, KeyError, TypeError, AttributeError):
        if or_none:
            return None
        raise UsageError(
            f"--output={path} holds a {UNDER_WAY} that is damaged, so what was stopped there can't go on: "
            "give --overwrite to begin anew, or name another directory."
        ) from None


def _taken_up(path: str, said: dict[str, Any]) -> Output:
    run_id, kept = said["run_id"], [_within(file) for file in said["kept_files"]]
    started_at = datetime.fromisoformat(said["started_at"])
    if not isinstance(run_id, str) or not run_id or started_at.tzinfo is None:
        raise ValueError("no run")
    found = _there(path, kept)
    written = _there(path, [_within(file) for file in said.get("written_files", ())])
    return Output(path, run_id, found + written, started_at, written_files=written)


def _there(path: str, files: Iterable[str]) -> tuple[str, ...]:
    """The files of a note by their whole names; what somebody took away meanwhile is not kept."""
    names = [str(FileSystems.join(path, *file.split("/"))) for file in files]
    return tuple(name for name in names if FileSystems.exists(name))


def _within(file: str) -> str:
    """A row file's table and name: the directory may be spelled another way the next time."""
    return "/".join(file.rsplit("/", 2)[-2:])


def is_finished(path: str) -> bool:
    """Whether a directory holds a finished run."""
    return bool(FileSystems.exists(FileSystems.join(path, RUN)))


def is_under_way(path: str) -> bool:
    """Whether a run has begun in a directory and has not finished."""
    return bool(FileSystems.exists(FileSystems.join(path, UNDER_WAY)))


def finished_files(path: str, table: str) -> list[str] | None:
    """The files of a table that finished runs left in a directory; None where no run has finished.

    While a run with `--append` is under way, or was stopped, these are the files it found there.
    """
    if is_finished(path):
        return row_files(FileSystems.join(path, table))
    stopped = _stopped(path)
    return stopped.kept(table) if stopped is not None and stopped.found_files else None


def ledger_in(path: str) -> str | None:
    """The URI of the ledger that a run keeps in a directory by default; None where that is not local."""
    return None if is_remote(path) else "sqlite://" + os.path.abspath(os.path.join(path, PRIVATE, LEDGER))


def finish(output: Output, summary: dict[str, Any], *, again: bool = False) -> None:
    """Write the summary, whose `run.json` says that the run has finished, and tidy up behind it.

    Args:
        output: Where the run wrote.
        summary: What it says of itself.
        again: Whether a run of the same name may have finished there before.
    """
    remove_staging(output)
    summaries.write(output.path, output.run_id, summary, again=again)
    delete(FileSystems.join(output.path, UNDER_WAY))


def halt(output: Output) -> None:
    """Leave a run whose calling stopped so that the same command goes on with it.

    The rows of its answers stay, and are not asked again, whatever became of the ledger. Those of its
    failures go, and are asked again.
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
    # The note first: a kill in between leaves failures that the next run removes.
    _note_under_way(left)
    for file in left.table_files("failures"):
        if file not in left.kept_files:
            delete(file)
    remove_staging(left)


def finish_unchanged(output: Output) -> bool:
    """End a run that found nothing to do, so that the directory is as it was.

    Returns:
        Whether a run had finished there before. If none had, nothing is done.
    """
    if not summaries.put_back(output.path):
        return False
    remove_staging(output)
    delete(FileSystems.join(output.path, UNDER_WAY))
    return True


def remove_staging(output: Output) -> None:
    """Remove what a run had begun and not finished: files without a final name, and its scratch."""
    for directory in {output.private(STAGING), output.scratch}:
        remove_directory(directory)


def _all_row_files(path: str) -> list[str]:
    return [file for table in TABLES for file in row_files(FileSystems.join(path, table))]


def _write_json(output: Output, name: str, value: dict[str, Any]) -> None:
    """Write a file that is either whole or not there."""
    # A path may hold bytes that are no UTF-8; they are written as escapes.
    text = json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    # The unfinished file is out of sight of whoever lists the directory.
    write_whole(FileSystems.join(output.path, name), text + b"\n", output.private(f"half{name}"))


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Keep a second run on this machine out; the lock goes with the process, however it ends.

    Raises:
        UsageError: Another run holds it.
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
                f"--output={path} is being written by another run: wait for it, or name another directory."
            ) from None
        yield
