"""Finds a run's row files and opens them for queries. polars reads one file at a time; DuckDB reads all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl

from groundrows.pipeline.storage import file_systems
from groundrows.pipeline.storage.files import cause_of, check_name, read_json
from groundrows.pipeline.storage.output import UNDER_WAY
from groundrows.pipeline.storage.row_files import UNREADABLE, RowFile, row_files
from groundrows.pipeline.storage.row_formats.known import FORMATS, format_of
from groundrows.pipeline.storage.row_formats.names import DEFAULT
from groundrows.pipeline.storage.summaries import RUN
from groundrows.pipeline.storage.uris import is_remote
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES
from groundrows.schemas.wording import reason_of

# The number of rows decoded at once. It is small, because an answer may have megabytes.
BATCH_ROWS = 1_024
MEMORY = "384MB"


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A row file: its name, and the path of the file, or of a copy of it, on this machine."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run's directory.

    Attributes:
        directory: Its name, as the user gave it.
        files: Its row files by table.
        summary: The content of `run.json`, or None when no run has finished.
        stopped: Whether an unfinished run is there. It may be stopped or still running.
    """

    directory: str
    files: Mapping[str, tuple[RowsFile, ...]]
    summary: Mapping[str, Any] | None
    stopped: bool


def find_run(directory: str, folder: str) -> Run:
    """Find a run's files. Files on `gs://` are copied into `folder`.

    Raises:
        UsageError: There is no such directory, it holds no rows, or it can't be read.
    """
    if not is_remote(directory) and not os.path.isdir(directory):
        there = os.path.lexists(directory)
        said = f"The file {directory} is not a directory" if there else f"There is no directory {directory}"
        raise UsageError(f"{said}: name the --output of a run.")
    try:
        check_name(directory)
        found = {table: row_files(str(file_systems.join(directory, table))) for table in TABLES}
        summary = _summary(directory)
        stopped = summary is None and file_systems.exists(file_systems.join(directory, UNDER_WAY))
        files = {table: tuple(_local(path, folder) for path in paths) for table, paths in found.items()}
    except file_systems.errors() as error:
        raise UsageError(
            f"The directory {directory} can't be read: {reason_of(cause_of(error))}; fix that and try again."
        ) from None
    if not any(files.values()):
        raise UsageError(f"The directory {directory} holds no rows of a run: {_why_none(stopped)}.")
    return Run(directory, files, summary, stopped)


def _summary(directory: str) -> dict[str, Any] | None:
    path = file_systems.join(directory, RUN)
    try:
        return read_json(path)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The file {path} can't be read: {reason_of(error)}; repair it, or move it away to use the rows "
            "without it."
        ) from None


def _why_none(stopped: bool) -> str:
    if stopped:
        return "the run that was stopped there wrote none yet; run its command again to continue it"
    return "name the --output of a run"


def _local(path: str, folder: str) -> RowsFile:
    if not is_remote(path) and path.isascii():
        return RowsFile(path, path)
    copy = os.path.join(folder, f"{uuid.uuid4().hex}{format_of(path).suffix}")
    if not is_remote(path):
        # polars refuses file names that are not valid UTF-8.
        os.symlink(os.path.abspath(path), copy)
        return RowsFile(path, copy)
    with (
        file_systems.opened(path) as source,
        open(copy, "wb") as out,
    ):
        shutil.copyfileobj(source, out, 1 << 20)
    return RowsFile(path, copy)


def opened(folder: str) -> duckdb.DuckDBPyConnection:
    """Open a database for the tables of runs. It puts what does not fit into memory into `folder`."""
    db = duckdb.connect(
        config={
            "memory_limit": MEMORY,
            "temp_directory": os.path.join(folder, "spill"),
            "autoinstall_known_extensions": "false",
            "preserve_insertion_order": "false",
        }
    )
    db.execute("SET enable_progress_bar = false")  # it would be drawn on stdout
    return db


def empty(table: str, folder: str) -> RowsFile:
    """Write a file without rows, which has the columns of a table."""
    path = os.path.join(folder, f"empty-{table}{FORMATS[DEFAULT].suffix}")
    RowFile(path, table).close()
    return RowsFile(path, path)


def scan(file: RowsFile) -> pl.LazyFrame:
    """Return a file's rows as a polars frame. NaN and infinite numbers are null."""
    # Without this, polars reads a hundred thousand rows at once, whatever their size.
    pl.Config.set_streaming_chunk_size(BATCH_ROWS)
    rows = format_of(file.path).scan(file.path, BATCH_ROWS)
    kinds = rows.collect_schema()
    return rows.with_columns(finite(pl.col(name)) for name, kind in kinds.items() if kind.is_float())


def finite(figure: pl.Expr) -> pl.Expr:
    """Return the number, or null when it is NaN or infinite."""
    return pl.when(figure.is_finite()).then(figure)


@contextmanager
def readable(file: RowsFile) -> Iterator[None]:
    """Turn every error of reading a file into a sentence about the file.

    Raises:
        UsageError: The file can't be read.
    """
    try:
        yield
    except Exception as error:
        raise UsageError(UNREADABLE.format(path=file.name, reason=reason_of(error))) from None


def copied(
    run: Run,
    table: str,
    stem: str,
    chosen: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda rows: rows,
    **form: Any,
) -> str:
    """Copy a run's table to Parquet files, which DuckDB can read; return their pattern for SQL.

    Args:
        run: The run.
        table: The table's name. When it has no files, an empty file with its columns is written.
        stem: The beginning of the copies' paths.
        chosen: Selects the rows and columns to copy.
        form: Settings with which polars writes Parquet files.

    Raises:
        UsageError: A file can't be read.
    """
    for number, file in enumerate(run.files[table] or (empty(table, os.path.dirname(stem)),)):
        with readable(file):
            format_of(file.path).check_whole(file.path)
            chosen(scan(file)).sink_parquet(f"{stem}-{number:05d}.parquet", **form)
    return f"{stem}-*.parquet".replace("'", "''")
