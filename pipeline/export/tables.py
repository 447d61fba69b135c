"""Loads a run's tables into DuckDB with each row once, and selects rows by conditions."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import duckdb

from groundrows.pipeline.query.run import RowsFile, Run, copied
from groundrows.pipeline.sources.failed import FailedRecords, FailureFilter
from groundrows.pipeline.storage.row_formats.known import FORMATS
from groundrows.pipeline.storage.row_formats.names import DEFAULT
from groundrows.schemas.errors import UsageError
from groundrows.schemas.tables import TABLES


def load(db: duckdb.DuckDBPyConnection, run: Run, table: str, folder: str) -> None:
    """Create a view of a run's table, with the table's name. A row that was written twice appears once.

    Args:
        db: The database.
        run: The run.
        table: The table's name.
        folder: A folder for copies of the rows in a format that DuckDB reads.

    Raises:
        UsageError: A file can't be read.
    """
    pattern = copied(run, table, os.path.join(folder, table), compression="zstd")
    # Columns that files of earlier versions lack are null.
    source = f"read_parquet('{pattern}', union_by_name = true, filename = true, file_row_number = true)"
    key = ", ".join(("run_id", *(column for column in TABLES[table].key if column != "run_id")))
    first = f"SELECT min((filename, file_row_number)) FROM {source} GROUP BY {key}"
    (rows, distinct), *_ = db.execute(f"SELECT count(*), count(DISTINCT ({key})) FROM {source}").fetchall()
    once = ""
    if rows != distinct:
        # A join would not keep the order of the files.
        once = f" WHERE (filename, file_row_number) IN ({first}) ORDER BY filename, file_row_number"
    db.execute(f"CREATE VIEW {table} AS SELECT * EXCLUDE (filename, file_row_number) FROM {source}{once}")


def load_failed(db: duckdb.DuckDBPyConnection, run: Run, folder: str) -> None:
    """Create the view `failures` of the records that no later run answered, each record once.

    Raises:
        UsageError: A file can't be read.
    """
    files = {table: [file.path for file in run.files[table]] for table in TABLES}
    everything = FailureFilter(only_retryable=False, codes=None, max_generations=sys.maxsize)
    path = os.path.join(folder, f"failed{FORMATS[DEFAULT].suffix}")
    with closing(
        FailedRecords(files["failures"], files["answers"], files["grounding_checks"], everything)
    ) as failed:
        failed.write(path)
    load(db, replace(run, files={**run.files, "failures": (RowsFile(path, path),)}), "failures", folder)


def filtered(db: duckdb.DuckDBPyConnection, query: str, conditions: Sequence[str]) -> str:
    """Add conditions on its columns to a query.

    Raises:
        UsageError: A condition is not valid for these columns.
    """
    wanted = []
    for condition in conditions:
        try:
            # Accepts exactly one expression, so a condition can't contain another statement.
            held = str(duckdb.SQLExpression(condition))
            kind = db.sql(f"SELECT {held} AS held FROM ({query}) LIMIT 0").types[0]
            db.sql(f"SELECT * FROM ({query}) WHERE {held} LIMIT 0")
        except duckdb.Error as error:
            said = " ".join(str(error).split("\n\n")[0].split()).rstrip(".")
            raise UsageError(f"--where={condition} can't be used: {said}.") from None
        if str(kind) != "BOOLEAN":
            raise UsageError(
                f"--where={condition} is not a condition: write one that is true or false for a row, such as "
                "grounding_score < 0.5."
            )
        wanted.append(f"({held})")
    return f"SELECT * FROM ({query}) WHERE {' AND '.join(wanted)}" if wanted else query
