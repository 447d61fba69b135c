"""A run: flags to graph to runner to summary. Also what a template starts."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, StandardOptions

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.options.service import Endpoint
from groundrows.pipeline.run import accounting, preflight, progress, stopping
from groundrows.pipeline.run.graph import build
from groundrows.pipeline.run.quantiles import read_quantiles
from groundrows.pipeline.run.runner import (
    empty_pipeline,
    equip_workers,
    is_dataflow,
    is_direct,
    tracebacks_hidden,
    tune_interpreter,
    worker_processes,
)
from groundrows.pipeline.run.settings import (
    RunSettings,
    archives_of,
    call_settings,
    ledger_of,
    pacing_of,
    read_settings,
    settings_of,
    stream_of,
)
from groundrows.pipeline.run.summary import for_people, run_json
from groundrows.pipeline.sinks import files as sinks
from groundrows.pipeline.sources.archives import Archive, note_on, read_archive
from groundrows.pipeline.storage import output
from groundrows.schemas.errors import UsageError
from groundrows.transforms.generate.calling import shared
from groundrows.transforms.generate.settings import CallSettings

# Each archive that is looked at is opened once more; a person needs no note on the thousandth.
_NOTED_ARCHIVES = 20


def run_archives(options: RunOptions, started: float) -> int:
    """Ask what the archives of the flags hold; returns the exit code.

    Args:
        options: The flags, with archives as the source.
        started: When the command was started, on the monotonic clock.

    Raises:
        UsageError: Something is wrong with the flags; nothing was called.
    """
    preflight.check_storage((*options.inputs, options.output, options.request_defaults or ""))
    archives = archives_of(options)
    preflight.check_readable(archives)
    if not options.quiet:
        for note in filter(None, map(note_on, archives[:_NOTED_ARCHIVES])):
            print(note, file=sys.stderr)
    return carry_out(options, lambda _: archives, started)


def carry_out(
    options: RunOptions,
    archives_for: Callable[[output.Output], Sequence[Archive]],
    started: float,
    also: Mapping[str, Any] | None = None,
) -> int:
    """Ask what the archives hold, write the rows and the summary; returns the exit code.

    Args:
        options: The flags.
        archives_for: Gives the archives, once the output directory is claimed.
        started: When the command was started, on the monotonic clock.
        also: What the summary says beside the run's own figures.

    Raises:
        UsageError: Something is wrong with the flags; nothing was called.
    """
    with _ready(options, archives_for) as (pipeline, settings):
        result = _execute(pipeline, settings, quiet=options.quiet)
        return _close_run(settings, options, result, started, also or {})


def submit(options: RunOptions) -> Any:
    """Hand a run to a service that carries it out, and return at once what its runner gave.

    Raises:
        UsageError: Something is wrong with the flags; nothing was submitted.
    """
    preflight.check_storage((*options.inputs, options.output, options.request_defaults or ""))
    with _ready(options, lambda _: archives_of(options)) as (pipeline, settings):
        build(pipeline, settings)
        return pipeline.run()


@contextmanager
def _ready(
    options: RunOptions, archives_for: Callable[[output.Output], Sequence[Archive]]
) -> Iterator[tuple[beam.Pipeline, RunSettings]]:
    """The empty pipeline and what its graph is built from, while the output directory is claimed."""
    records = read_settings(options)
    beam_options = PipelineOptions(list(options.runner_flags))
    if options.is_stream:
        beam_options.view_as(StandardOptions).streaming = True
    equip_workers(beam_options)
    pacing = pacing_of(options, beam_options)
    ledger = ledger_of(options, beam_options)
    preflight.check_sharing(options, worker_processes(beam_options), pacing[0], ledger)
    preflight.check_budget_of_checks(options, ledger)
    preflight.check_append(options, here=is_direct(beam_options))
    if is_dataflow(beam_options):
        preflight.check_dataflow(options, ledger)
    if not options.is_stream:
        output.check(options.output, overwrite=options.overwrite, append=options.append)
    if options.endpoint is not None and options.endpoint.secure:
        preflight.check_credentials()
    pipeline = empty_pipeline(beam_options)
    # All that may be refused is refused by now: claiming the directory may remove rows.
    preflight.check_ledger(ledger, options.output)
    preflight.check_limiter(pacing[0])
    preflight.check_topic(options.failures_topic)
    preflight.check_warehouse(options, beam_options.view_as(GoogleCloudOptions).temp_location)
    with ExitStack() as stack:
        endpoint = options.endpoint or own_emulator(options, stack)
        where = stack.enter_context(_claimed(options))
        archives = archives_for(where)
        calls = call_settings(options, endpoint, where, pacing, ledger)
        forget_claims(calls)
        spread = worker_processes(beam_options) != 1
        settings = settings_of(options, records, calls, where, archives, spread=spread)
        if options.is_stream:
            settings = replace(settings, stream=stream_of(options))
        yield pipeline, settings


def _claimed(options: RunOptions) -> AbstractContextManager[output.Output]:
    if options.is_stream:
        # A stream has no end at which it could say that it has finished, and no row there is in its way.
        return nullcontext(output.Output(options.output, uuid.uuid4().hex, (), datetime.now(UTC)))
    return output.claimed(options.output, overwrite=options.overwrite, append=options.append)


def _execute(pipeline: beam.Pipeline, settings: RunSettings, *, quiet: bool) -> Any:
    build(pipeline, settings)
    tune_interpreter()
    shown = nullcontext() if quiet else progress.shown(lambda: _count(settings.archives))
    with shown, tracebacks_hidden(), stopping.stopped_first(shared.stop_calling):
        result = pipeline.run()
        result.wait_until_finish()
    return result


def _count(archives: Any) -> int:
    return sum(1 for archive in archives for _ in read_archive(archive))


def _close_run(
    settings: RunSettings, options: RunOptions, result: Any, started: float, also: Mapping[str, Any]
) -> int:
    where = settings.output
    account = accounting.account(accounting.counters_of(result), settings.calls.method)
    on_disk = accounting.rows_on_disk(where)
    balanced = account.balanced and on_disk == dict(account.rows)
    sinks.ensure_every_table(where)
    summary = run_json(
        account,
        options,
        run_id=where.run_id,
        balanced=balanced,
        quantiles=read_quantiles(where),
        started_at=where.started_at.isoformat(),
        wall_seconds=time.monotonic() - started,
    )
    summary.update(also)
    output.finish(where, summary)
    if not options.quiet:
        print(for_people(summary, where.path))
    if not balanced:
        print(
            f"The count law does not hold: {account} beside rows on disk {on_disk}; this is a bug, please "
            "report it.",
            file=sys.stderr,
        )
        return 1
    complaint = accounting.too_many_failed(account, options.max_failure_share, where)
    if complaint is not None:
        print(complaint, file=sys.stderr)
        return 3
    return 0


def own_emulator(options: RunOptions, stack: ExitStack) -> Endpoint:
    """Start an emulator that lives as long as `stack` is open.

    Raises:
        UsageError: It does not start.
    """
    ports = ["--port=0", *(["--rest_port=0"] if options.transport == "rest" else [])]
    try:
        emulator = stack.enter_context(running_emulator(*ports, *options.emulator_flags))
    except RuntimeError as error:
        raise UsageError(str(error)) from None
    return Endpoint(emulator.rest_address or emulator.address, secure=False)


def forget_claims(calls: CallSettings) -> None:
    """Let a run that is taken up ask again what it had not finished."""
    with closing(preflight.opened(calls.ledger)) as ledger:
        ledger.forget_claims(calls.run_id)
