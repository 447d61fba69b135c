"""A run from its first check to its summary, whoever carries it out.

`preflight.check` refuses what is wrong, `opened` claims the output and gives what the run needs, and `close`
writes `run.json` and says how it went. Between the last two the questions are asked: by a graph over archives
(`run_archives`, `carry_out`), by a worker over a subscription (`worker/run.py`), or by a service to which the
graph was handed (`submit`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.options.service import Endpoint
from groundrows.pipeline.run import (
    accounting,
    preflight,
    progress,
    standing,
    stopping,
    watching,
    worker_processes,
)
from groundrows.pipeline.run.examples import failure_examples
from groundrows.pipeline.run.first_records import all_alike, no_references
from groundrows.pipeline.run.graph import build
from groundrows.pipeline.run.intended import Intended, Kind
from groundrows.pipeline.run.quantiles import read_quantiles
from groundrows.pipeline.run.runner import is_direct, tracebacks_hidden, tune_interpreter
from groundrows.pipeline.run.saying import say
from groundrows.pipeline.run.settings import RunSettings, call_settings, settings_of, stream_files_of
from groundrows.pipeline.run.summary import for_people, nothing_done, run_json
from groundrows.pipeline.sinks import files as sinks
from groundrows.pipeline.sources.seam import Source
from groundrows.pipeline.storage import output, worker_directory
from groundrows.schemas.errors import UsageError
from groundrows.transforms.generate.calling import shared
from groundrows.transforms.generate.settings import CallSettings


def run_archives(options: RunOptions, started: float) -> int:
    """Ask what the archives of the flags hold; returns the exit code.

    Args:
        options: The flags, with archives as the source.
        started: When the command was started, on the monotonic clock.

    Raises:
        UsageError: Something is wrong with the flags; nothing was called.
    """
    run = Intended(options, Kind.ARCHIVES, started)
    preflight.check(run)
    if not options.quiet:
        notes = [
            *run.source.notes(),
            all_alike(run.source.items(), run.records),
            no_references(run.source.items(), run.records),
        ]
        for note in filter(None, notes):
            print(note, file=sys.stderr)
    return carry_out(run)


def carry_out(run: Intended, also: Mapping[str, Any] | None = None) -> int:
    """Ask what the archives of a checked run hold, write the rows and the summary; returns the exit code.

    Args:
        run: The run; `preflight.check` found nothing wrong with it.
        also: What the summary says beside the run's own figures.

    Raises:
        UsageError: The output could not be claimed; nothing was called.
    """
    with opened(run) as settings:
        with watching.watched(settings.output) as watch:
            try:
                result = _execute(run, settings)
            except Exception:
                # What it held is gone, files under way too: whatever failed, this is why.
                if not watch.look():
                    raise
        if watch.lost is not None:
            output.halt(settings.output)
            return told(watch.lost, 1)
        ended = Ended(
            accounting.counters_of(result),
            read_quantiles(settings.output),
            accounting.rows_on_disk(settings.output),
            also or {},
        )
        return close(run, settings, ended)


def submit(options: RunOptions) -> Any:
    """Hand a run to a service that carries it out, and return at once what its runner gave.

    Raises:
        UsageError: Something is wrong with the flags; nothing was submitted.
    """
    run = Intended(options, Kind.JOB, time.monotonic())
    preflight.check(run)
    with opened(run) as settings:
        build(run.pipeline, settings)
        return run.pipeline.run()


# -- opening


@contextmanager
def opened(run: Intended) -> Iterator[RunSettings]:
    """What a checked run's graph is built from, while the output directory is claimed.

    All that may be refused is refused before this: claiming the directory may remove rows.

    Raises:
        UsageError: The directory can't be claimed, or the run's own emulator does not start.
    """
    options = run.options
    with ExitStack() as stack:
        endpoint = options.endpoint or own_emulator(options, stack)
        where = stack.enter_context(_claimed(run))
        source = run.settled_source(where)
        # A worker leaves out what was answered here before only on request: reading it takes the longer the
        # longer a worker has lived, and a message that comes again is answered from the ledger.
        known = replace(where, kept_files=()) if run.kind is Kind.WORKER and not options.append else where
        calls = call_settings(options, endpoint, known, run.pacing, run.ledger)
        _forget_claims(calls)
        # A worker's graph reads batches, which have an end, and the worker publishes their rows.
        stream = None if source.bounded or run.kind is Kind.WORKER else stream_files_of(options)
        spread = run.processes != 1
        yield settings_of(options, run.records, calls, where, source, spread=spread, stream=stream)


def _claimed(run: Intended) -> AbstractContextManager[output.Output]:
    options = run.options
    if run.kind is Kind.WORKER:
        return worker_directory.claimed(options.output, append=options.append)
    if options.is_stream:
        # A stream has no end at which it could say that it has finished, and no row there is in its way.
        return nullcontext(output.new(options.output))
    return output.claimed(options.output, overwrite=options.overwrite, append=options.append)


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


def _forget_claims(calls: CallSettings) -> None:
    """Let a run that is taken up ask again what it had not finished."""
    with closing(preflight.opened(calls.ledger)) as ledger:
        ledger.forget_claims(calls.run_id)


# -- the work


def _execute(run: Intended, settings: RunSettings) -> Any:
    build(run.pipeline, settings)
    tune_interpreter()
    shown = nullcontext() if run.options.quiet else progress.shown(lambda: _count(settings.source))
    tracebacks = bool(os.environ.get("GROUNDROWS_TRACEBACK"))
    several = nullcontext() if run.processes == 1 else worker_processes.watched(show_tracebacks=tracebacks)
    with (
        shown,
        tracebacks_hidden(),
        stopping.stopped_first(shared.stop_calling, lambda: _stopped(settings.calls)),
        several,
    ):
        result = run.pipeline.run()
        result.wait_until_finish()
    return result


def _stopped(calls: CallSettings) -> str:
    """What to say of a run that a signal has stopped."""
    stored = shared.stored(calls.method)
    if stored is None:  # it had not begun, or other processes do the work
        return stopping.SENTENCE
    return stopping.NOTHING_STORED if calls.ledger == "none" else stopping.STORED.format(stored=stored)


def _count(source: Source) -> int:
    return sum(1 for _ in source.items())


# -- closing


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run has done, and what ended it.

    Attributes:
        counters: What its steps counted, by (namespace, name).
        quantiles: Of its answers, by measure.
        on_disk: Rows of its files, by table; None where they were compared before.
        also: What the summary says beside.
        early: What ended it before its source did, as a sentence for people, and the exit code of that;
            None where nothing did.
    """

    counters: Mapping[tuple[str, str], int]
    quantiles: Mapping[str, Mapping[str, float]]
    on_disk: Mapping[str, int] | None = None
    also: Mapping[str, Any] = field(default_factory=dict)
    early: tuple[str, int] | None = None


