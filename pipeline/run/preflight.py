"""What can be found out before the first call, and before anything is touched.

Every check raises `UsageError`, one sentence, or returns. `CHECKS` lists them in the order in which they are
made: what needs no network comes first. A new check is one function and one line there, whoever carries the
run out.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from apache_beam.options.pipeline_options import DirectOptions, GoogleCloudOptions

from groundrows.pipeline.run.intended import Intended, Kind
from groundrows.pipeline.run.runner import is_dataflow, is_direct
from groundrows.pipeline.sinks.failures_topic import check_topic
from groundrows.pipeline.sources.messages import topic_of
from groundrows.pipeline.storage import output, worker_directory
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


def need_credentials() -> None:
    """Raise `UsageError` when there are no credentials, without which nothing of Google's can be called."""
    import google.auth
    import google.auth.exceptions

    try:
        google.auth.default()
    except google.auth.exceptions.GoogleAuthError:
        raise UsageError(
            "No credentials for Google Cloud were found: run `gcloud auth application-default login`, or "
            "name a key file in GOOGLE_APPLICATION_CREDENTIALS."
        ) from None


def check_storage(paths: Iterable[str]) -> None:
    """Refuse paths on Cloud Storage without credentials; Beam would look for some for minutes."""
    if any(map(on_cloud_storage, paths)) and "STORAGE_EMULATOR_HOST" not in os.environ:
        need_credentials()


def check_paths(run: Intended) -> None:
    """Refuse a run that reads or writes on Cloud Storage and has no credentials."""
    options = run.options
    read = () if run.kind is Kind.REPLAY else run.source.paths
    check_storage((*read, options.output, options.request_defaults or ""))


def check_credentials(run: Intended) -> None:
    """Refuse a run that could call nothing for want of credentials."""
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


def check_source(run: Intended) -> None:
    """Refuse a source of which nothing can be read."""
    run.source.check()


def check_subscription(run: Intended) -> None:
    """Refuse a topic as a worker's source."""
    if run.options.input_subscription is None:
        raise UsageError(
            f"--input_topic={run.options.input_topic} would be read through a subscription that ends with "
            "this process, and what is not finished would be lost: create one with `gcloud pubsub "
            "subscriptions create`, and give --input_subscription."
        )


def check_one_process(run: Intended) -> None:
    """Refuse several processes for a worker."""
    if run.beam_options.view_as(DirectOptions).direct_running_mode != "in_memory":
        raise UsageError(
            "A worker is one process: leave out --direct_running_mode, and start several workers on the same "
            "subscription, each with an --output of its own."
        )


def check_pacing_and_ledger(run: Intended) -> object:
    """Refuse shards that leave each too few calls, and a run that needs a ledger and names none."""
    return run.pacing, run.ledger


def check_sharing(run: Intended) -> None:
    """Refuse a limit or a budget that is neither kept in one place nor cut into parts."""
    options, (limiter, _) = run.options, run.pacing
    several = run.processes != 1
    if several and limiter == "local" and options.requests_per_minute is not None:
        raise UsageError(
            "--rate_limiter=local keeps a limit in one process, and several are to work: leave it out, or "
            "give sharded or redis://HOST:PORT/DB."
        )
    if options.max_requests is not None and several and run.ledger == "none" and limiter != "sharded":
        raise UsageError(
            "--max_requests can't be kept by several workers that share nothing: give --ledger, or "
            "--rate_limiter=sharded."
        )


def check_budget_of_checks(run: Intended) -> None:
    """Refuse a budget that nothing counts: questions and the checks of their answers spend one together."""
    options = run.options
    if options.check_grounding and options.max_requests is not None and run.ledger == "none":
        raise UsageError(
            "--max_requests over answers and their checks is counted in the ledger, and there is none: name "
            "one with --ledger, or leave --check_grounding out."
        )


def check_append(run: Intended) -> None:
    """Refuse --append elsewhere: what is answered is noted in a file on this machine, which workers lack."""
    if run.options.append and not is_direct(run.beam_options):
        raise UsageError(
            "--append works on this machine only: leave it out, and name a --ledger that the workers share, "
            "so that what was answered is not asked again."
        )


