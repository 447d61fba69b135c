"""A run's row files, found and opened for queries: by polars a file at a time, by DuckDB together."""

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

# Rows decoded at once, texts and all; an answer may be megabytes.
BATCH_ROWS = 1_024
MEMORY = "384MB"


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A row file: its name, and where on this machine its bytes are found."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run's directory as it was found.

    Attributes:
        directory: Its name as given.
        files: Its row files by table.
        summary: What `run.json` says, or None where no run has finished.
        stopped: Whether a run is under way there, or was stopped.
    """

    directory: str
    files: Mapping[str, tuple[RowsFile, ...]]
    summary: Mapping[str, Any] | None
    stopped: bool


def find_run(directory: str, folder: str) -> Run:
    """Find a run's files; those on `gs://` are copied into `folder`.

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
            f"The directory {directory} can't be read: {reason_of(cause_of(error))}; see to that."
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
            f"The file {path} can't be read: {reason_of(error)}; repair it, or move it away to have the rows "
            "reported alone."
        ) from None


def _why_none(stopped: bool) -> str:
    if stopped:
        return "the one that was stopped there wrote none yet, and the same command takes it up"
    return "name the --output of a run"


def _local(path: str, folder: str) -> RowsFile:
    if not is_remote(path) and path.isascii():
        return RowsFile(path, path)
    copy = os.path.join(folder, f"{uuid.uuid4().hex}{format_of(path).suffix}")
    if not is_remote(path):
        # polars takes no name that is no UTF-8.
        os.symlink(os.path.abspath(path), copy)
        return RowsFile(path, copy)
    with (
        file_systems.opened(path) as source,
        open(copy, "wb") as out,
    ):
        shutil.copyfileobj(source, out, 1 << 20)
    return RowsFile(path, copy)


def opened(folder: str) -> duckdb.DuckDBPyConnection:
    """A database for the tables of runs, which keeps what does not fit into memory in `folder`."""
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
    """A file without rows, which has the columns of a table."""
    path = os.path.join(folder, f"empty-{table}{FORMATS[DEFAULT].suffix}")
    RowFile(path, table).close()
    return RowsFile(path, path)


def scan(file: RowsFile) -> pl.LazyFrame:
    """A file's rows; figures that are none, NaN and the infinite, are null."""
    # Or polars gathers a hundred thousand rows, whatever they hold, before it looks at any.
    pl.Config.set_streaming_chunk_size(BATCH_ROWS)
    rows = format_of(file.path).scan(file.path, BATCH_ROWS)
    kinds = rows.collect_schema()
    return rows.with_columns(finite(pl.col(name)) for name, kind in kinds.items() if kind.is_float())


def finite(figure: pl.Expr) -> pl.Expr:
    """The figure, or null where it is NaN or infinite."""
    return pl.when(figure.is_finite()).then(figure)


@contextmanager
def readable(file: RowsFile) -> Iterator[None]:
    """Say what can't be read.

    Raises:
        UsageError: In place of whatever reading the file raises.
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
    """Copy a run's table, file by file, to Parquet files that DuckDB reads; returns their pattern, for SQL.

    Args:
        run: The run.
        table: Which of its tables; without any file of it, an empty one has the columns.
        stem: The beginning of the copies' paths.
        chosen: What of the rows is copied.
        form: What polars takes on how a Parquet file is written.

    Raises:
        UsageError: A file can't be read.
    """
    for number, file in enumerate(run.files[table] or (empty(table, os.path.dirname(stem)),)):
        with readable(file):
            format_of(file.path).check_whole(file.path)
            chosen(scan(file)).sink_parquet(f"{stem}-{number:05d}.parquet", **form)
    return f"{stem}-*.parquet".replace("'", "''")
