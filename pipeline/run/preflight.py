"""What can be found out before the first call, and before anything is touched.

Every function raises `UsageError`, one sentence, or returns.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from groundrows.pipeline.options.run import RunOptions
from groundrows.pipeline.sources.archives import Archive, read_archive
from groundrows.pipeline.storage import output
from groundrows.pipeline.storage.uris import without_password
from groundrows.schemas.errors import LedgerError, NoLedgerError, UsageError
from groundrows.schemas.outcome import Failure
from groundrows.transforms.generate.ledger.base import Ledger
from groundrows.transforms.generate.ledger.uri import open_ledger

CONNECT_SECONDS = 5.0


def check_credentials() -> None:
    """Refuse a run that could call nothing for want of credentials."""
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
    if any(path.startswith("gs://") for path in paths) and "STORAGE_EMULATOR_HOST" not in os.environ:
        check_credentials()


def check_sharing(options: RunOptions, processes: int | None, limiter: str, ledger: str) -> None:
    """A limit and a budget must be kept in one place, or cut into parts."""
    several = processes != 1
    if several and limiter == "local" and options.requests_per_minute is not None:
        raise UsageError(
            "--rate_limiter=local keeps a limit in one process, and several are to work: leave it out, or "
            "give sharded or redis://HOST:PORT/DB."
        )
    if options.max_requests is not None and several and ledger == "none" and limiter != "sharded":
        raise UsageError(
            "--max_requests can't be kept by several workers that share nothing: give --ledger, or "
            "--rate_limiter=sharded."
        )


def check_budget_of_checks(options: RunOptions, ledger: str) -> None:
    """Questions and the checks of their answers spend one budget, which is then counted in the ledger."""
    if options.check_grounding and options.max_requests is not None and ledger == "none":
        raise UsageError(
            "--max_requests over answers and their checks is counted in the ledger, and there is none: name "
            "one with --ledger, or leave --check_grounding out."
        )


def check_warehouse(options: RunOptions, temp_location: str | None) -> None:
    """Make the tables that are missing, and refuse a dataset into which nothing could be written."""
    if options.bigquery_dataset is None:
        return
    on_storage = any((path or "").startswith("gs://") for path in (options.output, temp_location))
    if not options.is_stream and not on_storage:
        raise UsageError(
            "--bigquery_dataset is loaded from files on Cloud Storage: give --temp_location=gs://…, or an "
            "--output there."
        )
    from groundrows.pipeline.sinks.warehouse import prepare_tables

    prepare_tables(options.bigquery_dataset)


def check_append(options: RunOptions, *, here: bool) -> None:
    """What is answered already is noted in a file on this machine, where workers elsewhere do not find it."""
    if options.append and not here:
        raise UsageError(
            "--append works on this machine only: leave it out, and name a --ledger that the workers share, "
            "so that what was answered is not asked again."
        )


def check_dataflow(options: RunOptions, ledger: str) -> None:
    """Refuse what only this machine has, when the work is done in Google's."""
    if not options.output.startswith("gs://"):
        raise UsageError(
            f"--output={options.output} is on this machine, where workers on Dataflow can't write: "
            "name one on gs://."
        )
    if ledger.startswith("sqlite:"):
        raise UsageError(
            "--ledger=sqlite:… is a file on this machine, which workers on Dataflow don't have: give "
            "redis://HOST:PORT/DB, or leave it out."
        )
    if options.service == "emulator" and options.endpoint is None:
        raise UsageError(
            "--service=emulator would start one on this machine, where workers on Dataflow don't find it: "
            "name one with --endpoint, or give --service=discoveryengine."
        )
    if not options.is_stream and not options.overwrite and output.is_under_way(options.output):
        raise UsageError(
            f"--output={options.output} holds a run that has not finished, and its job may still be at work: "
            "name another directory, or give --overwrite when it has ended."
        )


def check_topic(name: str | None) -> None:
    """Refuse a topic for failures that is not there: its messages would be tried again for ever."""
    if name is None:
        return
    from google.api_core.exceptions import GoogleAPICallError, NotFound
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.pubsub_v1 import PublisherClient

    try:
        with PublisherClient() as publisher:
            publisher.get_topic(topic=name, timeout=CONNECT_SECONDS, retry=None)
    except NotFound:
        raise UsageError(f"--failures_topic={name} does not exist: create it, or name another.") from None
    except (GoogleAPICallError, GoogleAuthError) as error:
        raise UsageError(f"--failures_topic={name} can't be looked up: {error}.") from None


def check_ledger(uri: str, output_path: str) -> None:
    """Find out now, rather than in a worker, whether the ledger can be used."""
    try:
        open_ledger(uri, read_only=True).close()
    except NoLedgerError:
        if uri != output.ledger_in(output_path):  # which is made together with the directory
            opened(uri).close()
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


def check_limiter(limiter: str) -> None:
    """Refuse a rate limiter that nobody answers for; one that goes away later is waited for."""
    if "://" not in limiter:
        return
    try:
        parts = urlsplit(limiter)
        socket.create_connection((parts.hostname or "", parts.port or 6379), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--rate_limiter={without_password(limiter)} can't be reached: {error}; start it or name another."
        ) from None


def check_readable(archives: Sequence[Archive]) -> None:
    """Refuse an input of which nothing can be read. Where anything can, the rest costs a row a file."""
    unreadable = None
    for archive in archives:
        first = next(iter(read_archive(archive)), None)
        if not (isinstance(first, Failure) and first.code == "UNREADABLE_FILE"):
            return
        unreadable = unreadable or first
    if unreadable is not None:
        raise UsageError(f"Nothing of the input can be read: {unreadable.message}")
