"""From the flags to the settings that a run's graph is built from.

A run has four parts to settle: how records are read, how the service is called, how rows are made, and where
rows go. Nothing is called here; what is opened is only read: the request defaults, and with `--append` the
rows that are there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from google.api_core.exceptions import GoogleAPIError

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.options.service import Endpoint
from groundrows.pipeline.run.append import note_answered
from groundrows.pipeline.run.runner import is_direct, worker_processes
from groundrows.pipeline.sources.archives import Archive, ReadSettings, find_archives
from groundrows.pipeline.sources.selection import limited, sampled
from groundrows.pipeline.storage import output
from groundrows.pipeline.storage.files import cause_of
from groundrows.pipeline.storage.output import STAGING, Output
from groundrows.pipeline.storage.uris import on_cloud_storage
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.errors import UsageError
from groundrows.schemas.question import RecordSettings
from groundrows.schemas.template import template_fields, template_parts
from groundrows.schemas.wording import reason_of
from groundrows.transforms.generate.settings import MEGABYTE, CallSettings
from groundrows.transforms.rows.flatten import FlattenSettings
from groundrows.transforms.shards import LEAST_CALLS_A_MINUTE, shards_needed

_LOGGER = logging.getLogger(__name__)


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
class RunSettings:
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


# -- what is read


def archives_of(options: RunOptions) -> list[Archive]:
    """The archives that the flags name; with --limit or --sample, to be read in part.

    Raises:
        UsageError: A pattern matches nothing, a file is of no known kind, or a template is wrong.
    """
    settings = ReadSettings(
        csv_delimiter=options.csv_delimiter, encoding=options.encoding, text_fields=_text_fields(options)
    )
    try:
        archives = find_archives(options.inputs, settings)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if options.limit is not None:
        return limited(archives, options.limit)
    return archives if options.sample is None else sampled(archives, options.sample, options.seed)


def _text_fields(options: RunOptions) -> frozenset[str]:
    """The fields that must hold text: bytes in them that are no UTF-8 are an error of the record."""
    try:
        words = template_fields(template_parts(options.question_template))
    except ValueError as error:
        raise _usage(error) from None
    return frozenset({options.question_field, options.answer_field}) | words


def read_settings(options: RunOptions) -> RecordSettings | CheckSettings:
    """The settings of the mode: questions to be answered, or answers to be checked.

    Raises:
        UsageError: The flags contradict each other, or the defaults can't be used.
    """
    return check_records(options) if options.mode == "check" else record_settings(options)


def check_records(options: RunOptions) -> CheckSettings:
    """The settings for answers that are to be checked.

    Raises:
        UsageError: The flags contradict each other.
    """
    try:
        return CheckSettings(
            id_field=options.id_field,
            answer_field=options.answer_field,
            citation_threshold=options.citation_threshold,
            api_version=options.api_version,
        )
    except ValueError as error:
        raise _usage(error) from None


def record_settings(options: RunOptions) -> RecordSettings:
    """The settings that the flags ask for, request defaults read and checked.

    Raises:
        UsageError: The flags contradict each other, or the defaults can't be used.
    """
    try:
        defaults = None
        if options.request_defaults is not None:
            defaults = load_defaults(_text(options.request_defaults), options.api_version)
        return RecordSettings(
            question_field=options.question_field,
            id_field=options.id_field,
            question_templates=options.question_template,
            defaults=defaults,
            api_version=options.api_version,
            transport=options.transport,  # type: ignore[arg-type]
        )
    except ValueError as error:
        raise _usage(error) from None


def _usage(error: ValueError) -> UsageError:
    said = str(error).rstrip(".")
    return UsageError(f"{said[:1].upper()}{said[1:]}.")


def _text(path: str) -> str:
    try:
        with FileSystems.open(path) as file:
            text: str = file.read().decode("utf-8")
            return text
    except (OSError, UnicodeDecodeError, BeamIOError, GoogleAPIError) as error:
        raise UsageError(f"--request_defaults={path} can't be read: {reason_of(cause_of(error))}.") from None


# -- how it is called


def pacing_of(options: RunOptions, beam_options: PipelineOptions) -> tuple[str, int]:
    """The rate limiter, and over how many shards it shares the limit out."""
    one_process = worker_processes(beam_options) == 1 and options.pacing_shards is None
    limiter = options.rate_limiter or ("local" if one_process else "sharded")
    return limiter, _shards(options) if limiter == "sharded" else 1


def _shards(options: RunOptions) -> int:
    limit = options.requests_per_minute
    if options.pacing_shards is None:
        shards = shards_needed(limit, options.expected_latency_seconds, options.max_in_flight)
        if not options.quiet:
            _LOGGER.warning("The calls are shared out over %d shard(s); --pacing_shards sets it.", shards)
        return shards
    if limit is not None and limit / options.pacing_shards < LEAST_CALLS_A_MINUTE:
        raise UsageError(
            f"--pacing_shards={options.pacing_shards} leaves each shard fewer than {LEAST_CALLS_A_MINUTE} "
            f"calls a minute of {limit:g}: give at most {max(1, int(limit // LEAST_CALLS_A_MINUTE))}."
        )
    return options.pacing_shards


def ledger_of(options: RunOptions, beam_options: PipelineOptions) -> str:
    """The ledger's URI, or `none`.

    Raises:
        UsageError: One is needed and none is named.
    """
    if options.ledger is not None:
        return options.ledger
    ledger = output.ledger_in(options.output) if is_direct(beam_options) else None
    if ledger is None and options.share_identical:
        raise UsageError(
            "--share_identical looks answers up in the ledger, and a run elsewhere has none by default: give "
            "--ledger=redis://HOST:PORT/DB, or leave it out."
        )
    return ledger or "none"


def call_settings(
    options: RunOptions, endpoint: Endpoint, where: output.Output, pacing: tuple[str, int], ledger: str
) -> CallSettings:
    """How a run calls, by the method of its mode.

    Args:
        options: The flags.
        endpoint: Where to.
        where: The output, which names the run.
        pacing: As from `pacing_of`.
        ledger: As from `ledger_of`.
    """
    limiter, shards = pacing
    return CallSettings(
        endpoint=endpoint.address,
        secure=endpoint.secure,
        location=options.location,
        api_version=options.api_version,
        run_id=where.run_id,
        requests_per_minute=options.requests_per_minute,
        rate_limiter=limiter,
        pacing_shards=shards,
        max_in_flight=options.max_in_flight,
        batch_size=options.batch_size,
        deadline_seconds=options.deadline_seconds,
        max_attempts=options.max_attempts,
        max_requests=options.max_requests,
        ledger=ledger,
        share_identical=options.share_identical,
        answered_path=note_answered(where, checks=options.check_grounding),
        transport=options.transport,  # type: ignore[arg-type]
        method=options.mode,  # type: ignore[arg-type]
        stream_answers=options.stream_answers,
        release_failed=options.is_stream,
        max_response_bytes=options.max_response_mb * MEGABYTE,
    )


def check_settings(options: RunOptions, calls: CallSettings) -> CallSettings | None:
    """How the answers of a run are checked, at a pace of their own; None when they are not."""
    if not options.check_grounding:
        return None
    return replace(
        calls,
        method="check",
        stream_answers=False,
        requests_per_minute=options.check_requests_per_minute,
        answered_path=None,
    )


# -- the whole


def settings_of(
    options: RunOptions,
    records: RecordSettings | CheckSettings,
    calls: CallSettings,
    where: Output,
    archives: Sequence[Archive] = (),
    *,
    spread: bool = False,
) -> RunSettings:
    """The plan of a run over archives, or of a batch of messages that somebody else reads.

    Args:
        options: The flags.
        records: How records are read, by the flags.
        calls: How to call, by the flags.
        where: The output, which names the run.
        archives: What to read.
        spread: Whether several workers share the questions out.
    """
    return RunSettings(
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
    temp_location = where.private(STAGING, "loads") if on_cloud_storage(where.path) else None
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
