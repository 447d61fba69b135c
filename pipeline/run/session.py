"""A run from its first check to its summary.

First `preflight.check` refuses wrong flags. Then `opened` claims the output directory and returns the run's
settings. Then the questions are asked: by a Beam graph in this process (`run_archives`, `carry_out`), by a
worker that reads a subscription (`worker/run.py`), or by a service such as Dataflow (`submit`). At the end
`close` writes `run.json` and prints the summary.
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
    stopping,
    watching,
    worker_processes,
)
from groundrows.pipeline.run.directory_totals import totals_after
from groundrows.pipeline.run.examples import failure_examples
from groundrows.pipeline.run.first_records import common_failure, no_references
from groundrows.pipeline.run.graph import build
from groundrows.pipeline.run.intended import Intended, Kind
from groundrows.pipeline.run.quantiles import read_quantiles
from groundrows.pipeline.run.runner import is_direct, tracebacks_hidden, tune_interpreter
from groundrows.pipeline.run.saying import say
from groundrows.pipeline.run.settings import RunSettings, call_settings, settings_of, stream_files_of
from groundrows.pipeline.run.spending import budgets_of
from groundrows.pipeline.run.summary import for_people, nothing_done, run_json
from groundrows.pipeline.sinks import files as sinks
from groundrows.pipeline.sources.seam import Source
from groundrows.pipeline.storage import output, worker_directory
from groundrows.schemas.errors import UsageError
from groundrows.transforms.counters import TALLY
from groundrows.transforms.generate.calling import shared
from groundrows.transforms.generate.settings import CallSettings


def run_archives(options: RunOptions, started: float) -> int:
    """Ask the questions in the archives that the flags name; return the exit code.

    Args:
        options: The flags, with archives as the source.
        started: When the command was started, in seconds on the monotonic clock.

    Raises:
        UsageError: Something is wrong with the flags; nothing was called.
    """
    run = Intended(options, Kind.ARCHIVES, started)
    preflight.check(run)
    if not options.quiet:
        notes = [
            *run.source.notes(),
            common_failure(run.source.items(), run.records),
            no_references(run.source.items(), run.records),
        ]
        for note in filter(None, notes):
            print(note, file=sys.stderr)
    return carry_out(run)


def carry_out(run: Intended, also: Mapping[str, Any] | None = None) -> int:
    """Ask the questions of a run, write the rows and the summary; return the exit code.

    Args:
        run: The run, which `preflight.check` has accepted.
        also: More entries for the summary.

    Raises:
        UsageError: The output could not be claimed; nothing was called.
    """
    with opened(run) as settings:
        with watching.watched(settings.output) as watch:
            try:
                result = _execute(run, settings)
            except Exception:
                # When the directory was taken away, that is the cause of any other error.
                if not watch.look():
                    raise
        if watch.lost is not None:
            output.halt(settings.output)
            return report_complaint(watch.lost, 1)
        ended = Ended(
            accounting.counters_of(result),
            read_quantiles(settings.output),
            accounting.rows_on_disk(settings.output),
            also or {},
        )
        return close(run, settings, ended)


def submit(options: RunOptions) -> Any:
    """Submit a run to a service that does the work, and return the runner's result at once.

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
    """Claim the output directory, and yield the settings that the run's graph is built from.

    Call `preflight.check` before: claiming the directory may remove rows, so every refusal must come first.

    Raises:
        UsageError: The directory can't be claimed, or the run's own emulator does not start.
    """
    options = run.options
    with ExitStack() as stack:
        endpoint = options.endpoint or own_emulator(options, stack)
        where = stack.enter_context(_claimed(run))
        source = run.settled_source(where)
        # A worker reads the earlier answers of its directory only with --append. A long-lived worker has so
        # many of them that reading takes long, and the ledger answers a repeated message anyway.
        known = replace(where, kept_files=()) if run.kind is Kind.WORKER and not options.append else where
        calls = call_settings(options, endpoint, known, run.pacing, run.ledger)
        _forget_claims(calls)
        # A worker's graph reads one batch after another, and each batch ends.
        stream = None if source.bounded or run.kind is Kind.WORKER else stream_files_of(options)
        spread = run.processes != 1
        yield settings_of(options, run.records, calls, where, source, spread=spread, stream=stream)


def _claimed(run: Intended) -> AbstractContextManager[output.Output]:
    options = run.options
    if run.kind is Kind.WORKER:
        return worker_directory.claimed(options.output, append=options.append, row_format=options.row_format)
    if options.is_stream:
        # A stream never ends, so it never releases a claim, and earlier rows in the directory don't matter.
        return nullcontext(output.new(options.output, row_format=options.row_format))
    return output.claimed(
        options.output,
        overwrite=options.overwrite,
        append=options.append,
        row_format=options.row_format,
    )


