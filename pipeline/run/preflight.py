"""Checks that a run makes before its first call, and before it writes or removes anything.

Every check returns, or raises `UsageError` with one sentence. `CHECKS` lists them in the order in which they
run: those that need no network come first. A new check is one function and one line in `CHECKS`; archives,
workers and submitted jobs all use it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from apache_beam.options.pipeline_options import DirectOptions, GoogleCloudOptions

from groundrows.pipeline.run.intended import Intended, Kind
from groundrows.pipeline.run.runner import is_dataflow, is_direct
from groundrows.pipeline.sinks.failures_topic import check_topic
from groundrows.pipeline.sources.messages import check_there, topic_of
from groundrows.pipeline.storage import output, worker_directory
from groundrows.pipeline.storage.credentials import check_storage, need_credentials
from groundrows.pipeline.storage.uris import on_cloud_storage, without_password
from groundrows.schemas.errors import LedgerError, NoLedgerError, SetupError, UsageError
from groundrows.schemas.service import GEMINI
from groundrows.transforms.generate.clients.api_key import api_key
from groundrows.transforms.generate.ledger.base import Ledger
from groundrows.transforms.generate.ledger.uri import open_ledger
from groundrows.transforms.generate.redis_server import is_passing, what_failed

CONNECT_SECONDS = 5.0


def check(run: Intended) -> None:
    """Refuse a run in which something is wrong; nothing is called, written or removed.

    Raises:
        UsageError: One sentence about the first thing that is wrong.
    """
    for each in CHECKS:
        if run.kind in each.kinds:
            each.look(run)


# -- credentials and paths


def check_paths(run: Intended) -> None:
    """Refuse a run that reads or writes on Cloud Storage and has no credentials."""
    options = run.options
    read = () if run.kind is Kind.REPLAY else run.source.paths
    check_storage((*read, options.output, options.request_defaults or "", options.prices or ""))


def check_credentials(run: Intended) -> None:
    """Refuse a run that has no credentials for the service that it calls."""
    options = run.options
    if options.endpoint is None or not options.endpoint.secure:
        return
    if options.location or options.check_grounding:
        need_credentials()
    if options.location:
        return
    try:
        api_key()
    except SetupError as error:
        raise UsageError(str(error)) from None


# -- what the flags say together


def check_records(run: Intended) -> object:
    """Refuse request defaults and flags about records that can't be used."""
    return run.records


def check_prices(run: Intended) -> object:
    """Refuse prices that can't be used."""
    return run.prices


def check_source(run: Intended) -> None:
    """Refuse a source that can't be read."""
    run.source.check()


def check_subscription(run: Intended) -> None:
    """Refuse a topic as a worker's source."""
    if run.options.input_subscription is None:
        raise UsageError(
            f"--input_topic={run.options.input_topic} would be read through a subscription that ends with "
            "this process, and unfinished messages would be lost: create a subscription with `gcloud pubsub "
            "subscriptions create`, and give --input_subscription."
        )


def check_one_process(run: Intended) -> None:
    """Refuse flags that ask for several processes in one worker."""
    if run.beam_options.view_as(DirectOptions).direct_running_mode != "in_memory":
        raise UsageError(
            "A worker is one process: leave out --direct_running_mode, and start several workers on the same "
            "subscription, each with an --output of its own."
        )


def check_pacing_and_ledger(run: Intended) -> object:
    """Refuse so many shards that each gets too few calls, and a run that needs a ledger but has none."""
    return run.pacing, run.ledger


def check_sharing(run: Intended) -> None:
    """Refuse a rate limit or a budget that several processes would each keep for themselves.

    Several processes keep one limit only when they share its state or when each has a part of it.
    """
    options, (limiter, _) = run.options, run.pacing
    several = run.processes != 1
    limited = options.requests_per_minute is not None or options.tokens_per_minute is not None
    if several and limiter == "local" and limited:
        raise UsageError(
            "--rate_limiter=local keeps the limit within one process, and this run has several: leave it "
            "out, or give sharded or redis://HOST:PORT/DB."
        )
    if options.max_requests is not None and several and run.ledger == "none" and limiter != "sharded":
        raise UsageError(
            "--max_requests can't be kept by several workers that share nothing: give --ledger, or "
            "--rate_limiter=sharded."
        )
    for name in ("max_tokens", "max_searches"):
        apart = several or limiter == "sharded"
        if getattr(options, name) is not None and apart and run.ledger == "none":
            raise UsageError(
                f"--{name} is counted in one place, and workers or shards have none without a ledger: name "
                "one with --ledger."
            )


