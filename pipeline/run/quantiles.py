"""Quantiles of the answers of a run, such as the median latency.

They come from sketches, which keep memory bounded. The error is about one percent of rank: a median lies
between the 49th and the 51st percentile.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from datasketches import kll_doubles_sketch

from groundrows.pipeline.storage.files import make_directory, open_for_writing, read_json
from groundrows.pipeline.storage.output import STAGING, Output
from groundrows.schemas.rows import AnswerRow
from groundrows.transforms.rows.flatten import Rows

MEASURES = ("latency_ms", "grounding_score", "support_coverage")
RANKS = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}
FILE = "quantiles.json"
# The sketches' parameter k. With 400, the error of rank is under 1 % in 99 of 100 runs.
SIZE = 400


class Sketches:
    """One sketch for each measure. Beam may send it from one worker to another."""

    def __init__(self) -> None:
        self._sketches = [kll_doubles_sketch(SIZE) for _ in MEASURES]

    def add(self, row: AnswerRow) -> None:
        """Add an answer. Its latency counts once for each call, and only for calls that this run made."""
        called = row.candidate_index == 0 and not row.from_ledger
        values = (row.latency_ms if called else None, row.grounding_score, row.support_coverage)
        for sketch, value in zip(self._sketches, values, strict=True):
            if value is not None and math.isfinite(value):
                sketch.update(value)

    def merge(self, other: Sketches) -> None:
        """Add everything that another one holds."""
        for own, others in zip(self._sketches, other._sketches, strict=True):
            own.merge(others)

    def quantiles(self) -> dict[str, dict[str, float]]:
        """Return the minimum, the values at `RANKS` and the maximum, for each measure that has values."""
        found = {}
        for measure, sketch in zip(MEASURES, self._sketches, strict=True):
            if not sketch.is_empty():
                # A sketch may drop the extreme values from its quantiles, but it remembers them.
                values = {
                    "min": sketch.get_min_value(),
                    **dict(zip(RANKS, sketch.get_quantiles(list(RANKS.values())), strict=True)),
                    "max": sketch.get_max_value(),
                }
                found[measure] = {name: round(float(value), 4) for name, value in values.items()}
        return found

    def __getstate__(self) -> list[bytes]:
        return [sketch.serialize() for sketch in self._sketches]

    def __setstate__(self, state: list[bytes]) -> None:
        self._sketches = [kll_doubles_sketch.deserialize(data) for data in state]


class WriteQuantiles(beam.PTransform):
    """Takes a PCollection of `Rows` and writes a small file that `read_quantiles` reads after the run."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def expand(self, rows: Any) -> Any:
        """Make a sketch for every bundle, merge the sketches, and write the quantiles."""
        return (
            rows
            | "Sketch" >> beam.CombineGlobally(_SketchFn()).without_defaults()
            | "Save" >> beam.Map(_save, self._output)
        )


class _SketchFn(beam.CombineFn):
    def create_accumulator(self) -> Sketches:
        return Sketches()

    def add_input(self, sketches: Sketches, rows: Rows) -> Sketches:
        for row in rows.answers:
            sketches.add(row)
        return sketches

    def merge_accumulators(self, accumulators: Iterable[Sketches]) -> Sketches:
        merged = Sketches()
        for sketches in accumulators:
            merged.merge(sketches)
        return merged

    def extract_output(self, sketches: Sketches) -> dict[str, dict[str, float]]:
        return sketches.quantiles()


def _save(quantiles: dict[str, dict[str, float]], output: Output) -> None:
    make_directory(output.private(STAGING))
    with open_for_writing(output.private(STAGING, FILE)) as file:
        file.write(json.dumps(quantiles).encode())


def read_quantiles(output: Output) -> dict[str, dict[str, float]]:
    """Read the quantiles that `WriteQuantiles` wrote; empty when no question was answered."""
    return read_json(output.private(STAGING, FILE)) or {}
