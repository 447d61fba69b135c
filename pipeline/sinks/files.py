"""Writes an archive's rows into files that appear only when they are complete.

A file is written into the run's staging directory. After the last row, it is moved to its final name.

Beam's `fileio` also works like this, but it ignores an error of the move, so that rows are lost silently. It
also loses the pane and never starts a second file. That is why this module exists. `stream_files.py` writes
the files of streams.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from groundrows.pipeline.storage.files import make_directory, move
from groundrows.pipeline.storage.output import STAGING, Output
from groundrows.pipeline.storage.row_files import RowFile
from groundrows.schemas.rows import Row
from groundrows.schemas.tables import TABLES
from groundrows.transforms.counters import ROWS

ROWS_PER_FILE = 1_000_000


class WriteRows(beam.PTransform):
    """Takes a PCollection of groups of rows of any tables; gives a PCollection of their files' final names.

    Args:
        output: Where the run writes.
        rows_per_file: Number of rows after which a new file is started.
    """

    def __init__(self, output: Output, rows_per_file: int = ROWS_PER_FILE) -> None:
        super().__init__()
        self._output = output
        self._rows_per_file = rows_per_file

    def expand(self, groups: Any) -> Any:
        """Write the files, wait until all are complete, and move them to their final names."""
        return (
            groups
            | "Write"
            >> beam.ParDo(_WriteFn(self._output, self._rows_per_file)).with_output_types(tuple[str, str])
            | "Together" >> beam.GroupByKey()
            | "Publish" >> beam.ParDo(PublishFn(self._output))
        )


class _WriteFn(beam.DoFn):
    """Takes groups of rows; gives pairs of a table and a complete file."""

    def __init__(self, output: Output, rows_per_file: int) -> None:
        self._output = output
        self._rows_per_file = rows_per_file
        self._rows = {table: Metrics.counter(ROWS, table) for table in TABLES}

    def start_bundle(self) -> None:
        self._files: dict[tuple[str, Any], RowFile] = {}

    def process(self, group: Iterable[Row], window: Any = beam.DoFn.WindowParam) -> list[tuple[str, str]]:
        full = []
        for row in group:
            key = (row.TABLE, window)
            file = self._files.get(key)
            if file is None:
                file = self._files[key] = self._new_file(row.TABLE, window)
            file.write(row)
            if file.rows >= self._rows_per_file:
                full.append(self._closed(row.TABLE, self._files.pop(key)))
        return full

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for (table, window), file in self._files.items():
            yield WindowedValue(self._closed(table, file), window.max_timestamp(), (window,))
        self._files = {}

    def _new_file(self, table: str, window: Any) -> RowFile:
        # Each attempt at a bundle has file names of its own. When Beam repeats a bundle, the files of the
        # failed attempt are never published.
        return staged_file(self._output, table, f"{_window_part(window)}{uuid.uuid4().hex}")

    def _closed(self, table: str, file: RowFile) -> tuple[str, str]:
        file.close()
        self._rows[table].inc(file.rows)
        return table, file.path


def staged_file(output: Output, table: str, name: str) -> RowFile:
    """Start a file named `TABLE-NAME` in the staging directory."""
    directory = output.private(STAGING)
    make_directory(directory)
    return RowFile(FileSystems.join(directory, f"{table}-{name}{output.format.suffix}"), table)


class PublishFn(beam.DoFn):
    """Takes pairs of a table and its staged files; moves the files and gives their final names."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def process(self, group: tuple[str, Iterable[str]]) -> Iterator[str]:
        """Move the files that an earlier attempt at this bundle has not moved.

        Raises:
            FileNotFoundError: A file has neither its staged nor its final name. Something outside the run
                removed it; nothing may remove files while a job is running.
        """
        table, files = group
        directory = self._output.table(table)
        make_directory(directory)
        for staged in files:
            final = FileSystems.join(directory, FileSystems.split(staged)[1])
            # When Beam repeats a bundle, the earlier attempt may have moved the file.
            if FileSystems.exists(staged):
                move(staged, final)
            elif not FileSystems.exists(final):
                raise FileNotFoundError(f"{staged} is gone before it was published as {final}")
            yield final


def _window_part(window: Any) -> str:
    return "" if isinstance(window, GlobalWindow) else f"{time_part(window.start.to_utc_datetime())}-"


def time_part(start: datetime) -> str:
    """Return a window's start in the form that file names use."""
    return f"{start:%Y%m%dT%H%M%SZ}"


def ensure_every_table(output: Output) -> None:
    """Write an empty file for each table without rows, so that a reader finds the table's columns."""
    for table in TABLES:
        if output.table_files(table):
            continue
        make_directory(output.table(table))
        staging = output.private(STAGING)
        make_directory(staging)
        name = f"{table}-empty{output.format.suffix}"
        staged = FileSystems.join(staging, name)
        RowFile(staged, table).close()
        move(staged, FileSystems.join(output.table(table), name))
