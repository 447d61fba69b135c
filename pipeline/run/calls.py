"""From the flags: how to call, at what pace, and what remembers it."""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing
from dataclasses import replace

from apache_beam.options.pipeline_options import PipelineOptions

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.options.service import Endpoint
from groundrows.pipeline.run import preflight
from groundrows.pipeline.run.append import note_answered
from groundrows.pipeline.run.runner import is_direct, worker_processes
from groundrows.pipeline.storage import output
from groundrows.schemas.errors import UsageError
from groundrows.transforms.generate.settings import CallSettings
from groundrows.transforms.shards import LEAST_CALLS_A_MINUTE, shards_needed

_LOGGER = logging.getLogger(__name__)


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


def forget_claims(calls: CallSettings) -> None:
    """Let a run that is taken up ask again what it had not finished."""
    with closing(preflight.opened(calls.ledger)) as ledger:
        ledger.forget_claims(calls.run_id)
