"""One batch of messages: it runs through the graph into its own directory, then its files are published."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from groundrows.pipeline.run import accounting
from groundrows.pipeline.run.graph import add_steps
from groundrows.pipeline.run.quantiles import Sketches
from groundrows.pipeline.run.runner import empty_pipeline
from groundrows.pipeline.run.settings import RunSettings
from groundrows.pipeline.storage.files import make_directory, open_for_writing
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import columns_of, read_rows
from groundrows.pipeline.storage.row_formats.known import format_of
from groundrows.pipeline.storage.uris import is_remote
from groundrows.pipeline.storage.whole import written_whole
from groundrows.schemas.record import Record
from groundrows.schemas.rows import FailureRow
from groundrows.schemas.tables import TABLES
from groundrows.transforms.counters import CHECKS, FAILED, RECORDS, RECORDS_READ, ROWS, failures_by_code

Counters = Mapping[tuple[str, str], int]

_MEASURED = columns_of(
    "answers", "candidate_index", "from_ledger", "latency_ms", "grounding_score", "support_coverage"
)


def run_batch(records: Sequence[Record], settings: RunSettings, runner_flags: Sequence[str]) -> Counters:
    """Ask what the records hold and write the rows under `settings.output`; returns the job's counters.

    Raises:
        RuntimeError: The count law does not hold, so that nobody can say what became of each record.
    """
    pipeline = empty_pipeline(PipelineOptions(list(runner_flags)))
    # Without a shuffle: with one, no call would leave before all records have arrived.
    add_steps(pipeline | "Messages" >> beam.Create(list(records), reshuffle=False), None, settings)
    result = pipeline.run()
    result.wait_until_finish()
    counters = {**accounting.counters_of(result), (RECORDS, RECORDS_READ): len(records)}
    account = accounting.account(counters, settings.calls.method)
    on_disk = accounting.rows_on_disk(settings.output)
    if not account.balanced or on_disk != dict(account.rows):
        raise RuntimeError(
            f"the count law does not hold for a batch: {account} beside rows on disk {on_disk}"
        )
    return counters


def output_of_batch(where: Output, directory: str) -> Output:
    """A batch's own output, below a directory on this machine."""
    return replace(where, path=directory, kept_files=())


def failures(batch: Output) -> Iterator[FailureRow]:
    """The failures among a batch's rows."""
    for path in batch.table_files("failures"):
        yield from _failures_in(path)


def _failures_in(path: str) -> Iterator[FailureRow]:
    for row in read_rows(path):
        yield FailureRow(**{**row, "history": tuple(row["history"])})


def drop_failures(
    batch: Output, origins: Collection[str], *, checks_are_records: bool
) -> Counter[tuple[str, str]]:
    """Remove the failures of messages that come again from a batch's files.

    Args:
        batch: The batch, not published yet.
        origins: The messages'.
        checks_are_records: Whether a failed check makes its record fail. Otherwise the record was answered
            and still counts as answered.

    Returns:
        What was counted for them, to be taken off the batch's counters.
    """
    counted: Counter[tuple[str, str]] = Counter()
    for path in batch.table_files("failures"):
        rows = list(_failures_in(path))
        dropped = [row for row in rows if row.origin in origins]
        if not dropped:
            continue
        _rewrite(path, [row for row in rows if row.origin not in origins])
        for row in dropped:
            of_check = row.stage == "check" and not checks_are_records
            namespace = CHECKS if of_check else RECORDS
            counted[namespace, FAILED] += 1
            counted[failures_by_code(namespace), row.code] += 1
            counted[ROWS, "failures"] += 1
            if not of_check:
                counted[RECORDS, RECORDS_READ] += 1
    return counted


def _rewrite(path: str, rows: Sequence[FailureRow]) -> None:
    if not rows:
        os.remove(path)
        return
    with written_whole(path) as file:
        writer = format_of(path).writer(file, TABLES["failures"].schema)
        for row in rows:
            writer.write(row)
        writer.close()


def measure(batch: Output) -> Sketches:
    """Return sketches of a batch's answers. The quantiles that the graph itself writes can't be merged."""
    sketches = Sketches()
    for path in batch.table_files("answers"):
        for row in read_rows(path, _MEASURED):
            answer: Any = SimpleNamespace(**row)
            sketches.add(answer)
    return sketches


def publish(batch: Output, where: Output) -> None:
    """Give a batch's files their final names. A crash of the machine can't remove them afterwards.

    The other tables' files move first and the answers last, so that every answer has its chunks and claims.
    """
    for table in reversed(tuple(TABLES)):
        files = batch.table_files(table)
        if not files:
            continue
        directory = where.table(table)
        make_directory(directory)
        for file in files:
            _publish(file, str(FileSystems.join(directory, os.path.basename(file))))
        if not is_remote(directory):
            _sync(directory)
    shutil.rmtree(batch.path)


def _publish(file: str, final: str) -> None:
    if is_remote(final):
        # Cloud Storage shows an object only when all of it has arrived.
        with open(file, "rb") as source, open_for_writing(final) as target:
            shutil.copyfileobj(source, target)
        return
    _sync(file)
    os.rename(file, final)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