def check_dataflow(run: Intended) -> None:
    """Refuse what only this machine has, when the work is done in Google's."""
    if not is_dataflow(run.beam_options):
        return
    options = run.options
    if not on_cloud_storage(options.output):
        raise UsageError(
            f"--output={options.output} is on this machine, where workers on Dataflow can't write: "
            "name one on gs://."
        )
    if run.ledger.startswith("sqlite:"):
        raise UsageError(
            "--ledger=sqlite:… is a file on this machine, which workers on Dataflow don't have: give "
            "redis://HOST:PORT/DB, or leave it out."
        )
    if options.endpoint is None:
        raise UsageError(
            "--service=emulator would start one on this machine, where workers on Dataflow don't find it: "
            "name one with --endpoint, or give --service=discoveryengine."
        )
    if options.asked == GEMINI and not options.location:
        raise UsageError(
            "--service=gemini without --location asks with the key in this machine's environment, which "
            "workers on Dataflow don't have: give --location=projects/PROJECT/locations/global."
        )
    if not options.is_stream and not options.overwrite and output.is_under_way(options.output):
        raise UsageError(
            f"--output={options.output} holds a run that has not finished, and its job may still be at work: "
            "name another directory, or give --overwrite when it has ended."
        )


def check_runner(run: Intended) -> object:
    """Refuse flags that the runner refuses."""
    return run.pipeline


# -- what must be there


def check_directory(run: Intended) -> None:
    """Refuse an output directory that the run may not write to."""
    options = run.options
    if run.kind is Kind.WORKER:
        worker_directory.check(options.output, overwrite=options.overwrite, append=options.append)
    elif not options.is_stream:
        output.check(options.output, overwrite=options.overwrite, append=options.append)


def check_ledger(run: Intended) -> None:
    """Refuse a ledger that can't be used: it is found out now, rather than in a worker."""
    try:
        open_ledger(run.ledger, read_only=True).close()
    except NoLedgerError:
        if run.ledger != output.ledger_in(run.options.output):  # which is made together with the directory
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
    """Refuse a rate limiter that nobody answers for, or that lets us not in.

    One that goes away later is waited for.
    """
    limiter, _ = run.pacing
    if "://" not in limiter:
        return
    wrong = _wrong_with_envoy(limiter) if limiter.startswith("envoy://") else _wrong_with_redis(limiter)
    if wrong is not None:
        raise UsageError(
            f"--rate_limiter={without_password(limiter)} can't be {wrong}; see to that or name another."
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
            # What the pacer's script does too: whoever may pace may do this.
            server.hgetall("groundrows:pace:")
    except RedisError as error:
        return f"{'reached' if is_passing(error) else 'used'}: {what_failed(error)}"
    except (OSError, ValueError) as error:
        return f"reached: {error}"
    return None


def check_failures_topic(run: Intended) -> None:
    """Refuse a topic for failures that can't be published to: a runner would try it again for ever."""
    name = run.options.failures_topic
    if name is None:
        return
    if "PUBSUB_EMULATOR_HOST" not in os.environ:
        need_credentials()
    check_topic(name)


def check_loop(run: Intended) -> None:
    """Refuse a topic for failures that feeds the run itself: each failure would be asked again for ever."""
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
    """Make the tables that are missing, and refuse a dataset into which nothing could be written."""
    options = run.options
    if options.bigquery_dataset is None:
        return
    temp_location = run.beam_options.view_as(GoogleCloudOptions).temp_location
    on_storage = on_cloud_storage(options.output) or on_cloud_storage(temp_location or "")
    if not options.is_stream and not on_storage:
        raise UsageError(
            "--bigquery_dataset is loaded from files on Cloud Storage: give --temp_location=gs://…, or an "
            "--output there."
        )
    from groundrows.pipeline.sinks.warehouse import prepare_tables

    prepare_tables(options.bigquery_dataset)


@dataclass(frozen=True, slots=True)
class Check:
    """A check, and the kinds of runs that it is for.

    Attributes:
        look: Looks; raises `UsageError`.
        kinds: Whose runs.
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
    Check(check_one_process, _WORKER),
    Check(check_pacing_and_ledger),
    Check(check_sharing),
    Check(check_budget_of_checks),
    Check(check_append),
    Check(check_dataflow),
    Check(check_directory),
    Check(check_credentials),
    Check(check_runner),
    # From here on somebody is asked.
    Check(check_ledger),
    Check(check_limiter),
    Check(check_failures_topic),
    Check(check_loop),
    Check(check_warehouse),
)
"""Every check, in order."""
