"""A stream's rows into files: windows of the time of writing, which no row can be too late for.

Beam's windows go by the rows' own times, and what comes after the watermark has passed their end is dropped
without a word, in `fileio` and `WriteToAvro` too.
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

# A pane is held in the runner's state until it is written, and is written in one piece.
GROUPS_PER_PANE = 1_000
DAY_SECONDS = 86_400


class WriteStream(beam.PTransform):
    """Unbounded PCollection of groups of rows -> PCollection of the final names of their files.

    Each shard gathers rows for `window_seconds` from the first of them on, or until it has many, and writes
    them as a pane: a file for each table among them. The file's window is the one in which it was written;
    a shard's panes are a window's length apart, so a window has `shards` files a table at most, and more only
    where panes were full. Names bear table, window, shard and the pane's own name, which its files in all
    tables share and no other pane has: no file is ever written twice.

    No row can be too late: all gathering is done in the one global window, which no watermark ends before
    the stream does, and a row's own time decides nothing. What is gathered when the stream is drained is
    written then. A runner that promises to process each element once writes each row once, however often it
    repeats attempts.

    Args:
        output: Where the run writes.
        window_seconds: The length of a window, and how long a row waits at most.
        shards: Over how many keys, and so workers, the writing is spread.
        groups_per_pane: After how many groups a pane is written before its time.
        clock: Gives the time in seconds since the epoch, as the runner's timers know it.
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
        """Gather, write, wait until that is settled, and give the files their names."""
        return (
            groups
            | "Shard" >> beam.Map(_with_shard, self._shards).with_output_types(tuple[int, Any])
            | "Unwindow" >> beam.WindowInto(GlobalWindows())
            | "Gather" >> self._gather
            | "Write" >> beam.ParDo(self._write).with_output_types(tuple[str, str])
            # A pane whose writing is tried again becomes another file; only one of them may be published.
            # Grouping is where a runner settles which. What is written when the stream has ended comes after
            # even the global window, and is late on the local runner, whose timers do not hold it open.
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
    """A shard's pane -> pairs of a table and a file that is whole."""

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
