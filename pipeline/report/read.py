"""A run's row files as narrow tables that DuckDB queries.

polars reads the rows, a batch at a time, and leaves a Parquet file with only what the figures need: numbers,
the first characters of a question, hashes instead of ids and texts. That is a few percent of the rows' size;
a million answers are then queried in seconds and in little memory. Whole rows are read again for the few that
are shown.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from google.api_core.exceptions import GoogleAPIError
from google.auth.exceptions import GoogleAuthError

from groundrows.pipeline.storage.files import cause_of, check_name, read_json
from groundrows.pipeline.storage.output import UNDER_WAY
from groundrows.pipeline.storage.row_files import RowFile, row_files
from groundrows.pipeline.storage.row_formats.known import DEFAULT, FORMATS, format_of
from groundrows.pipeline.storage.summaries import RUN
from groundrows.pipeline.storage.uris import is_remote
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES
from groundrows.schemas.wording import reason_of

# Rows decoded at once, texts and all; an answer may be megabytes.
BATCH_ROWS = 1_024
PROMPT_CHARACTERS = 240
MEMORY = "512MB"

# What tells an answer from all others: of a question that a run asked twice the ids are the same.
ANSWER = ("run_id", "answer_id", "answered_at")

Names = Sequence[str]
Column = str | pl.Expr


def key(*columns: str) -> pl.Expr:
    """A number that stands for the values of these columns of strings and moments."""
    return pl.concat_str(pl.col(*columns).to_physical(), separator="\x00").hash()


def _answers(names: Names) -> list[Column]:
    return [
        key(*ANSWER).alias("key"),
        key("run_id", "answer_id").alias("answer_key"),
        "run_id",
        key("question_id").alias("question_key"),
        "turn_index",
        "candidate_index",
        pl.col("question").str.slice(0, PROMPT_CHARACTERS).alias("prompt"),
        pl.col("grounding_score").alias("score"),
        pl.col("support_coverage").alias("coverage"),
        pl.col("claim_count").alias("claims"),
        pl.col("supported_claim_count").alias("supported"),
        pl.col("chunk_count").alias("chunks"),
        pl.col("latency_ms").alias("latency"),
        _first_part(names),
        pl.col("asked_at").dt.epoch("us").alias("asked"),
        pl.col("answered_at").dt.epoch("us").alias("answered"),
        "from_ledger",
        "model_id",
        pl.col("warnings").list.len().alias("warnings"),
        pl.col("web_search_queries").list.len().alias("searches"),
        _prediction().alias("prediction"),
        pl.col("request_json")
        .str.extract(r'"threshold": ?([0-9.eE+-]+)')
        .cast(pl.Float64)
        .alias("threshold"),
        pl.col("answer_text").str.len_chars().alias("length"),
        pl.col("answer_text").hash().alias("text"),
    ]


def _first_part(names: Names) -> pl.Expr:
    # Runs of versions before streaming have no such column.
    return (
        pl.col("first_part_ms")
        if "first_part_ms" in names
        else pl.lit(None, pl.Float64).alias("first_part_ms")
    )


def _prediction() -> pl.Expr:
    return pl.col("retrieval").list.eval(_finite(pl.element().struct.field("prediction"))).list.max()


def _support_chunks(_: Names) -> list[Column]:
    return [key(*ANSWER).alias("key"), "chunk_index", "uri", "title", "domain", "document_id"]


def _claim_supports(_: Names) -> list[Column]:
    return [key(*ANSWER).alias("key"), "claim_index", "support_score", "chunk_index"]


def _failures(_: Names) -> list[Column]:
    return [
        key("run_id", "failure_id").alias("key"),
        "run_id",
        key("question_id").alias("question_key"),
        "turn_index",
        "stage",
        "code",
        "retryable",
        "attempts",
        pl.col("failed_at").dt.epoch("us").alias("failed"),
    ]


def _grounding_checks(_: Names) -> list[Column]:
    return [
        key("run_id", "check_id").alias("check_key"),
        key("run_id", "answer_id").alias("answer_key"),
        "run_id",
        key("question_id").alias("question_key"),
        "turn_index",
        pl.col("checked_at").dt.epoch("us").alias("checked"),
        # Only a check's first row holds it.
        pl.col("answer_text").hash().alias("text"),
        pl.col("support_score").alias("score"),
        "claim_score",
        "claim_index",
        "grounding_check_required",
        pl.col("citations").list.len().alias("citations"),
    ]


NARROW: Mapping[str, Callable[[Names], list[Column]]] = {
    "answers": _answers,
    "support_chunks": _support_chunks,
    "claim_supports": _claim_supports,
    "failures": _failures,
    "grounding_checks": _grounding_checks,
}


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A row file: its name, and where on this machine its bytes are found."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run's directory as it was found.

    Attributes:
        directory: Its name as given.
        files: Its row files by table.
        summary: What `run.json` says, or None where no run has finished.
        stopped: Whether a run is under way there, or was stopped.
    """

    directory: str
    files: Mapping[str, tuple[RowsFile, ...]]
    summary: Mapping[str, Any] | None
    stopped: bool


