"""The index of a run: what the reader lists, filters, searches and shows, made of the row files once.

`rows.duckdb` holds a narrow table `entries` of all answers and failures, numbered in the order of the files,
over which everything is counted and sorted. `TABLE-N.parquet` holds the rows themselves with the numbers of
their entries, for the few that are shown. `words-N.sqlite` finds words in them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from queue import Queue
from threading import Thread

import duckdb
import polars as pl

from groundrows.pipeline.browse import words
from groundrows.pipeline.query.run import RowsFile, Run, empty, readable, scan
from groundrows.pipeline.storage.row_formats.known import format_of

DATABASE = "rows.duckdb"
MEMORY = "256MB"
# Rows that wait in memory to be written as one piece.
GROUP_ROWS = 8_192
# Entries whose texts are indexed together.
STEP = 5_000
# Of a text, what lists show and what may be looked for.
SHOWN = 240
LONGEST_INDEXED = 1_000_000
LONGEST_VALUE = 200

NUMBERED = ("answers", "failures")
BELONGING = ("support_chunks", "claim_supports")

ANSWER = ("run_id", "answer_id", "answered_at")
_FAILURE = ("run_id", "failure_id", "failed_at")

# Of the tables' columns those that the reader shows.
CHUNK = (
    "chunk_index",
    "chunk_text",
    "uri",
    "title",
    "domain",
    "document_id",
    "page_identifier",
    "uris_expire_at",
)
SUPPORT = ("claim_index", "claim_text", "claim_start", "claim_end", "support_score", "chunk_index")

# Columns that files of earlier versions lack, or that only some runs have, and what they are as.
OPTIONAL = {
    "service": "VARCHAR",
    "reference_answers": "VARCHAR[]",
    "reference_exact": "BOOLEAN",
    "reference_contained": "BOOLEAN",
    "reference_f1": "DOUBLE",
}

Say = Callable[[str], None]


def build(run: Run, folder: str, say: Say) -> None:
    """Make the index of a run.

    Args:
        run: The run.
        folder: An empty directory for it.
        say: Told what is being done.

    Raises:
        UsageError: A file can't be read.
    """
    scratch = os.path.join(folder, "scratch")
    os.mkdir(scratch)
    with closing(_connected(folder, scratch)) as db:
        say("reading answers")
        answers = _write_numbered(run, "answers", ANSWER, folder, 0)
        failures = _write_numbered(run, "failures", _FAILURE, folder, answers.end)
        for table, columns in (("support_chunks", CHUNK), ("claim_supports", SUPPORT)):
            say(f"reading {table.replace('_', ' ')}")
            _write_belonging(run, table, columns, folder, answers.keys)
        again = pl.concat([answers.again, failures.again])
        del answers, failures
        view_rows(db, folder, "main")
        _narrow(db, again)
        db.execute("CHECKPOINT")
        say("indexing words")
        _index_words(db, folder)
    shutil.rmtree(scratch)


def _connected(folder: str, scratch: str) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect(
        os.path.join(folder, DATABASE),
        config={
            "memory_limit": MEMORY,
            "temp_directory": os.path.join(scratch, "spill"),
            "autoinstall_known_extensions": "false",
        },
    )
    db.execute("SET enable_progress_bar = false")
    return db


def view_rows(db: duckdb.DuckDBPyConnection, folder: str, prefix: str, *, temporary: bool = True) -> None:
    """Make views of the rows in an index, named `PREFIX_TABLE`; each row has its entry's number `no`."""
    for table in (*NUMBERED, *BELONGING):
        # Files of earlier versions lack columns; they are null there.
        pattern = os.path.join(folder, f"{table}-*.parquet").replace("'", "''")
        db.execute(
            f"CREATE {'TEMP' if temporary else ''} VIEW {prefix}_{table} AS "
            f"SELECT * FROM read_parquet('{pattern}', union_by_name = true)"
        )


def _key(*columns: str) -> pl.Expr:
    return pl.concat_str(pl.col(*columns).to_physical(), separator="\x00").hash()


