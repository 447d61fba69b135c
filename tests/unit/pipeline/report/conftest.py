"""A database over the rows that a test makes up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from groundrows.pipeline.query.run import Run, find_run, opened
from groundrows.pipeline.report.read import narrow
from groundrows.schemas.rows import Row
from tests.support.report_runs import write_run

Loaded = tuple[duckdb.DuckDBPyConnection, Run]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., Loaded]]:
    """Rows -> the database that holds them as the schema in use, and the run that they are of."""
    (tmp_path / "narrowed").mkdir()
    with closing(opened(str(tmp_path))) as db:

        def load(rows: Iterable[Row], schema: str = "this") -> Loaded:
            run = find_run(str(write_run(tmp_path / schema, rows)), str(tmp_path / "narrowed"))
            narrow(db, run, schema, str(tmp_path / "narrowed"))
            db.execute(f"SET schema = '{schema}'")
            return db, run

        yield load
