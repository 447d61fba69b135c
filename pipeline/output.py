"""The output directory: new, unfinished or finished, and never two runs' rows mixed by accident.

`run.json` appears last, when a run has finished. While a run is under way `.run.json` says which one, and
which files it found there and keeps; a run that was stopped is taken up by what it says.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from pipeline.errors import UsageError
from schemas.tables import TABLES

RUN = "run.json"
UNDER_WAY = ".run.json"
# Everything a run keeps for itself. No pattern over the tables' directories matches it.
PRIVATE = ".groundrows"
STAGING = "staging"
LEDGER = "ledger.sqlite"


@dataclass(frozen=True, slots=True)
class Output:
    """Where a run writes.

    Attributes:
        path: The directory, local or `gs://`.
        run_id: The run's name; a run that is taken up keeps it.
        kept_files: Files of finished runs that were there before and stay (`--append`).
        started_at: When the run was first started, UTC.
    """

    path: str
    run_id: str
    kept_files: tuple[str, ...]
    started_at: datetime

    def private(self, *names: str) -> str:
        """A path among the run's own things."""
        return str(FileSystems.join(self.path, PRIVATE, *names))

    def table(self, table: str) -> str:
        """A table's directory."""
        return str(FileSystems.join(self.path, table))

    def table_files(self, table: str) -> list[str]:
        """A table's files under their final names."""
        return _find(FileSystems.join(self.table(table), "*.avro"))


@contextmanager
def claimed(path: str, *, overwrite: bool, append: bool) -> Iterator[Output]:
    """Claim the directory for a run, for as long as the run goes on.

    Raises:
        UsageError: It holds a finished run and neither flag was given, another run is under way in it, or
            it can't be written.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(_locked(path))
            output = _prepared(path, overwrite=overwrite, append=append)
        except (OSError, ValueError, KeyError) as error:
            raise UsageError(f"--output={path} can't be used: {error}; name another directory.") from error
        yield output


def _prepared(path: str, *, overwrite: bool, append: bool) -> Output:
    run_file, marker_file = FileSystems.join(path, RUN), FileSystems.join(path, UNDER_WAY)
    finished = is_finished(path)
    stopped = None if finished or overwrite else read_json(marker_file)
    files = [name for table in TABLES for name in _find(FileSystems.join(path, table, "*.avro"))]
    if finished and not overwrite and not append:
        raise UsageError(
            f"--output={path} holds a finished run: give --overwrite to replace it, --append to ask only "
            "what is not answered there yet, or name another directory."
        )
    if files and not finished and stopped is None and not overwrite:
        raise UsageError(
            f"--output={path} holds rows, but no run.json says whose: give --overwrite to replace them, or "
            "name another directory."
        )
    if stopped is not None:
        output = _taken_up(path, stopped)
    else:
        kept = tuple(files) if append else ()
        output = Output(path, uuid.uuid4().hex, kept, datetime.now(UTC))
    # In this order a kill in between leaves either the old run whole or this one to be taken up.
    make_directory(path)
    _write_json(
        marker_file,
        {
            "run_id": output.run_id,
            "kept_files": [_within(file) for file in output.kept_files],
            "started_at": output.started_at.isoformat(),
        },
    )
    if finished:
        FileSystems.delete([run_file])
    stale = [name for name in files if name not in output.kept_files]
    if stale:
        FileSystems.delete(stale)
    remove_directory(output.private(STAGING))
    return output


def _taken_up(path: str, stopped: dict[str, Any]) -> Output:
    return Output(
        path,
        str(stopped["run_id"]),
        tuple(_kept(path, stopped)),
        datetime.fromisoformat(stopped["started_at"]),
    )


def _within(file: str) -> str:
    """A row file's table and name: the directory may be spelled another way the next time."""
    return "/".join(file.rsplit("/", 2)[-2:])


def _kept(path: str, stopped: dict[str, Any]) -> list[str]:
    return [str(FileSystems.join(path, *_within(file).split("/"))) for file in stopped["kept_files"]]


def is_finished(path: str) -> bool:
    """Whether a directory holds a finished run."""
    return bool(FileSystems.exists(FileSystems.join(path, RUN)))


def finished_files(path: str, table: str) -> list[str] | None:
    """The files of a table that finished runs left in a directory; None where no run has finished.

    While a run with `--append` is under way, or was stopped, these are the files it found there.
    """
    if is_finished(path):
        return _find(FileSystems.join(path, table, "*.avro"))
    stopped = read_json(FileSystems.join(path, UNDER_WAY))
    if stopped is None or not stopped["kept_files"]:
        return None
    return [file for file in _kept(path, stopped) if _within(file).startswith(f"{table}/")]


def ledger_in(path: str) -> str | None:
    """The URI of the ledger that a run keeps in a directory by default; None where that is not local."""
    return None if "://" in path else "sqlite://" + os.path.abspath(os.path.join(path, PRIVATE, LEDGER))


def finish(output: Output, summary: dict[str, Any]) -> None:
    """Write `run.json`, which says that the run has finished, and tidy up behind it."""
    remove_directory(output.private(STAGING))
    _write_json(FileSystems.join(output.path, RUN), summary)
    FileSystems.delete([FileSystems.join(output.path, UNDER_WAY)])


def make_directory(path: str) -> None:
    """Make a directory unless it is there."""
    if not FileSystems.exists(path):
        # Another worker may be quicker.
        with suppress(OSError):
            FileSystems.mkdirs(path)


def remove_directory(path: str) -> None:
    """Remove a directory and what is in it, if it is there."""
    if FileSystems.exists(path) or _find(FileSystems.join(path, "*")):
        with suppress(OSError):
            FileSystems.delete([path if path.endswith("/") else path + "/"])


def open_for_writing(path: str) -> Any:
    """Open a file whose bytes go out as they are given."""
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)


def _find(pattern: str) -> list[str]:
    return sorted(file.path for file in FileSystems.match([pattern])[0].metadata_list)


def read_json(path: str) -> dict[str, Any] | None:
    """A JSON object from a file, or None when the file is not there."""
    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        value: dict[str, Any] = json.loads(file.read())
        return value


def _write_json(path: str, value: dict[str, Any]) -> None:
    """Write a file that is either whole or not there."""
    half = f"{path}.{uuid.uuid4().hex}"
    with open_for_writing(half) as file:
        file.write(json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")
    if "://" in path and FileSystems.exists(path):
        FileSystems.delete([path])
    FileSystems.rename([half], [path])


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Keep a second run on this machine out; the lock goes with the process, however it ends."""
    if "://" in path:
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
