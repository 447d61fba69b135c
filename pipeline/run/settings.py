"""Makes the settings of a run's graph from the flags.

The settings say how records are read, how the service is called, how rows are made, and where rows go. This
module calls nothing and changes nothing. It reads the request defaults and, with `--append`, earlier rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from google.api_core.exceptions import GoogleAPIError

from groundrows.pipeline.options.checks import usage_error
from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.options.service import Endpoint
from groundrows.pipeline.run.append import note_answered
from groundrows.pipeline.run.prices import Prices, load_prices
from groundrows.pipeline.run.runner import is_direct, worker_processes
from groundrows.pipeline.sources.seam import Source
from groundrows.pipeline.storage import output
from groundrows.pipeline.storage.files import cause_of
from groundrows.pipeline.storage.output import STAGING, Output
from groundrows.pipeline.storage.uris import on_cloud_storage
from groundrows.schemas.check import CheckSettings
from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.errors import UsageError
from groundrows.schemas.question import RecordSettings
from groundrows.schemas.service import DISCOVERY_ENGINE, access_of
from groundrows.schemas.wording import reason_of
from groundrows.transforms.generate.settings import MEGABYTE, CallSettings
from groundrows.transforms.rows.flatten import FlattenSettings
from groundrows.transforms.shards import LEAST_CALLS_A_MINUTE, shards_needed

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """How the rows of a stream are divided into files.

    A window is a span of time, such as one minute. A pane is the part of a window's rows that is written
    together; a window has several panes only when so many rows arrive that one pane is full before its end.

    Attributes:
        window_seconds: Length of a window in seconds.
        shards: Number of files per table in each pane of a window.
    """

    window_seconds: int = 60
    shards: int = 1


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The BigQuery tables that rows are written to.

    Attributes:
        dataset: `PROJECT.DATASET`.
        insert: True to insert rows as they come; False to load them from files.
        temp_location: A directory on `gs://` for the files to load, or None for the pipeline's own.
    """

    dataset: str
    insert: bool
    temp_location: str | None = None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings that a run's graph is built from. They are checked, and nothing is opened yet.

    Attributes:
        source: Where the records come from.
        records: How records are read.
        calls: How the service is called.
        rows: How rows are made.
        output: Where rows are written.
        spread: Whether the questions are distributed over several workers.
        stream: How the rows of an unbounded source are divided into files; None for a bounded source.
        failures_topic: The Pub/Sub topic that failures are also published to, or None.
        checks: How the answers are checked (`--check_grounding`), or None when they are not.
        citation_threshold: The lowest score, from 0 to 1, with which a check cites a chunk; None for the
            service's default.
        warehouse: The BigQuery tables that rows are also written to, or None.
    """

    source: Source
    records: RecordSettings | CheckSettings
    calls: CallSettings
    rows: FlattenSettings
    output: Output
    spread: bool
    stream: StreamFiles | None = None
    failures_topic: str | None = None
    checks: CallSettings | None = None
    citation_threshold: float | None = None
    warehouse: Warehouse | None = None


# -- what is read


def read_settings(options: RunOptions) -> RecordSettings | CheckSettings:
    """Return the settings of the run's mode: it asks questions, or it checks given answers.

    Raises:
        UsageError: The flags contradict each other, or the defaults can't be used.
    """
    return check_records(options) if options.mode == "check" else record_settings(options)


def check_records(options: RunOptions) -> CheckSettings:
    """Return the settings for records that are answers to check.

    Raises:
        UsageError: The flags contradict each other.
    """
    try:
        return CheckSettings(
            id_field=options.id_field,
            answer_field=options.answer_field,
            citation_threshold=options.citation_threshold,
            api_version=options.api_version,
            service=options.asked,
        )
    except ValueError as error:
        raise usage_error(error) from None


def record_settings(options: RunOptions) -> RecordSettings:
    """Return the settings for records that are questions. The request defaults are read and checked.

    Raises:
        UsageError: The flags contradict each other, or the defaults can't be used.
    """
    try:
        defaults = None
        if options.request_defaults is not None:
            text = _text("request_defaults", options.request_defaults)
            defaults = load_defaults(text, options.api_version, options.asked)
        return RecordSettings(
            question_field=options.question_field,
            id_field=options.id_field,
            question_templates=options.question_template,
            defaults=defaults,
            api_version=options.api_version,
            transport=options.transport,  # type: ignore[arg-type]
            service=options.asked,
            model=options.model,
            facts_instruction=options.facts_instruction,
            reference_field=options.reference_field,
        )
    except ValueError as error:
        raise usage_error(error) from None


def prices_of(options: RunOptions) -> Prices | None:
    """The prices that the flags name, read and checked; None for none.

    Raises:
        UsageError: They can't be read or used.
    """
    return None if options.prices is None else load_prices(_text("prices", options.prices))


def _text(flag: str, path: str) -> str:
    try:
        with FileSystems.open(path) as file:
            text: str = file.read().decode("utf-8")
            return text
    except (OSError, UnicodeDecodeError, BeamIOError, GoogleAPIError) as error:
        raise UsageError(f"--{flag}={path} can't be read: {reason_of(cause_of(error))}.") from None


# -- how the service is called


def pacing_of(options: RunOptions, beam_options: PipelineOptions) -> tuple[str, int]:
    """Return the rate limiter and its number of shards.

    Each shard keeps an equal part of the limit, so that workers need not talk to each other.
    """
    one_process = worker_processes(beam_options) == 1 and options.pacing_shards is None
    limiter = options.rate_limiter or ("local" if one_process else "sharded")
    return limiter, _shards(options) if limiter == "sharded" else 1


def _shards(options: RunOptions) -> int:
    limit = options.requests_per_minute
    if options.pacing_shards is None:
        shards = shards_needed(limit, options.expected_latency_seconds, options.max_in_flight)
        if not options.quiet:
            _LOGGER.warning("The calls are divided over %d shard(s); --pacing_shards sets how many.", shards)
        return shards
    if limit is not None and limit / options.pacing_shards < LEAST_CALLS_A_MINUTE:
        raise UsageError(
            f"--pacing_shards={options.pacing_shards} leaves each shard fewer than {LEAST_CALLS_A_MINUTE} "
            f"calls a minute of {limit:g}: give at most {max(1, int(limit // LEAST_CALLS_A_MINUTE))}."
        )
    return options.pacing_shards


def ledger_of(options: RunOptions, beam_options: PipelineOptions) -> str:
    """Return the ledger's URI, or `none`. The ledger is the store of the answers that are paid for.

    Raises:
        UsageError: The flags need a ledger and name none.
    """
    if options.ledger is not None:
        return options.ledger
    ledger = output.ledger_in(options.output) if is_direct(beam_options) else None
    if ledger is None and options.share_identical:
        raise UsageError(
            "--share_identical looks answers up in the ledger, and a run on other machines has none by "
            "default: give --ledger=redis://HOST:PORT/DB, or leave out --share_identical."
        )
    return ledger or "none"


def call_settings(
    options: RunOptions, endpoint: Endpoint, where: output.Output, pacing: tuple[str, int], ledger: str
) -> CallSettings:
    """Return the settings of a run's calls.

    Args:
        options: The flags; the mode decides which API method is called.
        endpoint: The address that is called.
        where: The output, which has the run's ID and the files of earlier runs.
        pacing: The result of `pacing_of`.
        ledger: The result of `ledger_of`.
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
        tokens_per_minute=options.tokens_per_minute,
        max_tokens=options.max_tokens,
        max_searches=options.max_searches,
        ledger=ledger,
        share_identical=options.share_identical,
        answered_path=note_answered(where, checks=options.check_grounding),
        transport=options.transport,  # type: ignore[arg-type]
        method=options.mode,  # type: ignore[arg-type]
        stream_answers=options.stream_answers,
        release_failed=options.is_stream,
        service=options.asked,
        max_response_bytes=options.max_response_mb * MEGABYTE,
    )


