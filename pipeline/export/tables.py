"""A run's tables in DuckDB, each row once, and the conditions under which rows are taken."""

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
    """Make a view of a run's table, under the table's name; a row that was written again is there once.

    Args:
        db: The database.
        run: The run.
        table: Which of its tables.
        folder: Where copies of the rows go that DuckDB reads.

    Raises:
        UsageError: A file can't be read.
    """
    pattern = copied(run, table, os.path.join(folder, table), compression="zstd")
    # Files of earlier versions lack columns; they are null there.
    source = f"read_parquet('{pattern}', union_by_name = true, filename = true, file_row_number = true)"
    key = ", ".join(("run_id", *(column for column in TABLES[table].key if column != "run_id")))
    first = f"SELECT min((filename, file_row_number)) FROM {source} GROUP BY {key}"
    (rows, distinct), *_ = db.execute(f"SELECT count(*), count(DISTINCT ({key})) FROM {source}").fetchall()
    once = ""
    if rows != distinct:
        # A scan keeps the files' order, and a join does not.
        once = f" WHERE (filename, file_row_number) IN ({first}) ORDER BY filename, file_row_number"
    db.execute(f"CREATE VIEW {table} AS SELECT * EXCLUDE (filename, file_row_number) FROM {source}{once}")


def load_failed(db: duckdb.DuckDBPyConnection, run: Run, folder: str) -> None:
    """Make the view `failures` of what has failed and was not made good since, each record once.

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
    """A query with conditions on its columns.

    Raises:
        UsageError: A condition is no condition on these columns.
    """
    wanted = []
    for condition in conditions:
        try:
            # Which is one expression and no further statement, and as DuckDB writes it.
            held = str(duckdb.SQLExpression(condition))
            kind = db.sql(f"SELECT {held} AS held FROM ({query}) LIMIT 0").types[0]
            db.sql(f"SELECT * FROM ({query}) WHERE {held} LIMIT 0")
        except duckdb.Error as error:
            said = " ".join(str(error).split("\n\n")[0].split()).rstrip(".")
            raise UsageError(f"--where={condition} can't be used: {said}.") from None
        if str(kind) != "BOOLEAN":
            raise UsageError(
                f"--where={condition} is no condition: write one that is true or false for a row, such as "
                "grounding_score < 0.5."
            )
        wanted.append(f"({held})")
    return f"SELECT * FROM ({query}) WHERE {' AND '.join(wanted)}" if wanted else query