def close(run: Intended, settings: RunSettings, ended: Ended) -> int:
    """Write `run.json`, tidy up, and say how the run went; returns the exit code."""
    options, where = run.options, settings.output
    account = accounting.account(ended.counters, settings.calls.method)
    balanced = account.balanced and ended.on_disk in (None, dict(account.rows))
    if account.records_read == 0 and where.kept_files and output.finish_unchanged(where):
        if not options.quiet:
            say(nothing_done(where.path, ended.also))
        return told(*_verdict(run, settings, ended, account, balanced=balanced))
    if balanced and account.halted and _goes_on(run):
        output.halt(where)
        return told(_halted(account), 1)
    sinks.ensure_every_table(where)
    summary = run_json(
        account,
        options,
        run_id=where.run_id,
        balanced=balanced,
        quantiles=ended.quantiles,
        started_at=where.started_at.isoformat(),
        wall_seconds=time.monotonic() - run.started,
    )
    # Reading the rows takes the longer the longer a worker has lived, and whoever ended it waits.
    is_worker = run.kind is Kind.WORKER
    summary["directory"] = asdict(standing.after(where, account, rows_are_many=is_worker))
    summary.update(ended.also)
    output.finish(where, summary, again=is_worker)
    if not options.quiet:
        counts = {**account.checks.failures_by_code, **account.failures_by_code}
        say(for_people(summary, where.path, failure_examples(where, counts)))
    return told(*_verdict(run, settings, ended, account, balanced=balanced))


def _goes_on(run: Intended) -> bool:
    """Whether a run whose calling stopped goes on when its command is given again.

    A worker's messages come again by themselves. Workers elsewhere would not find what is answered, which is
    noted in a file on this machine. Checks alone write no answers by which they could be told.
    """
    return run.kind in (Kind.ARCHIVES, Kind.REPLAY) and is_direct(run.beam_options) and _writes_answers(run)


def _writes_answers(run: Intended) -> bool:
    return run.options.mode != "check"


def _halted(account: accounting.Account) -> str:
    answered = account.answered + account.already_answered
    read = f"{account.records_read:,} records"
    so_far = f"{answered:,} of {read} are answered and stay so" if answered else f"none of {read} is answered"
    return (
        f"The run stopped before its end, and {so_far}; see to what stopped it and run the same command "
        "again to go on."
    )


def told(complaint: str | None, code: int) -> int:
    """Tell what there is to complain of; returns the exit code."""
    if complaint is not None:
        say(complaint, sys.stderr)
    return code


def _verdict(
    run: Intended, settings: RunSettings, ended: Ended, account: accounting.Account, *, balanced: bool
) -> tuple[str | None, int]:
    """What there is to complain of, and the exit code."""
    if ended.early is not None:
        return ended.early
    if balanced and account.halted and run.kind is not Kind.WORKER:
        where = settings.output.table("failures")
        return f"Calling stopped before the end; what was not asked is in {where}, to be replayed.", 1
    if not balanced:
        beside = "" if ended.on_disk is None else f" beside rows on disk {dict(ended.on_disk)}"
        return f"The count law does not hold: {account}{beside}; this is a bug, please report it.", 1
    complaint = accounting.too_many_failed(account, run.options.max_failure_share, settings.output)
    return complaint, 0 if complaint is None else 3