def check_budget_of_checks(run: Intended) -> None:
    """Refuse a budget of questions and checks that has no ledger to count both in."""
    options = run.options
    if options.check_grounding and options.max_requests is not None and run.ledger == "none":
        raise UsageError(
            "--max_requests for answers and their checks is counted in the ledger, and this run has none: "
            "name one with --ledger, or leave out --check_grounding."
        )


def check_append(run: Intended) -> None:
    """Refuse --append on other machines: workers there can't read this machine's file of answered turns."""
    if run.options.append and not is_direct(run.beam_options):
        raise UsageError(
            "--append works on this machine only: leave it out, and name a --ledger that the workers share, "
            "so that answered questions are not asked again."
        )


def check_dataflow(run: Intended) -> None:
    """Refuse flags that name something on this machine when the workers are on Dataflow."""
    if not is_dataflow(run.beam_options):
        return
    options = run.options
    if not on_cloud_storage(options.output):
        raise UsageError(
            f"--output={options.output} is on this machine, where workers on Dataflow can't write: "
            "name a directory on gs://."
        )
    if run.ledger.startswith("sqlite:"):
        raise UsageError(
            "--ledger=sqlite:… is a file on this machine, which workers on Dataflow can't reach: give "
            "redis://HOST:PORT/DB, or leave it out."
        )
    if options.endpoint is None:
        raise UsageError(
            "--service=emulator starts an emulator on this machine, which workers on Dataflow can't reach: "
            "name one with --endpoint, or give --service=discoveryengine."
        )
    if options.asked == GEMINI and not options.location:
        raise UsageError(
            "--service=gemini without --location uses the API key in this machine's environment, which "
            "workers on Dataflow don't have: give --location=projects/PROJECT/locations/global."
        )
    if not options.is_stream and not options.overwrite and output.is_under_way(options.output):
        raise UsageError(
            f"--output={options.output} holds a run that has not finished, and its job may still be running: "
            "name another directory, or give --overwrite when the job has ended."
        )


def check_runner(run: Intended) -> object:
    """Refuse flags that the runner refuses."""
    return run.pipeline


# -- what must exist and be reachable


def check_directory(run: Intended) -> None:
    """Refuse an output directory that the run may not write to."""
    options = run.options
    if run.kind is Kind.WORKER:
        check = worker_directory.check
    elif options.is_stream:
        return
    else:
        check = output.check
    check(
        options.output,
        overwrite=options.overwrite,
        append=options.append,
        row_format=options.row_format,
    )


def check_ledger(run: Intended) -> None:
    """Refuse a ledger that can't be used."""
    try:
        open_ledger(run.ledger, read_only=True).close()
    except NoLedgerError:
        # The default ledger is made together with the output directory, later.
        if run.ledger != output.ledger_in(run.options.output):
            opened(run.ledger).close()
    except LedgerError as error:
        raise UsageError(str(error)) from None


def opened(uri: str) -> Ledger:
    """Open a ledger for the run.

    Raises:
        UsageError: It can't be used.
    """
    try:
        return open_ledger(uri)
    except LedgerError as error:
        raise UsageError(str(error)) from None


def check_limiter(run: Intended) -> None:
    """Refuse a rate limiter that can't be reached or that refuses the connection.

    A limiter that becomes unreachable during the run does not fail it: the calls wait.
    """
    limiter, _ = run.pacing
    if "://" not in limiter:
        return
    wrong = _wrong_with_envoy(limiter) if limiter.startswith("envoy://") else _wrong_with_redis(limiter)
    if wrong is not None:
        raise UsageError(
            f"--rate_limiter={without_password(limiter)} can't be {wrong}; repair it or name another one."
        )


