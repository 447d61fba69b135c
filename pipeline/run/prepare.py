"""From the flags to the plan that a graph is built from."""

from __future__ import annotations

from collections.abc import Sequence

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.run.calls import check_settings
from groundrows.pipeline.run.graph import Plan, Stream, Warehouse
from groundrows.pipeline.sources.archives import Archive
from groundrows.pipeline.storage.output import STAGING, Output
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.question import RecordSettings
from groundrows.transforms.generate.settings import CallSettings
from groundrows.transforms.rows.flatten import FlattenSettings


def plan_of(
    options: RunOptions,
    records: RecordSettings | CheckSettings,
    calls: CallSettings,
    where: Output,
    archives: Sequence[Archive] = (),
    *,
    spread: bool = False,
) -> Plan:
    """The plan of a run over archives, or of a batch of messages that somebody else reads.

    Args:
        options: The flags.
        records: How records are read, by the flags.
        calls: How to call, by the flags.
        where: The output, which names the run.
        archives: What to read.
        spread: Whether several workers share the questions out.
    """
    return Plan(
        archives=archives,
        records=records,
        calls=calls,
        rows=FlattenSettings(where.run_id, keep_response=options.keep_response),
        output=where,
        spread=spread,
        failures_topic=options.failures_topic,
        checks=check_settings(options, calls),
        citation_threshold=options.citation_threshold,
        warehouse=_warehouse(options, where),
    )


def _warehouse(options: RunOptions, where: Output) -> Warehouse | None:
    if options.bigquery_dataset is None:
        return None
    # What is loaded lies beside the rows, where it is cleared away with the rest.
    temp_location = where.private(STAGING, "loads") if where.path.startswith("gs://") else None
    return Warehouse(options.bigquery_dataset, insert=options.is_stream, temp_location=temp_location)


def stream_of(options: RunOptions) -> Stream:
    """The stream that the flags name, for a runner that reads it itself."""
    return Stream(
        subscription=options.input_subscription,
        topic=options.input_topic,
        id_attribute=options.id_attribute,
        timestamp_attribute=options.timestamp_attribute,
        window_seconds=round(options.window_seconds),
        output_shards=options.output_shards,
    )