def own_emulator(options: RunOptions, stack: ExitStack) -> Endpoint:
    """Start an emulator of the service in a process of its own; it ends when `stack` is closed.

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
    """Remove the claims that an interrupted run left in the ledger, so that its questions are asked again."""
    with closing(preflight.opened(calls.ledger)) as ledger:
        ledger.forget_claims(calls.run_id)


# -- the work


def _execute(run: Intended, settings: RunSettings) -> Any:
    build(run.pipeline, settings)
    tune_interpreter()
    shown = nullcontext() if run.options.quiet else progress.shown(lambda: _count(settings.source))
    tracebacks = bool(os.environ.get("GROUNDROWS_TRACEBACK"))
    left_out = TALLY.left_out
    several = nullcontext() if run.processes == 1 else worker_processes.watched(show_tracebacks=tracebacks)
    with (
        shown,
        tracebacks_hidden(),
        stopping.stopped_first(shared.stop_calling, lambda: _stopped(settings, left_out)),
        several,
    ):
        result = run.pipeline.run()
        result.wait_until_finish()
    return result


def _stopped(settings: RunSettings, left_out_before: int) -> str:
    """Return the sentence for a run that a signal has stopped.

    Args:
        settings: The run's.
        left_out_before: Number of records that the process left out before this run.
    """
    calls = settings.calls
    stored = shared.stored(calls.method)
    if stored is None:  # the run had not begun, or other processes do the work
        return stopping.SENTENCE
    if calls.ledger == "none":
        return stopping.NOTHING_STORED
    records = progress.counted(lambda: _count(settings.source)) if settings.source.bounded else None
    if records is None:
        return stopping.STORED.format(stored=stored)
    left = max(0, records - shared.answered(calls.method) - (TALLY.left_out - left_out_before))
    return stopping.STORED_OF.format(stored=stored, left=left, records=records)


def _count(source: Source) -> int:
    return sum(1 for _ in source.items())


# -- closing


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run did, and what ended it.

    Attributes:
        counters: The counters of its steps, by (namespace, name).
        quantiles: Quantiles of its answers, by measure.
        on_disk: Number of rows in its files, by table. None when they were compared with the counters before.
        also: More entries for the summary.
        early: The sentence and the exit code of what ended the run before the end of its source, or None.
    """

    counters: Mapping[tuple[str, str], int]
    quantiles: Mapping[str, Mapping[str, float]]
    on_disk: Mapping[str, int] | None = None
    also: Mapping[str, Any] = field(default_factory=dict)
    early: tuple[str, int] | None = None


def close(run: Intended, settings: RunSettings, ended: Ended) -> int:
    """Write `run.json`, tidy up, and print the summary; return the exit code."""
    options, where = run.options, settings.output
    account = accounting.account(ended.counters, settings.calls.method)
    balanced = account.balanced and ended.on_disk in (None, dict(account.rows))
    if account.records_read == 0 and where.kept_files and output.finish_unchanged(where):
        if not options.quiet:
            say(nothing_done(where.path, ended.also))
        return report_complaint(*_verdict(run, settings, ended, account, balanced=balanced))
    if balanced and account.halted and _goes_on(run):
        output.halt(where)
        return report_complaint(_halted(account), 1)
    sinks.ensure_every_table(where)
    summary = run_json(
        account,
        options,
        run_id=where.run_id,
        balanced=balanced,
        quantiles=ended.quantiles,
        row_format=where.row_format,
        started_at=where.started_at.isoformat(),
        wall_seconds=time.monotonic() - run.started,
        budgets=budgets_of(settings.calls, account.spent),
        prices=run.prices,
    )
    # A long-lived worker has so many rows that reading them would delay its end.
    is_worker = run.kind is Kind.WORKER
    summary["directory"] = asdict(totals_after(where, account, rows_are_many=is_worker))
    summary.update(ended.also)
    output.finish(where, summary, again=is_worker)
    if not options.quiet:
        counts = {**account.checks.failures_by_code, **account.failures_by_code}
        say(for_people(summary, where.path, failure_examples(where, counts)))
    return report_complaint(*_verdict(run, settings, ended, account, balanced=balanced))


def _goes_on(run: Intended) -> bool:
    """Whether the same command can continue a run whose calling stopped.

    A worker need not be continued, because Pub/Sub delivers its messages again. Workers on other machines
    can't read the list of answered questions, which is a file on this machine. A run in mode `check` writes
    no answers, so nothing says which of its records are finished.
    """
    return run.kind in (Kind.ARCHIVES, Kind.REPLAY) and is_direct(run.beam_options) and _writes_answers(run)


def _writes_answers(run: Intended) -> bool:
    return run.options.mode != "check"


def _halted(account: accounting.Account) -> str:
    answered = account.answered + account.already_answered
    read = f"{account.records_read:,} records"
    so_far = f"{answered:,} of {read} are answered and stay so" if answered else f"none of {read} is answered"
    return (
        f"The run stopped before its end, and {so_far}; fix what stopped it and run the same command again "
        "to continue."
    )


def report_complaint(complaint: str | None, code: int) -> int:
    """Print the complaint, if there is one, to stderr; return the exit code."""
    if complaint is not None:
        say(complaint, sys.stderr)
    return code


def _verdict(
    run: Intended, settings: RunSettings, ended: Ended, account: accounting.Account, *, balanced: bool
) -> tuple[str | None, int]:
    """Return the complaint about a run, or None, and the exit code."""
    if ended.early is not None:
        return ended.early
    if balanced and account.halted and run.kind is not Kind.WORKER:
        where = settings.output.table("failures")
        return f"Calling stopped before the end; replay the questions in {where} that were not asked.", 1
    if not balanced:
        beside = "" if ended.on_disk is None else f" beside rows on disk {dict(ended.on_disk)}"
        return f"The count law does not hold: {account}{beside}; this is a bug, please report it.", 1
    complaint = accounting.too_many_failed(account, run.options.max_failure_share, settings.output)
    return complaint, 0 if complaint is None else 3
