"""The whole graph on one screen: records in, rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from groundrows.pipeline.run.quantiles import WriteQuantiles
from groundrows.pipeline.sinks.failures_topic import PublishFailures
from groundrows.pipeline.sinks.files import WriteRows
from groundrows.pipeline.sinks.stream_files import WriteStream
from groundrows.pipeline.sources import archives as sources
from groundrows.pipeline.sources.archives import Archive, ReadArchives
from groundrows.pipeline.sources.messages import ReadQuestions
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.question import RecordSettings
from groundrows.schemas.tables import TABLES, tables_made_by
from groundrows.transforms import parse
from groundrows.transforms.check import CheckAnswers
from groundrows.transforms.generate.settings import CallSettings
from groundrows.transforms.generate.stage import GenerateAnswers
from groundrows.transforms.parse import ParseChecks, ParseQuestions
from groundrows.transforms.rows.flatten import FailureRows, FlattenOutcomes, FlattenSettings
from groundrows.transforms.rows.flatten_checks import FlattenChecks


@dataclass(frozen=True, slots=True)
class Stream:
    """A run over a stream: where its questions come from, and how its rows are cut into files.

    Attributes:
        subscription: `projects/P/subscriptions/S`; or else
        topic: `projects/P/topics/T`.
        id_attribute: The attribute that tells repetitions apart, or None for the message id.
        timestamp_attribute: The attribute that holds the event's time, or None for the publish time.
        window_seconds: How often files are written.
        output_shards: How many files a window and table have, as long as no pane is full.
    """

    subscription: str | None = None
    topic: str | None = None
    id_attribute: str | None = None
    timestamp_attribute: str | None = None
    window_seconds: int = 60
    output_shards: int = 1


@dataclass(frozen=True, slots=True)
class Warehouse:
    """BigQuery tables, and the way to them.

    Attributes:
        dataset: `PROJECT.DATASET`.
        insert: Whether rows are inserted as they come, rather than loaded from files.
        temp_location: A directory on `gs://` for the files that are loaded, or None for the pipeline's own.
    """

    dataset: str
    insert: bool
    temp_location: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a graph is built from: everything was checked, and nothing is opened yet.

    Attributes:
        archives: What to read, unless it is a stream.
        records: How records are read.
        calls: How to call.
        rows: How rows are made.
        output: Where they go.
        spread: Whether several workers share the questions out.
        stream: The stream, or None for a run over archives.
        failures_topic: The Pub/Sub topic that failures are published to as well, or None.
        checks: How answers are checked once they are there, or None.
        citation_threshold: From which score on such a check cites a chunk; None for the service's own.
        warehouse: The BigQuery tables that rows go to as well, or None.
    """

    archives: Sequence[Archive]
    records: RecordSettings | CheckSettings
    calls: CallSettings
    rows: FlattenSettings
    output: Output
    spread: bool
    stream: Stream | None = None
    failures_topic: str | None = None
    checks: CallSettings | None = None
    citation_threshold: float | None = None
    warehouse: Warehouse | None = None


def build(pipeline: beam.Pipeline, plan: Plan) -> None:
    """Add every step of a run."""
    stream = plan.stream
    if stream is None:
        read = pipeline | "Read" >> ReadArchives(plan.archives, spread=plan.spread)
        add_steps(read[sources.RECORDS], read[sources.FAILURES], plan)
    else:
        records = pipeline | "Read" >> ReadQuestions(
            stream.subscription, stream.topic, stream.id_attribute, stream.timestamp_attribute
        )
        add_steps(records, None, plan)


def add_steps(records: Any, read_failures: Any | None, plan: Plan) -> None:
    """Add every step after the reading, for whoever read the records.

    With one worker process nothing is shuffled before the calls: the first call leaves at once, and memory
    does not grow with the archive. Several share the questions out, which shuffles them; a stream's source
    has done so already, and keeps each message until it has an outcome. Failures of the three places they
    come from go to three sinks, since the local runner keeps what it flattens together until the stage is
    done; a stream has one sink, for the fewest files.

    Args:
        records: PCollection[Record], unbounded if and only if the plan has a stream.
        read_failures: PCollection[Failure] of what could not even be read, or None where nothing can fail so.
        plan: The run; its archives are not looked at.
    """
    alone = isinstance(plan.records, CheckSettings)
    parsed = records | "Parse" >> _parsing(plan.records)
    questions = parsed[parse.QUESTIONS]
    if plan.spread and plan.stream is None and plan.calls.rate_limiter != "sharded":
        # Or whoever reads an archive would ask all its questions too.
        questions = questions | "Spread" >> beam.Reshuffle()
    outcomes = questions | "Generate" >> GenerateAnswers(plan.calls)
    flatten = FlattenChecks(plan.rows, alone=True) if alone else FlattenOutcomes(plan.rows)
    rows = outcomes | "Flatten" >> flatten

    groups = {"": rows}
    tables: dict[str, Sequence[str]] = {"": tables_made_by("checks" if alone else "outcomes")}
    if plan.checks is not None:
        checked = outcomes | "Check" >> CheckAnswers(plan.checks, plan.citation_threshold)
        for which, checks in checked.items():
            flattened = checks | f"Flatten {which} checks" >> FlattenChecks(plan.rows, alone=False)
            groups[f" {which} checks"] = flattened
            tables[f" {which} checks"] = tables_made_by("checks")
    for stage, failures in (("read", read_failures), ("parse", parsed[parse.FAILURES])):
        if failures is not None:
            failed = failures | f"Rows of {stage} failures" >> FailureRows(plan.rows.run_id)
            each = failed | f"Each {stage} failure" >> beam.Map(lambda row: (row,))
            groups[f" {stage} failures"] = each
            tables[f" {stage} failures"] = tables_made_by("records")
    if plan.stream is not None:
        groups = {"": tuple(groups.values()) | "Together" >> beam.Flatten()}
        tables = {"": tuple(TABLES)}
    elif not alone:
        rows | "Quantiles" >> WriteQuantiles(plan.output)
    for which, each in groups.items():
        each | f"Write{which}" >> _files(plan)
        if plan.warehouse is not None:
            each | f"Warehouse{which}" >> _warehouse(plan.warehouse, tables[which])
        if plan.failures_topic is not None:
            each | f"Publish{which}" >> PublishFailures(plan.failures_topic)


def _parsing(settings: RecordSettings | CheckSettings) -> beam.PTransform:
    return ParseChecks(settings) if isinstance(settings, CheckSettings) else ParseQuestions(settings)


def _files(plan: Plan) -> beam.PTransform:
    if plan.stream is None:
        return WriteRows(plan.output)
    return WriteStream(plan.output, plan.stream.window_seconds, plan.stream.output_shards)


def _warehouse(warehouse: Warehouse, tables: Sequence[str]) -> beam.PTransform:
    # Here, because it takes a second and most runs don't need it.
    from groundrows.pipeline.sinks.warehouse import WriteToWarehouse

    return WriteToWarehouse(warehouse.dataset, warehouse.temp_location, warehouse.insert, tables)