def _wrong_with_envoy(uri: str) -> str | None:
    try:
        parts = urlsplit(uri)
        socket.create_connection((parts.hostname or "", parts.port or 0), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        return f"reached: {error}"
    return None


def _wrong_with_redis(uri: str) -> str | None:
    from redis import Redis, RedisError
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        with Redis.from_url(
            uri,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=CONNECT_SECONDS,
            socket_connect_timeout=CONNECT_SECONDS,
        ) as server:
            # The pacer's script reads a hash too, so this needs no permission beyond the pacer's.
            server.hgetall("groundrows:pace:")
    except RedisError as error:
        return f"{'reached' if is_passing(error) else 'used'}: {what_failed(error)}"
    except (OSError, ValueError) as error:
        return f"reached: {error}"
    return None


def check_queue(run: Intended) -> None:
    """Refuse a job whose subscription or topic does not exist. A worker learns it when it pulls."""
    options = run.options
    if not options.is_stream:
        return
    if "PUBSUB_EMULATOR_HOST" not in os.environ:
        need_credentials()
    check_there(options.input_subscription, options.input_topic)


def check_failures_topic(run: Intended) -> None:
    """Refuse a topic for failures that can't be published to. A runner would retry for ever."""
    name = run.options.failures_topic
    if name is None:
        return
    if "PUBSUB_EMULATOR_HOST" not in os.environ:
        need_credentials()
    check_topic(name)


def check_loop(run: Intended) -> None:
    """Refuse a topic for failures that the run itself reads: it would ask each failed question for ever."""
    options = run.options
    if options.failures_topic is None or not options.is_stream:
        return
    source = options.input_topic
    if options.input_subscription is not None:
        source = topic_of(options.input_subscription)
    if source == options.failures_topic:
        named = f"--input_subscription={options.input_subscription} is a subscription to it"
        raise UsageError(
            f"--failures_topic={options.failures_topic} feeds this run itself, since "
            f"{named if options.input_subscription else 'it is the --input_topic'}, so that every failure "
            "would be asked again: name another topic."
        )


def check_warehouse(run: Intended) -> None:
    """Create the BigQuery tables that are missing, and refuse a dataset that can't be written to."""
    options = run.options
    if options.bigquery_dataset is None:
        return
    temp_location = run.beam_options.view_as(GoogleCloudOptions).temp_location
    on_storage = on_cloud_storage(options.output) or on_cloud_storage(temp_location or "")
    if not options.is_stream and not on_storage:
        raise UsageError(
            "--bigquery_dataset is loaded from files on Cloud Storage: give --temp_location=gs://… or "
            "--output=gs://…."
        )
    from groundrows.pipeline.sinks.warehouse import prepare_tables

    prepare_tables(options.bigquery_dataset)


@dataclass(frozen=True, slots=True)
class Check:
    """A check, and the kinds of runs that make it.

    Attributes:
        look: Does the check; raises `UsageError`.
        kinds: The kinds of runs that make it.
    """

    look: Callable[[Intended], object]
    kinds: frozenset[Kind] = frozenset(Kind)


_WORKER = frozenset({Kind.WORKER})
_REPLAY = frozenset({Kind.REPLAY})

CHECKS = (
    Check(check_paths),
    Check(check_subscription, _WORKER),
    Check(check_source, frozenset(Kind) - _REPLAY),
    Check(check_records),
    Check(check_prices),
    Check(check_one_process, _WORKER),
    Check(check_pacing_and_ledger),
    Check(check_sharing),
    Check(check_budget_of_checks),
    Check(check_append),
    Check(check_dataflow),
    Check(check_directory),
    Check(check_credentials),
    Check(check_runner),
    # The checks from here on need the network or the disk.
    Check(check_ledger),
    Check(check_limiter),
    Check(check_queue, frozenset({Kind.JOB})),
    Check(check_failures_topic),
    Check(check_loop),
    Check(check_warehouse),
)
"""Every check, in the order in which they run."""
