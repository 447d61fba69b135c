"""The Beam graph of a run: it reads records and writes rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apache_beam as beam

from groundrows.pipeline.run.quantiles import WriteQuantiles
from groundrows.pipeline.run.settings import RunSettings, Warehouse
from groundrows.pipeline.sinks.failures_topic import PublishFailures
from groundrows.pipeline.sinks.files import WriteRows
from groundrows.pipeline.sinks.stream_files import WriteStream
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.question import RecordSettings
from groundrows.schemas.tables import TABLES, tables_made_by
from groundrows.transforms import parse
from groundrows.transforms.check import CheckAnswers
from groundrows.transforms.generate.stage import GenerateAnswers
from groundrows.transforms.parse import ParseChecks, ParseQuestions
from groundrows.transforms.rows.flatten import FailureRows, FlattenOutcomes
from groundrows.transforms.rows.flatten_checks import FlattenChecks
from groundrows.transforms.unanswered import ParseUnanswered


def build(pipeline: beam.Pipeline, settings: RunSettings) -> None:
    """Add every step of a run."""
    records, failures = settings.source.read(pipeline, spread=settings.spread)
    answered = settings.calls.answered_path
    parsing = ParseUnanswered(settings.records, answered) if answered and settings.source.bounded else None
    add_steps(records, failures, settings, parsing)


def add_steps(
    records: Any, read_failures: Any | None, settings: RunSettings, parsing: beam.PTransform | None = None
) -> None:
    """Add every step after the reading.

    With one worker process, nothing is shuffled before the calls. The first call is made at once, and memory
    does not grow with the archive. With several worker processes, a shuffle distributes the questions. A
    stream needs no shuffle: its source has distributed the messages, and keeps each of them until it has an
    outcome.

    Failures come from three steps: reading, parsing and asking. An archive run has one sink for each of them,
    because the local runner holds flattened PCollections in memory until the stage ends. A stream has one
    sink for all, because that makes the fewest files.

    Args:
        records: PCollection[Record], unbounded if and only if the settings have a stream.
        read_failures: PCollection[Failure] of what could not be read, or None when reading can't fail.
        settings: The run; its `source` is not used.
        parsing: Makes questions and failures from the records; None for the step that leaves no record out.
    """
    alone = isinstance(settings.records, CheckSettings)
    parsed = records | "Parse" >> (parsing or _parsing(settings.records))
    questions = parsed[parse.QUESTIONS]
    if settings.spread and settings.stream is None and settings.calls.rate_limiter != "sharded":
        # Without this, the worker that reads an archive would also ask all its questions.
        questions = questions | "Spread" >> beam.Reshuffle()
    outcomes = questions | "Generate" >> GenerateAnswers(settings.calls)
    flatten = FlattenChecks(settings.rows, alone=True) if alone else FlattenOutcomes(settings.rows)
    rows = outcomes | "Flatten" >> flatten

    groups = {"": rows}
    tables: dict[str, Sequence[str]] = {"": tables_made_by("checks" if alone else "outcomes")}
    if settings.checks is not None:
        checked = outcomes | "Check" >> CheckAnswers(settings.checks, settings.citation_threshold)
        for which, checks in checked.items():
            flattened = checks | f"Flatten {which} checks" >> FlattenChecks(settings.rows, alone=False)
            groups[f" {which} checks"] = flattened
            tables[f" {which} checks"] = tables_made_by("checks")
    for stage, failures in (("read", read_failures), ("parse", parsed[parse.FAILURES])):
        if failures is not None:
            failed = failures | f"Rows of {stage} failures" >> FailureRows(settings.rows.run_id)
            each = failed | f"Each {stage} failure" >> beam.Map(lambda row: (row,))
            groups[f" {stage} failures"] = each
            tables[f" {stage} failures"] = tables_made_by("records")
    if settings.stream is not None:
        groups = {"": tuple(groups.values()) | "Together" >> beam.Flatten()}
        tables = {"": tuple(TABLES)}
    elif not alone:
        rows | "Quantiles" >> WriteQuantiles(settings.output)
    for which, each in groups.items():
        each | f"Write{which}" >> _files(settings)
        if settings.warehouse is not None:
            each | f"Warehouse{which}" >> _warehouse(settings.warehouse, tables[which])
        if settings.failures_topic is not None:
            each | f"Publish{which}" >> PublishFailures(settings.failures_topic)


def _parsing(records: RecordSettings | CheckSettings) -> beam.PTransform:
    return ParseChecks(records) if isinstance(records, CheckSettings) else ParseQuestions(records)


def _files(settings: RunSettings) -> beam.PTransform:
    if settings.stream is None:
        return WriteRows(settings.output)
    return WriteStream(settings.output, settings.stream.window_seconds, settings.stream.shards)


def _warehouse(warehouse: Warehouse, tables: Sequence[str]) -> beam.PTransform:
    # Imported here because the import takes a second and most runs don't need it.
    from groundrows.pipeline.sinks.warehouse import WriteToWarehouse

    return WriteToWarehouse(warehouse.dataset, warehouse.temp_location, warehouse.insert, tables)
