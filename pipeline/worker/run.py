"""`groundrows run --input_subscription` on this machine: from the flags to the worker and its summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from typing import Any

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.run import preflight, progress, session, stopping, watching
from groundrows.pipeline.run.intended import Intended, Kind
from groundrows.pipeline.run.runner import tracebacks_hidden, tune_interpreter
from groundrows.pipeline.run.watching import Watch
from groundrows.pipeline.storage import worker_directory
from groundrows.pipeline.worker.gathering import limits_for
from groundrows.pipeline.worker.publishing import FailuresTopic
from groundrows.pipeline.worker.subscription import Subscription
from groundrows.pipeline.worker.work import EndedBy, Task, Worker
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
    run = Intended(options, Kind.WORKER, started)
    preflight.check(run)
    with ExitStack() as stack:
        name = options.input_subscription or ""
        subscription = stack.enter_context(closing(Subscription(name, options.id_attribute)))
        publish_failures = _publisher(options, stack)
        settings = stack.enter_context(session.opened(run))
        engines = [_engine(calls, stack) for calls in (settings.calls, settings.checks) if calls is not None]
        task = Task(
            subscription=subscription,
            # What has failed is published by the worker, before its rows are.
            settings=replace(settings, failures_topic=None),
            runner_flags=options.runner_flags,
            limits=limits_for(options),
            scratch=settings.output.scratch,
            publish_failures=publish_failures,
            has_stopped=lambda: any(each.halt.reason is not None for each in engines),
            idle_seconds=options.stop_when_idle,
        )
        with watching.watched(settings.output) as watch:
            try:
                worker, ended_by = _work(task, engines, watch, quiet=options.quiet)
            except Exception:
                # What it held is gone, files under way too: whatever failed, this is why.
                if not watch.look():
                    raise
        if watch.lost is not None:
            worker_directory.renew(settings.output)
            return session.report_complaint(watch.lost, 1)
        return session.close(run, settings, _ended(worker, ended_by, engines, options))


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


def _work(task: Task, engines: Sequence[Engine], watch: Watch, *, quiet: bool) -> tuple[Worker, EndedBy]:
    """Work until it is over.

    Raises:
        Exception: What ended it, unless that was the subscription or the topic of failures.
    """
    tune_interpreter()
    worker = Worker(task)
    for engine in engines:
        engine.is_wanted = worker.is_ours
    with stopping.noted() as came, tracebacks_hidden(), nullcontext() if quiet else progress.shown(None):
        ended_by = worker.work(lambda: bool(came) or watch.lost is not None)
    if ended_by == "error" and worker.error is not None:
        raise worker.error
    return worker, ended_by


def _ended(
    worker: Worker, ended_by: EndedBy, engines: Sequence[Engine], options: RunOptions
) -> session.Ended:
    """What the worker has done, and why it does no more; batches were compared with their rows on disk."""
    done = worker.done
    early = None
    if ended_by in ("subscription", "failures_topic"):
        early = (str(worker.error), 1)
    elif ended_by == "nothing_is_asked":
        halted = next((each.halt.reason for each in engines if each.halt.reason is not None), None)
        flags = [each.attempts.spent_flag for each in engines]
        flag = next(filter(None, flags), "max_requests")
        why = halted or f"The budget of --{flag}={getattr(options, flag)} is spent."
        early = (
            f"{why} {done.given_back:,} messages without an outcome went back to the subscription.",
            1 if halted else 0,
        )
    also = {"worker": {"batches": done.batches, "ended_by": ended_by, "given_back": done.given_back}}
    return session.Ended(done.counters, done.sketches.quantiles(), also=also, early=early)
