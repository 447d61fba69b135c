"""Rows into files that appear only when they are whole."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from groundrows.pipeline.storage.output import Output
from groundrows.schemas.rows import Row
from tests.support.made import answer
from tests.support.tools import rows
from tests.support.written_files import write


@pytest.fixture
def where(tmp_path: Path) -> Output:
    # Brackets, so that whatever takes the name for a pattern is found out.
    return Output(str(tmp_path / "out[x]"), "run", (), datetime.now(UTC))


def ids(where: Output) -> list[str]:
    return sorted(row["question_id"] for row in rows(Path(where.path), "answers"))


def answers(count: int) -> list[Row]:
    return [answer(question_id=f"q{number:03}") for number in range(count)]


def test_workers_in_processes_of_their_own_make_files_of_their_own(where: Output) -> None:
    two = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    assert write(where, answers(20), flags=two) == {"answers": 20}
    assert len(ids(where)) == 20
