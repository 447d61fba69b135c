"""Copies a run's rows into narrow tables for DuckDB.

polars reads the rows in batches and writes Parquet files with only what the figures need: numbers, the first
characters of a question, and hashes instead of IDs and texts. The copies have a few percent of the rows'
size, so DuckDB queries a million answers in seconds and in little memory. The few rows that the page shows
are read again in full.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import duckdb
import polars as pl

from groundrows.pipeline.query.run import Run, copied, finite, readable, scan
from groundrows.schemas.tables import TABLES

# Number of rows in a Parquet row group, which is held in memory until it is written.
GROUP_ROWS = 8_192
PROMPT_CHARACTERS = 240

# The columns that identify an answer. `answer_id` alone is not enough when a run asks a question twice.
ANSWER = ("run_id", "answer_id", "answered_at")

# What a service counts the tokens of.
TOKENS = ("prompt", "answer", "thought", "tool", "cached", "total")

# Failures whose message says in brackets why the service held back: `… (SAFETY): …`.
BLOCKED = ("PROMPT_BLOCKED", "ANSWER_BLOCKED")
_REASON = r"\(([A-Z][A-Z0-9_]*)"

Names = Sequence[str]
Column = str | pl.Expr


def key(*columns: str) -> pl.Expr:
    """Return a hash of the values of these columns of strings and times."""
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
        _if_there(names, "first_part_ms", pl.Float64),
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
        _if_there(names, "finish_reason", pl.String),
        _if_there(names, "billed_searches", pl.Int32),
        _if_there(names, "reference_exact", pl.Boolean),
        _if_there(names, "reference_contained", pl.Boolean),
        _if_there(names, "reference_f1", pl.Float64),
        *(_if_there(names, f"{kind}_tokens", pl.Int64) for kind in TOKENS),
    ]


def _if_there(names: Names, column: str, kind: type[pl.DataType]) -> pl.Expr:
    """A column that runs of earlier versions lack, and that is null there."""
    return pl.col(column) if column in names else pl.lit(None, kind).alias(column)


def _prediction() -> pl.Expr:
    return pl.col("retrieval").list.eval(finite(pl.element().struct.field("prediction"))).list.max()


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
        pl.when(pl.col("code").is_in(BLOCKED)).then(pl.col("message").str.extract(_REASON)).alias("reason"),
    ]


def _grounding_checks(_: Names) -> list[Column]:
    return [
        key("run_id", "check_id").alias("check_key"),
        key("run_id", "answer_id").alias("answer_key"),
        "run_id",
        key("question_id").alias("question_key"),
        "turn_index",
        pl.col("checked_at").dt.epoch("us").alias("checked"),
        # Only the first row of a check holds the text.
        pl.col("answer_text").hash().alias("text"),
        pl.col("support_score").alias("score"),
        "claim_score",
        "claim_index",
        "grounding_check_required",
        pl.col("citations").list.len().alias("citations"),
    ]


def _every_column(names: Names) -> list[Column]:
    return list(names)


NARROW: Mapping[str, Callable[[Names], list[Column]]] = {
    "answers": _answers,
    "support_chunks": _support_chunks,
    "claim_supports": _claim_supports,
    "failures": _failures,
    "grounding_checks": _grounding_checks,
}


def narrow(db: duckdb.DuckDBPyConnection, run: Run, schema: str, folder: str) -> None:
    """Copy a run's tables to narrow Parquet files, and create views of them in a schema of the database.

    Raises:
        UsageError: A file can't be read.
    """
    db.execute(f"CREATE SCHEMA {schema}")
    for table in TABLES:
        stem = os.path.join(folder, f"{schema}-{table}")
        narrowed = partial(_narrowed, NARROW.get(table, _every_column))
        pattern = copied(run, table, stem, narrowed, compression="lz4", row_group_size=GROUP_ROWS)
        db.execute(f"CREATE VIEW {schema}.{table} AS SELECT * FROM read_parquet('{pattern}')")


def _narrowed(columns: Callable[[Names], list[Column]], rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(columns(rows.collect_schema().names()))


def whole_rows(
    run: Run, table: str, columns: Names, key_columns: Names, keys: Collection[int]
) -> list[dict[str, Any]]:
    """Read some columns of the rows with these keys, in the files' order. A column that a file lacks is null.

    Raises:
        UsageError: A file can't be read.
    """
    found: list[dict[str, Any]] = []
    if not keys:
        return found
    wanted = pl.Series("keys", sorted(keys), dtype=pl.UInt64)
    for file in run.files[table]:
        with readable(file):
            rows = scan(file)
            there = set(rows.collect_schema().names())
            chosen = [pl.col(name) if name in there else pl.lit(None).alias(name) for name in columns]
            narrowed = rows.filter(key(*key_columns).is_in(wanted.implode()))
            found += (
                narrowed.select(key(*key_columns).alias("key"), *chosen)
                .collect(engine="streaming")
                .to_dicts()
            )
    return found