@dataclass(frozen=True, slots=True)
class _Numbered:
    """The numbers of rows by key, those of rows that were written again, and the first that is free."""

    keys: pl.DataFrame
    again: pl.Series
    end: int


def _write_numbered(run: Run, table: str, key: Sequence[str], folder: str, first: int) -> _Numbered:
    """Write a table's rows with their numbers."""
    keys: list[pl.DataFrame] = []
    number = first
    for file, path in _files(run, table, folder):
        with readable(file):
            rows = scan(file).with_columns(_key(*key).alias("key")).with_row_index("no", number)
            _sink(rows, path)
        keys.append(pl.read_parquet(path, columns=["no", "key"]))
        number += len(keys[-1])
    every = pl.concat(keys)
    once = every.unique("key", keep="first", maintain_order=True)
    return _Numbered(once, every.join(once, on="no", how="anti")["no"], number)


def _write_belonging(run: Run, table: str, columns: Sequence[str], folder: str, keys: pl.DataFrame) -> None:
    """Write rows that belong to answers with the answers' numbers."""
    for file, path in _files(run, table, folder):
        with readable(file):
            rows = scan(file).select(_key(*ANSWER).alias("key"), *columns)
            _sink(
                rows.join(keys.lazy(), on="key", how="inner", maintain_order="left").select("no", *columns),
                path,
            )


def _files(run: Run, table: str, folder: str) -> Iterator[tuple[RowsFile, str]]:
    """A table's files, each checked to be whole, and where its rows go."""
    # Where there is none, an empty file has the columns.
    for number, file in enumerate(run.files[table] or (empty(table, os.path.join(folder, "scratch")),)):
        with readable(file):
            format_of(file.path).check_whole(file.path)
        yield file, os.path.join(folder, f"{table}-{number:05d}.parquet")


def _sink(rows: pl.LazyFrame, path: str) -> None:
    rows.sink_parquet(path, compression="lz4", row_group_size=GROUP_ROWS)


def _narrow(db: duckdb.DuckDBPyConnection, again: pl.Series) -> None:
    there = {name for name, *_ in db.execute("DESCRIBE main_answers").fetchall()}
    lacking = "".join(f", NULL::{kind} AS {name}" for name, kind in OPTIONAL.items() if name not in there)
    db.register("again", again.to_frame("no").to_arrow())
    once = "WHERE no NOT IN (FROM again)" if len(again) else ""
    db.execute(
        f"""
        CREATE TABLE entries AS
        SELECT no::UINTEGER AS no, 'answer' AS kind, run_id, question_id, turn_index AS turn,
          candidate_index AS candidate, answer_id AS id, epoch_us(answered_at) AS moment,
          left(question, {SHOWN}) AS question, {_first_line("answer_text")} AS line,
          hash(answer_text) AS text, length(answer_text) AS length,
          {_finite("grounding_score")} AS score, {_finite("support_coverage")} AS coverage,
          claim_count AS claims, claim_count - supported_claim_count AS unsupported, chunk_count AS sources,
          len(warnings) AS warnings, {_finite("latency_ms")} AS latency, model_id AS model, service,
          reference_exact, reference_contained, {_finite("reference_f1")} AS reference_f1,
          NULL::VARCHAR AS code, NULL::VARCHAR AS stage
        FROM (SELECT *{lacking} FROM main_answers {once}) ORDER BY no
        """
    )
    db.execute(
        f"""
        INSERT INTO entries BY NAME
        SELECT no::UINTEGER AS no, 'failure' AS kind, run_id, question_id, turn_index AS turn, 0 AS candidate,
          failure_id AS id, epoch_us(failed_at) AS moment, left({_PROMPT}, {SHOWN}) AS question,
          {_first_line("message")} AS line, length(message) AS length, code, stage
        FROM (FROM main_failures {once}) ORDER BY no
        """
    )
    db.execute(
        "CREATE TABLE domains AS SELECT DISTINCT no, domain FROM main_support_chunks WHERE domain IS NOT NULL"
    )
    db.execute(
        f"""
        CREATE TABLE fields AS
        SELECT no, name, left(json_extract_string(metadata, path), {LONGEST_VALUE}) AS value,
          CASE WHEN kind IN ('BIGINT', 'UBIGINT', 'DOUBLE') THEN
            try_cast(json_extract_string(metadata, path) AS DOUBLE) END AS number
        FROM (
          SELECT *, json_type(metadata, path) AS kind FROM (
            SELECT no, metadata, name,
              '$."' || replace(replace(name, chr(92), chr(92) || chr(92)), '"', chr(92) || '"') || '"' AS path
            FROM (
              SELECT no, metadata, unnest(json_keys(metadata)) AS name
              FROM (SELECT no, metadata FROM main_answers UNION ALL SELECT no, metadata FROM main_failures)
              {once or "WHERE true"} AND json_valid(metadata) AND json_type(metadata) = 'OBJECT'
            )
          )
        )
        WHERE kind NOT IN ('NULL', 'OBJECT', 'ARRAY') ORDER BY name, no
        """
    )


