"""A run: flags to graph to runner to summary. Also what a template starts."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipeline import accounting, output, preflight, progress, sinks
from pipeline.append import note_answered
from pipeline.emulator.process import running_emulator
from pipeline.errors import UsageError
from pipeline.graph import Plan, build
from pipeline.options import Endpoint, RunOptions, parse_run
from pipeline.quantiles import read_quantiles
from pipeline.records import archives_of, record_settings
from pipeline.sources import Archive, read_archive
from pipeline.summary import for_people, run_json
from transforms.batch import LEAST_CALLS_A_MINUTE, shards_needed
from transforms.flatten import FlattenSettings
from transforms.generate.settings import CallSettings

_LOGGER = logging.getLogger(__name__)

TRACEBACK_LOGGERS = ("common", "worker", "portability.fn_api_runner", "portability.local_job_service")


def run(argv: list[str]) -> int:
    """Run the flags; returns the exit code.

    Raises:
        UsageError: Something is wrong with them; nothing was called.
    """
    started = time.monotonic()
    options = parse_run(argv)
    preflight.check_storage((*options.inputs, options.output))
    archives = archives_of(options.inputs)
    preflight.check_readable(archives)
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
    records = record_settings(options)
    beam_options = PipelineOptions(list(options.runner_flags))
    pacing = _pacing(options, beam_options)
    ledger = _ledger(options, beam_options)
    preflight.check_sharing(options, _worker_processes(beam_options), pacing[0], ledger)
    output.check(options.output, overwrite=options.overwrite, append=options.append)
    if options.endpoint is not None and options.endpoint.secure:
        preflight.check_credentials()
    pipeline = _pipeline(beam_options)
    # All that may be refused is refused by now: claiming the directory may remove rows.
    preflight.check_ledger(ledger, options.output)
    preflight.check_limiter(pacing[0])
    with ExitStack() as stack:
        endpoint = options.endpoint or _own_emulator(options, stack)
        where = stack.enter_context(
            output.claimed(options.output, overwrite=options.overwrite, append=options.append)
        )
        archives = archives_for(where)
        calls = _call_settings(options, endpoint, where, pacing, ledger)
        _forget_claims(calls)
        plan = Plan(
            archives=archives,
            records=records,
            calls=calls,
            rows=FlattenSettings(where.run_id, keep_response=options.keep_response),
            output=where,
            spread=_worker_processes(beam_options) != 1,
        )
        result = _execute(pipeline, plan, quiet=options.quiet)
        return _close_run(plan, options, result, started, also or {})


def _own_emulator(options: RunOptions, stack: ExitStack) -> Endpoint:
    try:
        emulator = stack.enter_context(running_emulator("--port=0", *options.emulator_flags))
    except RuntimeError as error:
        raise UsageError(str(error)) from None
    return Endpoint(emulator.address, secure=False)


def _worker_processes(beam_options: PipelineOptions) -> int | None:
    """How many processes will work, or None where the runner decides."""
    if not _is_direct(beam_options):
        return None
    direct = beam_options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return 1
    if direct.direct_num_workers < 0:
        raise UsageError(f"--direct_num_workers={direct.direct_num_workers} makes no sense: give 0 or more.")
    return direct.direct_num_workers or os.cpu_count() or 1


def _is_direct(beam_options: PipelineOptions) -> bool:
    runner = beam_options.view_as(StandardOptions).runner
    return runner is None or runner.lower() in ("directrunner", "fnapirunner")


def _pipeline(beam_options: PipelineOptions) -> beam.Pipeline:
    """The empty pipeline, which checks the runner's flags."""
    # DirectRunner would first try to download a runner of its own; batch ends up here anyway.
    runner: Any = FnApiRunner() if _is_direct(beam_options) else None
    try:
        return beam.Pipeline(runner=runner, options=beam_options)
    except ValueError as error:
        raise UsageError(f"The runner refuses its flags: {error}") from None


def _pacing(options: RunOptions, beam_options: PipelineOptions) -> tuple[str, int]:
    """The rate limiter, and over how many shards it shares the limit out."""
    one_process = _worker_processes(beam_options) == 1 and options.pacing_shards is None
    limiter = options.rate_limiter or ("local" if one_process else "sharded")
    return limiter, _shards(options) if limiter == "sharded" else 1


def _ledger(options: RunOptions, beam_options: PipelineOptions) -> str:
    if options.ledger is not None:
        return options.ledger
    ledger = output.ledger_in(options.output) if _is_direct(beam_options) else None
    if ledger is None and options.share_identical:
        raise UsageError(
            "--share_identical looks answers up in the ledger, and a run elsewhere has none by default: give "
            "--ledger=redis://HOST:PORT/DB, or leave it out."
        )
    return ledger or "none"


def _call_settings(
    options: RunOptions, endpoint: Endpoint, where: output.Output, pacing: tuple[str, int], ledger: str
) -> CallSettings:
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
        answered_path=note_answered(where),
    )


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


def _forget_claims(calls: CallSettings) -> None:
    """Let a run that is taken up ask again what it had not finished."""
    with closing(preflight.opened(calls.ledger)) as ledger:
        ledger.forget_claims(calls.run_id)


def _tune_interpreter() -> None:
    """Settings of CPython for a process in which two threads pass many small objects on.

    What Beam and the graph have allocated by now stays for the whole run: taking it out of the garbage
    collector's sight, and collecting less often, saved an eighth of a run's CPU. The loop's thread waits
    for the interpreter's lock up to a switch interval on each wake-up; 5 ms of that is seen in the latency.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    sys.setswitchinterval(0.002)


def _execute(pipeline: beam.Pipeline, plan: Plan, *, quiet: bool) -> Any:
    build(pipeline, plan)
    _tune_interpreter()
    with nullcontext() if quiet else progress.shown(lambda: _count(plan.archives)), _tracebacks_hidden():
        result = pipeline.run()
        result.wait_until_finish()
    return result


@contextmanager
def _tracebacks_hidden() -> Iterator[None]:
    """Keep Beam from logging the traceback of an error that it passes on all the same."""
    loggers = [logging.getLogger(f"apache_beam.runners.{name}") for name in TRACEBACK_LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET if os.environ.get("GROUNDROWS_TRACEBACK") else logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _count(archives: Any) -> int:
    return sum(1 for archive in archives for _ in read_archive(archive))


def _close_run(plan: Plan, options: RunOptions, result: Any, started: float, also: Mapping[str, Any]) -> int:
    where = plan.output
    account = accounting.account(accounting.counters_of(result))
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
    if _failed_too_often(account, options.max_failure_share):
        print(
            f"Too many records failed, {account.failed:,} of {account.records_read:,}; the rows in "
            f"{where.table('failures')} say why.",
            file=sys.stderr,
        )
        return 3
    return 0


def _failed_too_often(account: accounting.Account, max_failure_share: float) -> bool:
    if not account.failed:
        return False
    nothing_but_failures = account.failed == account.records_read - account.duplicates
    return nothing_but_failures or account.failed / account.records_read > max_failure_share
