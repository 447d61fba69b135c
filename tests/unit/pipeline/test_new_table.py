"""A table that is registered has all that a table has: here one that is made up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import fastavro
import pytest

from groundrows.pipeline.deploy.reference import tables_page
from groundrows.pipeline.query.run import find_run
from groundrows.pipeline.run.accounting import account, counters_of, rows_on_disk
from groundrows.pipeline.sinks.files import WriteRows, ensure_every_table
from groundrows.pipeline.sinks.views import views
from groundrows.pipeline.storage import output
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import columns_of
from groundrows.schemas import avsc, rows, tables
from groundrows.schemas.encoding import record_put
from groundrows.schemas.tables import TABLES, Table, tables_made_by
from groundrows.schemas.warehouse import json_row, row_dict, row_id, table_layout, table_schema
from tests.support.table_rows import NOON, row_of

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "verdicts",
    "namespace": "groundrows",
    "doc": "A row per verdict of a person.",
    "fields": [
        {"name": "run_id", "type": "string", "doc": "The run."},
        {"name": "question_id", "type": "string", "doc": "The question."},
        {"name": "turn_index", "type": "int", "doc": "The turn."},
        {"name": "verdict", "type": ["null", "string"], "default": None, "doc": "What the person says."},
        {
            "name": "given_at",
            "type": {"type": "long", "logicalType": "timestamp-micros"},
            "doc": "When the person said so.",
        },
    ],
}


@dataclass(frozen=True, slots=True)
class VerdictRow:
    TABLE: ClassVar[str] = "verdicts"

    run_id: str
    question_id: str
    turn_index: int
    verdict: str | None
    given_at: datetime


@pytest.fixture(autouse=True)
def _registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody does who adds a table: the schema's file, the row's class, the entry."""
    directory = tmp_path / "schemas"
    directory.mkdir()
    for name in TABLES:
        (directory / f"{name}.avsc").write_text(avsc.DIRECTORY.joinpath(f"{name}.avsc").read_text("utf-8"))
    (directory / "verdicts.avsc").write_text(json.dumps(SCHEMA))
    monkeypatch.setattr(avsc, "DIRECTORY", directory)
    kind: Any = VerdictRow
    monkeypatch.setitem(rows._PUTS, kind, record_put(kind, avsc.schema_of("verdicts"), {}))
    table = Table(kind, ("question_id", "turn_index", "given_at"), "given_at", frozenset(("outcomes",)))
    monkeypatch.setitem(tables._DECLARED, "verdicts", table)


def verdict(**columns: Any) -> Any:
    kind: Any = VerdictRow
    return row_of(kind, **columns)


def test_it_has_files_that_are_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    with output.claimed(path, overwrite=False, append=False) as where:
        pipeline = beam.Pipeline()
        pipeline | beam.Create([(verdict(question_id="q", verdict="right"),)]) | WriteRows(where)
        result = pipeline.run()
        result.wait_until_finish()
        (file,) = where.table_files("verdicts")
        with open(file, "rb") as opened:
            (row,) = fastavro.reader(opened)
        assert row == {
            "run_id": "",
            "question_id": "q",
            "turn_index": 0,
            "verdict": "right",
            "given_at": NOON,
        }
        assert rows_on_disk(where)["verdicts"] == 1
        assert account(counters_of(result)).rows["verdicts"] == 1
        ensure_every_table(where)
        output.finish(where, {"run_id": where.run_id})
    with output.claimed(path, overwrite=False, append=True) as where:
        assert where.kept("verdicts") == [file]
    assert [each.name for each in find_run(path, str(tmp_path)).files["verdicts"]] == [file]


def test_without_rows_it_has_an_empty_file(tmp_path: Path) -> None:
    where = Output(str(tmp_path / "out"), "run", (), datetime.now(UTC))
    ensure_every_table(where)
    assert rows_on_disk(where) == dict.fromkeys(TABLES, 0)
    assert len(where.table_files("verdicts")) == 1


def test_it_is_in_bigquery() -> None:
    assert [column["name"] for column in table_schema("verdicts")["fields"]] == [
        field["name"] for field in SCHEMA["fields"]
    ]
    assert table_layout("verdicts") == {
        "timePartitioning": {"type": "DAY", "field": "given_at"},
        "clustering": {"fields": ["question_id"]},
    }
    row = verdict(question_id="q")
    assert row_dict(row)["given_at"] == NOON
    assert row_id("verdicts", json_row(row)) == f"q/0/{NOON.isoformat()}"


def test_it_has_a_view_that_takes_each_row_once() -> None:
    assert (
        "PARTITION BY question_id, turn_index ORDER BY given_at DESC, run_id"
        in views(None)["verdicts_latest"]
    )


def test_it_is_documented_and_read_by_its_columns() -> None:
    assert "## verdicts" in tables_page()
    assert "| `verdict` | string, nullable | What the person says. |" in tables_page()
    names = [field["name"] for field in columns_of("verdicts", "verdict", "run_id")["fields"]]
    assert names == ["run_id", "verdict"]


def test_it_is_among_the_tables_of_whoever_makes_it() -> None:
    assert "verdicts" in tables_made_by("outcomes")
    assert "verdicts" not in tables_made_by("checks")