def check_settings(options: RunOptions, calls: CallSettings) -> CallSettings | None:
    """Return the settings of the calls that check answers, or None. They have a rate limit of their own."""
    if not options.check_grounding:
        return None
    if calls.service != DISCOVERY_ENGINE:
        calls = _on_the_checking_service(options, calls)
    return replace(
        calls,
        method="check",
        stream_answers=False,
        requests_per_minute=options.check_requests_per_minute,
        tokens_per_minute=None,
        max_tokens=None,
        max_searches=None,
        answered_path=None,
    )


def _on_the_checking_service(options: RunOptions, calls: CallSettings) -> CallSettings:
    """Return `calls` changed to the service that checks. The emulator serves both on its REST port."""
    access = access_of(DISCOVERY_ENGINE, options.check_location)
    assert access is not None  # the flags were checked
    return replace(
        calls,
        service=DISCOVERY_ENGINE,
        endpoint=access.endpoint if calls.secure and access.endpoint else calls.endpoint,
        location=options.check_location,
        api_version=access.versions[0],
        transport="rest",
    )


# -- all settings together


def settings_of(
    options: RunOptions,
    records: RecordSettings | CheckSettings,
    calls: CallSettings,
    where: Output,
    source: Source,
    *,
    spread: bool = False,
    stream: StreamFiles | None = None,
) -> RunSettings:
    """Put the settings of a run's graph together.

    Args:
        options: The flags.
        records: How records are read.
        calls: How the service is called.
        where: The output, which has the run's ID.
        source: Where the records come from.
        spread: Whether the questions are distributed over several workers.
        stream: How rows are divided into files; None for a bounded source.
    """
    return RunSettings(
        source=source,
        records=records,
        calls=calls,
        rows=FlattenSettings(where.run_id, keep_response=options.keep_response),
        output=where,
        spread=spread,
        stream=stream,
        failures_topic=options.failures_topic,
        checks=check_settings(options, calls),
        citation_threshold=options.citation_threshold,
        warehouse=_warehouse(options, where),
    )


def _warehouse(options: RunOptions, where: Output) -> Warehouse | None:
    if options.bigquery_dataset is None:
        return None
    # The files to load lie in the output's staging directory, which the end of the run removes.
    temp_location = where.private(STAGING, "loads") if on_cloud_storage(where.path) else None
    return Warehouse(options.bigquery_dataset, insert=options.is_stream, temp_location=temp_location)


def stream_files_of(options: RunOptions) -> StreamFiles:
    """Return how the rows of a stream are divided into files."""
    return StreamFiles(round(options.window_seconds), options.output_shards)
