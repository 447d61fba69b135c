"""Writes a stream's rows into files.

A window is a span of time, such as one minute. The rows written during a window go into its files, so no row
can come too late for its window.

Beam's own windows work with the rows' timestamps instead. Beam, including its `fileio` and `WriteToAvro`,
silently drops a row that arrives after the watermark has passed the end of the row's window.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindows

from groundrows.pipeline.sinks.files import PublishFn, staged_file, time_part
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import RowFile
from groundrows.schemas.rows import Row
from groundrows.schemas.tables import TABLES
from groundrows.transforms.counters import ROWS

# A pane is the part of a window's rows that is written together. The runner holds it in its state until then.
GROUPS_PER_PANE = 1_000
DAY_SECONDS = 86_400


class WriteStream(beam.PTransform):
    """Takes an unbounded PCollection of groups of rows; gives a PCollection of their files' final names.

    The rows are divided over `shards`. Each shard collects rows for `window_seconds`, counted from the first
    of them, or until it has `groups_per_pane` groups. It then writes them as one pane: one file for each
    table in it. The file belongs to the window in which it is written. So a window has at most one file per
    table and shard, or more when panes were full early.

    A file's name holds the table, the window, the shard, and an ID of the pane. The pane's ID is unique, so
    no file is written twice.

    No row can be too late. All rows are collected in Beam's global window, which ends with the stream, and
    their timestamps are not used. When the stream is drained, the collected rows are written. A runner that
    guarantees exactly-once processing writes each row once, even when it repeats bundles.

    Args:
        output: Where the run writes.
        window_seconds: The length of a window, which is also the longest time that a row waits.
        shards: Number of keys, and so the largest number of workers, that write files.
        groups_per_pane: Number of groups after which a pane is written early.
        clock: Returns the time in seconds since the epoch, by the clock of the runner's timers.
    """

    def __init__(
        self,
        output: Output,
        window_seconds: int,
        shards: int = 1,
        groups_per_pane: int = GROUPS_PER_PANE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._shards = shards
        self._gather = beam.GroupIntoBatches(groups_per_pane, window_seconds, clock)
        self._write = _WritePaneFn(output, window_seconds, shards, clock)
        self._publish = PublishFn(output)

    def expand(self, groups: Any) -> Any:
        """Collect the rows, write the panes, and move the files to their final names."""
        return (
            groups
            | "Shard" >> beam.Map(_with_shard, self._shards).with_output_types(tuple[int, Any])
            | "Unwindow" >> beam.WindowInto(GlobalWindows())
            | "Gather" >> self._gather
            | "Write" >> beam.ParDo(self._write).with_output_types(tuple[str, str])
            # When a runner repeats the writing of a pane, it makes a second file, and only one of the two
            # may be published. The grouping decides which. Rows that are written after the stream has ended
            # come after the end of the global window on the local runner, so lateness is allowed here.
            | "Settle"
            >> beam.WindowInto(
                GlobalWindows(),
                trigger=Repeatedly(AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=DAY_SECONDS,
            )
            | "Together" >> beam.GroupByKey()
            | "Publish" >> beam.ParDo(self._publish)
        )


def _with_shard(group: Any, shards: int) -> tuple[int, Any]:
    return random.randrange(shards), group


class _WritePaneFn(beam.DoFn):
    """Takes a shard's pane; gives pairs of a table and a complete file."""

    def __init__(self, output: Output, window_seconds: int, shards: int, clock: Callable[[], float]) -> None:
        self._output = output
        self._window_seconds = window_seconds
        self._shards = shards
        self._clock = clock
        self._rows = {table: Metrics.counter(ROWS, table) for table in TABLES}

    def process(self, pane: tuple[int, Iterable[Iterable[Row]]]) -> Iterator[tuple[str, str]]:
        shard, groups = pane
        start = self._clock() // self._window_seconds * self._window_seconds
        window = time_part(datetime.fromtimestamp(start, UTC))
        name = f"{window}-shard{shard}of{self._shards}-pane{uuid.uuid4().hex}"
        files: dict[str, RowFile] = {}
        for group in groups:
            for row in group:
                file = files.get(row.TABLE)
                if file is None:
                    file = files[row.TABLE] = staged_file(self._output, row.TABLE, name)
                file.write(row)
        for table, file in files.items():
            file.close()
            self._rows[table].inc(file.rows)
            yield table, file.path
