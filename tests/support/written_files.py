"""Rows written by a small pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from groundrows.pipeline.run.accounting import counters_of
from groundrows.pipeline.sinks import files as sinks
from groundrows.pipeline.sinks.files import WriteRows
from groundrows.pipeline.storage.output import Output
from groundrows.transforms.counters import ROWS


def write(
    where: Output,
    elements: Iterable[Any],
    *,
    table: str = "answers",
    rows_per_file: int = sinks.ROWS_PER_FILE,
    then: Any = None,
    window: Any = None,
    flags: Iterable[str] = (),
) -> dict[str, int]:
    """Write elements; returns the counters of rows."""
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(flags)))
    made = pipeline | beam.Create(list(elements), reshuffle=False)
    if window is not None:
        made = made | beam.WindowInto(window)
    if then is not None:
        made = made | beam.ParDo(then)
    _ = made | beam.Map(lambda row: (row,)) | WriteRows(where, rows_per_file)
    result = pipeline.run()
    result.wait_until_finish()
    return {name: count for (space, name), count in counters_of(result).items() if space == ROWS}
