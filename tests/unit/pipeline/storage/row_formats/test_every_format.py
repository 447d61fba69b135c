"""Whoever reads or writes rows takes any format that is registered, here one that is made up."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from groundrows.pipeline.query.run import find_run
from groundrows.pipeline.report.read import whole_rows
from groundrows.pipeline.run.accounting import rows_on_disk
from groundrows.pipeline.run.append import answered_turns
from groundrows.pipeline.sinks.files import WriteRows, ensure_every_table
from groundrows.pipeline.sources.failed import FailedRecords, FailureFilter
from groundrows.pipeline.sources.formats.failure_rows import read_failure_rows
from groundrows.pipeline.storage import output
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import (
    RowFile,
    columns_of,
    count_rows,
    read_rows,
    readable_rows,
    row_files,
)
from groundrows.pipeline.storage.row_formats.avro import Avro
from groundrows.pipeline.storage.row_formats.known import FORMATS, format_of
from groundrows.pipeline.storage.row_formats.parquet import Parquet
from groundrows.pipeline.storage.row_formats.seam import RowFormat
from groundrows.pipeline.worker.batch import drop_failures, failures, measure
from groundrows.schemas.errors import RowError, UsageError
from groundrows.schemas.record import Record
from groundrows.schemas.tables import TABLES
from tests.support.made import answer, failure
from tests.support.made_up_format import Pickled
from tests.support.read_back import as_read


@pytest.fixture(params=[*FORMATS, "pickled"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Output:
    """An output whose files are of the format."""
    monkeypatch.setitem(FORMATS, "pickled", Pickled())
    return Output(str(tmp_path / "out"), "run", (), datetime.now(UTC), request.param)


def written(where: Output, *rows: Any) -> Output:
    with beam.Pipeline() as pipeline:
        pipeline | beam.Create([rows]) | WriteRows(where)
    ensure_every_table(where)
    return where


def test_formats_fit_the_seam_and_differ_in_their_suffixes(where: Output) -> None:
    formats: list[RowFormat] = [Avro(), Parquet(), Pickled()]
    assert {each.name: each for each in formats}.keys() == FORMATS.keys()
    assert len({each.suffix for each in FORMATS.values()}) == len(FORMATS)
    for name, each in FORMATS.items():
        assert name == each.name
        assert format_of(f"gs://bucket/answers/a{each.suffix}") is each


def test_a_name_of_no_format_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a\.txt is not a row file: its name must end with one of \.avro"):
        format_of("a.txt")


def test_rows_read_back_as_they_were_written(where: Output) -> None:
    rows = [answer(answer_id=str(number), warnings=("w",)) for number in range(3)]
    written(where, *rows, failure())
    (path,) = where.table_files("answers")
    assert path.endswith(where.format.suffix)
    assert count_rows(path) == 3
    assert list(read_rows(path)) == [as_read(row) for row in rows]
    columns = columns_of("answers", "answer_id", "turn_index")
    assert list(read_rows(path, columns)) == [{"answer_id": str(n), "turn_index": 0} for n in range(3)]
    assert [list(row) for row in readable_rows([path], columns, "{path}")] == [
        ["turn_index", "answer_id"]
    ] * 3
    assert rows_on_disk(where) == {**dict.fromkeys(TABLES, 0), "answers": 3, "failures": 1}
    format_of(path).check_whole(path)


def test_a_row_that_does_not_fit_is_refused(where: Output) -> None:
    os.makedirs(where.path)
    file = RowFile(os.path.join(where.path, f"a{where.format.suffix}"), "answers")
    with pytest.raises(RowError, match="turn_index"):
        file.write(answer(turn_index="one"))


def test_a_damaged_file_is_named(where: Output) -> None:
    path = os.path.join(where.path, f"a{where.format.suffix}")
    os.makedirs(where.path)
    Path(path).write_bytes(b"nonsense")
    with pytest.raises(UsageError, match=rf"^{path} broke: .+$"):
        list(readable_rows([path], None, "{path} broke: {reason}"))


def test_a_run_is_taken_up_and_added_to(where: Output) -> None:
    written(where, answer(question_id="known"), failure())
    output.finish(where, {"run_id": "run"})
    with output.claimed(where.path, overwrite=False, append=True) as appending:
        assert appending.kept_files
        assert appending.kept("answers") == row_files(where.table("answers"))
        os.makedirs(appending.scratch, exist_ok=True)
        turns = answered_turns(appending.kept("answers"), os.path.join(appending.scratch, "known.sqlite"))
        turns.close()


def test_failures_are_replayed(where: Output) -> None:
    written(where, failure(failure_id="f", record=b'{"question": "Why?"}'))
    failed = FailedRecords(where.table_files("failures"), [], [], FailureFilter(True, None, 5))
    path = os.path.join(where.path, f"replay{where.format.suffix}")
    failed.write(path)
    failed.close()
    with open(path, "rb") as file:
        (record,) = read_failure_rows(file, path)
    assert isinstance(record, Record)
    assert (record.body, len(record.history)) == (b'{"question": "Why?"}', 1)


def test_a_worker_measures_and_drops(where: Output) -> None:
    kept, dropped = failure(origin="a", failure_id="1"), failure(origin="b", failure_id="2")
    written(where, answer(grounding_score=0.5), kept, dropped)
    assert measure(where).quantiles()["grounding_score"]["p50"] == 0.5
    assert sorted(row.origin for row in failures(where)) == ["a", "b"]
    drop_failures(where, {"b"}, checks_are_records=False)
    assert list(failures(where)) == [kept]


def test_the_report_finds_and_reads_it(where: Output, tmp_path: Path) -> None:
    written(where, answer(answer_text="So it is."))
    run = find_run(where.path, str(tmp_path))
    assert {table: len(files) for table, files in run.files.items()} == dict.fromkeys(TABLES, 1)
    (file,) = run.files["answers"]
    frame = format_of(file.path).scan(file.path, 10).collect()
    assert frame["answer_text"].to_list() == ["So it is."]
    assert whole_rows(run, "answers", ("answer_text",), ("answer_id",), ()) == []
