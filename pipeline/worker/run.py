"""`groundrows run --input_subscription` on this machine: from the flags to the worker and its summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.run import accounting, preflight, progress
from groundrows.pipeline.run.runner import empty_pipeline, tracebacks_hidden, tune_interpreter
from groundrows.pipeline.run.session import forget_claims, own_emulator
from groundrows.pipeline.run.settings import call_settings, ledger_of, pacing_of, read_settings, settings_of
from groundrows.pipeline.run.summary import for_people, run_json
from groundrows.pipeline.sinks import files as sinks
from groundrows.pipeline.storage import output
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.worker import directory, signals
from groundrows.pipeline.worker.gathering import limits_for
from groundrows.pipeline.worker.publishing import FailuresTopic
from groundrows.pipeline.worker.subscription import Subscription
from groundrows.pipeline.worker.work import EndedBy, Task, Worker
from groundrows.schemas.errors import UsageError
from groundrows.schemas.rows import FailureRow
from groundrows.transforms.generate.calling import shared
from groundrows.transforms.generate.calling.engine import Engine
from groundrows.transforms.generate.clients.open import open_client
from groundrows.transforms.generate.pacing.open import open_pacer
from groundrows.transforms.generate.settings import CallSettings


def run_worker(options: RunOptions, started: float) -> int:
    """Work off a subscription until told to stop, or idle for long enough; returns the exit code.

    Args:
        options: The flags, with a subscription as the source.
        started: When the command was started, on the monotonic clock.

    Returns:
        0 when everything that was pulled has an outcome, or was given back because it had not begun or the
        budget was spent; 3 when too much failed; 1 when calling, pulling or publishing failures came to an
        end by itself.

    Raises:
        UsageError: Something is wrong with the flags or the subscription; nothing was called.
    """
    name = _subscription(options)
    records = read_settings(options)
    beam_options = PipelineOptions(list(options.runner_flags))
    if beam_options.view_as(DirectOptions).direct_running_mode != "in_memory":
        raise UsageError(
            "A worker is one process: leave out --direct_running_mode, and start several workers on the same "
            "subscription, each with an --output of its own."
        )
    pacing = pacing_of(options, beam_options)
    ledger = ledger_of(options, beam_options)
    preflight.check_budget_of_checks(options, ledger)
    preflight.check_storage((options.output,))
    directory.check(options.output, overwrite=options.overwrite, append=options.append)
    if options.endpoint is not None and options.endpoint.secure:
        preflight.check_credentials()
    empty_pipeline(beam_options)
    preflight.check_ledger(ledger, options.output)
    preflight.check_limiter(pacing[0])
    preflight.check_warehouse(options, None)
    with ExitStack() as stack:
        subscription = stack.enter_context(closing(Subscription(name, options.id_attribute)))
        publish_failures = _publisher(options, stack)
        endpoint = options.endpoint or own_emulator(options, stack)
        where = stack.enter_context(directory.claimed(options.output, append=options.append))
        # What was answered here before is left out only on request: reading it takes the longer the longer
        # a worker has lived, and a message that comes again is answered from the ledger.
        known = where if options.append else replace(where, kept_files=())
        calls = call_settings(options, endpoint, known, pacing, ledger)
        forget_claims(calls)
        engine = _engine(calls, stack)
        engines = [engine]
        # What has failed is published by the worker, once it is on disk.
        settings = replace(settings_of(options, records, calls, where), failures_topic=None)
        if settings.checks is not None:
            engines.append(_engine(settings.checks, stack))
        task = Task(
            subscription=subscription,
            settings=settings,
            runner_flags=options.runner_flags,
            limits=limits_for(options),
            scratch=where.scratch,
            publish_failures=publish_failures,
            has_stopped=lambda: any(each.halt.reason is not None for each in engines),
            idle_seconds=options.stop_when_idle,
        )
        worker, ended_by = _work(task, quiet=options.quiet)
        return _close(worker, ended_by, engines, options, where, started)


def _subscription(options: RunOptions) -> str:
    if options.input_subscription is None:
        raise UsageError(
            f"--input_topic={options.input_topic} would be read through a subscription that ends with this "
            "process, and what is not finished would be lost: create one with `gcloud pubsub subscriptions "
            "create`, and give --input_subscription."
        )
    return options.input_subscription


def _publisher(options: RunOptions, stack: ExitStack) -> Any:
    if options.failures_topic is None:
        return _tell_nobody
    return stack.enter_context(closing(FailuresTopic(options.failures_topic))).publish


def _tell_nobody(rows: Iterable[FailureRow]) -> None:
    pass


def _engine(calls: CallSettings, stack: ExitStack) -> Engine:
    """The engine that every batch shares: it is kept, or each batch would begin with a new pace."""
    engine = shared.acquire(calls, open_client, open_pacer)
    stack.callback(shared.release, engine)
    return engine


def _work(task: Task, *, quiet: bool) -> tuple[Worker, EndedBy]:
    """Work until it is over.

    Raises:
        Exception: What ended it, unless that was the subscription or the topic of failures.
    """
    tune_interpreter()
    worker = Worker(task)
    with signals.noted() as came, tracebacks_hidden(), nullcontext() if quiet else progress.shown(None):
        ended_by = worker.work(lambda: bool(came))
    if ended_by == "error" and worker.error is not None:
        raise worker.error
    return worker, ended_by


def _close(
    worker: Worker,
    ended_by: EndedBy,
    engines: Sequence[Engine],
    options: RunOptions,
    where: Output,
    started: float,
) -> int:
    account = accounting.account(worker.done.counters, engines[0].settings.method)
    sinks.ensure_every_table(where)
    summary = run_json(
        account,
        options,
        run_id=where.run_id,
        balanced=account.balanced,
        quantiles=worker.done.sketches.quantiles(),
        started_at=where.started_at.isoformat(),
        wall_seconds=time.monotonic() - started,
    )
    summary["worker"] = {
        "batches": worker.done.batches,
        "ended_by": ended_by,
        "given_back": worker.done.given_back,
    }
    output.finish(where, summary)
    if not options.quiet:
        print(for_people(summary, where.path))
    if ended_by in ("subscription", "failures_topic"):
        print(worker.error, file=sys.stderr)
        return 1
    if ended_by == "nothing_is_asked":
        halted = next((each.halt.reason for each in engines if each.halt.reason is not None), None)
        why = halted or f"The budget of --max_requests={options.max_requests} is spent."
        print(
            f"{why} {worker.done.given_back:,} messages without an outcome went back to the subscription.",
            file=sys.stderr,
        )
        return 1 if halted else 0
    if not account.balanced:
        print(f"The count law does not hold: {account}; this is a bug, please report it.", file=sys.stderr)
        return 1
    complaint = accounting.too_many_failed(account, options.max_failure_share, where)
    if complaint is not None:
        print(complaint, file=sys.stderr)
        return 3
    return 0