def find_run(directory: str, folder: str) -> Run:
    """Find a run's files; those on `gs://` are copied into `folder`.

    Raises:
        UsageError: There is no such directory, it holds no rows, or it can't be read.
    """
    if not is_remote(directory) and not os.path.isdir(directory):
        there = os.path.lexists(directory)
        said = f"The file {directory} is no directory" if there else f"There is no directory {directory}"
        raise UsageError(f"{said}: name the --output of a run.")
    try:
        check_name(directory)
        found = {table: row_files(str(FileSystems.join(directory, table))) for table in TABLES}
        summary = _summary(directory)
        stopped = summary is None and FileSystems.exists(FileSystems.join(directory, UNDER_WAY))
        files = {table: tuple(_local(path, folder) for path in paths) for table, paths in found.items()}
    except (OSError, ValueError, GoogleAPIError, GoogleAuthError) as error:
        raise UsageError(
            f"The directory {directory} can't be read: {reason_of(cause_of(error))}; see to that."
        ) from None
    if not any(files.values()):
        raise UsageError(f"The directory {directory} holds no rows of a run: {_why_none(stopped)}.")
    return Run(directory, files, summary, stopped)


def _summary(directory: str) -> dict[str, Any] | None:
    path = FileSystems.join(directory, RUN)
    try:
        return read_json(path)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The file {path} can't be read: {reason_of(error)}; mend it, or take it away to have the rows "
            "reported alone."
        ) from None


def _why_none(stopped: bool) -> str:
    if stopped:
        return "the one that was stopped there wrote none yet, and the same command takes it up"
    return "name the --output of a run"


def _local(path: str, folder: str) -> RowsFile:
    if not is_remote(path) and path.isascii():
        return RowsFile(path, path)
    copy = os.path.join(folder, f"{uuid.uuid4().hex}{format_of(path).suffix}")
    if not is_remote(path):
        # polars takes no name that is no UTF-8.
        os.symlink(os.path.abspath(path), copy)
        return RowsFile(path, copy)
    with (
        FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as source,
        open(copy, "wb") as out,
    ):
        shutil.copyfileobj(source, out, 1 << 20)
    return RowsFile(path, copy)


def opened(folder: str) -> duckdb.DuckDBPyConnection:
    """A database for `narrowed` tables, which keeps what does not fit into memory in `folder`."""
    db = duckdb.connect(
        config={
            "memory_limit": MEMORY,
            "temp_directory": os.path.join(folder, "spill"),
            "autoinstall_known_extensions": "false",
            "preserve_insertion_order": "false",
        }
    )
    db.execute("SET enable_progress_bar = false")  # it would be drawn on stdout
    return db


def narrow(db: duckdb.DuckDBPyConnection, run: Run, schema: str, folder: str) -> None:
    """Make views of a run's tables, narrowed, under the name of a schema of the database.

    Raises:
        UsageError: A file can't be read.
    """
    db.execute(f"CREATE SCHEMA {schema}")
    for table, columns in NARROW.items():
        # Where there is none, an empty file has the columns.
        files = run.files[table] or (_empty(table, folder),)
        for number, file in enumerate(files):
            narrowed = os.path.join(folder, f"{schema}-{table}-{number:05d}.parquet")
            with _readable(file):
                format_of(file.path).check_whole(file.path)
                rows = _scan(file)
                rows.select(columns(rows.collect_schema().names())).sink_parquet(narrowed, compression="lz4")
        pattern = os.path.join(folder, f"{schema}-{table}-*.parquet").replace("'", "''")
        db.execute(f"CREATE VIEW {schema}.{table} AS SELECT * FROM read_parquet('{pattern}')")


def _empty(table: str, folder: str) -> RowsFile:
    path = os.path.join(folder, f"empty-{table}{FORMATS[DEFAULT].suffix}")
    RowFile(path, table).close()
    return RowsFile(path, path)


def whole_rows(
    run: Run, table: str, columns: Names, key_columns: Names, keys: Collection[int]
) -> list[dict[str, Any]]:
    """Some columns of the rows with these keys, in the files' order; null where a file has no such column.

    Raises:
        UsageError: A file can't be read.
    """
    found: list[dict[str, Any]] = []
    if not keys:
        return found
    wanted = pl.Series("keys", sorted(keys), dtype=pl.UInt64)
    for file in run.files[table]:
        with _readable(file):
            rows = _scan(file)
            there = set(rows.collect_schema().names())
            chosen = [pl.col(name) if name in there else pl.lit(None).alias(name) for name in columns]
            narrowed = rows.filter(key(*key_columns).is_in(wanted.implode()))
            found += narrowed.select(key(*key_columns).alias("key"), *chosen).collect().to_dicts()
    return found


def _scan(file: RowsFile) -> pl.LazyFrame:
    """A file's rows; figures that are none, NaN and the infinite, are null."""
    rows = format_of(file.path).scan(file.path, BATCH_ROWS)
    kinds = rows.collect_schema()
    return rows.with_columns(_finite(pl.col(name)) for name, kind in kinds.items() if kind.is_float())


def _finite(figure: pl.Expr) -> pl.Expr:
    return pl.when(figure.is_finite()).then(figure)


@contextmanager
def _readable(file: RowsFile) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise UsageError(
            f"The rows of {file.name} can't be read: {reason_of(error)}; mend the file or take it away."
        ) from None