# What a failure was asked, where its record is one that tells it.
_TEXT = "decode(record)"
_PROMPT = "coalesce(try(json_extract_string(decode(record), '$.question')), try(decode(record)), '')"


def _first_line(column: str) -> str:
    return f"left(split_part(ltrim({column}, chr(9) || chr(10) || chr(13) || ' '), chr(10), 1), {SHOWN})"


def _finite(column: str) -> str:
    return f"CASE WHEN isfinite({column}) THEN {column} END"


def _index_words(db: duckdb.DuckDBPyConnection, folder: str) -> None:
    """Fill the parts of the full-text index, each in a thread of its own."""
    queues: list[Queue[list[words.Document] | None]] = [Queue(2) for _ in range(words.PARTS)]
    failed: list[BaseException] = []

    def fill(number: int) -> None:
        try:
            writer = words.Writer(words.part(folder, number))
            while (documents := queues[number].get()) is not None:
                writer.add(documents)
            writer.close()
        except BaseException as error:
            failed.append(error)
            while queues[number].get() is not None:  # whoever gives must not wait for ever
                pass

    threads = [Thread(target=fill, args=(number,), daemon=True) for number in range(words.PARTS)]
    for thread in threads:
        thread.start()
    try:
        for turn, documents in enumerate(_documents(db)):
            queues[turn % words.PARTS].put(documents)
    finally:
        for queue in queues:
            queue.put(None)
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def _documents(db: duckdb.DuckDBPyConnection) -> Iterator[list[words.Document]]:
    """What is indexed, in pieces; a claim that stands in its answer is found there."""
    ((last,),) = db.execute("SELECT coalesce(max(no), -1) FROM entries").fetchall()
    for low in range(0, last + 1, STEP):
        within = f"no >= {low} AND no < {low + STEP}"
        yield db.execute(
            f"""
            SELECT no, left(question, {LONGEST_INDEXED}), left(answer_text, {LONGEST_INDEXED}),
              coalesce(claim, ''), coalesce(source, '')
            FROM (SELECT no, question, answer_text FROM main_answers WHERE {within}) LEFT JOIN (
              SELECT no, left(string_agg(claim_text, chr(10)), {LONGEST_INDEXED}) AS claim
              FROM main_claim_supports
              WHERE {within} AND claim_start IS NULL GROUP BY no
            ) USING (no) LEFT JOIN (
              SELECT no,
                left(string_agg(concat_ws(chr(10), title, chunk_text), chr(10)), {LONGEST_INDEXED}) AS source
              FROM main_support_chunks WHERE {within} GROUP BY no
            ) USING (no)
            UNION ALL
            SELECT no, left({_PROMPT}, {LONGEST_INDEXED}), left(message, {LONGEST_INDEXED}), '', ''
            FROM main_failures WHERE {within}
            ORDER BY no
            """
        ).fetchall()
