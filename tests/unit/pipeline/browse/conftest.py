"""A run that a test makes up, opened for reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from groundrows.pipeline.browse.shelf import Shelf
from groundrows.pipeline.query.run import find_run
from groundrows.schemas.rows import Row
from tests.support.report_runs import write_run

Opened = Callable[..., Shelf]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Rows, and those of an earlier run if there is one -> the shelf that they are read from."""
    with ExitStack() as stack:

        def opened(rows: Iterable[Row], earlier: Iterable[Row] | None = None) -> Shelf:
            run = find_run(str(write_run(tmp_path / "run", rows)), str(tmp_path))
            before = None
            if earlier is not None:
                before = find_run(str(write_run(tmp_path / "earlier", earlier)), str(tmp_path))
            return stack.enter_context(Shelf(run, before, lambda _: None))

        yield opened
