"""What `groundrows export` writes, read by the libraries that other programs use."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl.utils.escape import unescape

from groundrows.pipeline.commands.export import export
from groundrows.pipeline.export.files.csv import cell
from groundrows.pipeline.export.files.xlsx import LONGEST_TEXT, cut
from groundrows.pipeline.storage.row_files import RowFile, read_rows, row_files
from groundrows.schemas.errors import UsageError
from groundrows.schemas.failed_fields import as_it_was, marked_as_text
from groundrows.schemas.tables import TABLES
from tests.support.made import NOON, answer, failure
from tests.support.report_runs import HOSTILE, MANY_SCRIPTS, check, chunk, marked_answer, write_run
from tests.support.table_rows import later
from tests.support.tools import is_one_sentence

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://evil.example","x")']
TEXTS = [MANY_SCRIPTS, HOSTILE, 'a "quoted", comma', "two\nlines", "zero\x00less\x1b[31m", "", *FORMULAS]


def made_run(folder: Path) -> Path:
    rows: list[Any] = []
    for number, text in enumerate(TEXTS):
        rows += marked_answer(
            f"q{number}", text or "It is so.", [], question=text or "?", grounding_score=number / 20
        )
    rows += marked_answer("more", "It is so.", [("It is", True)], grounding_score=0.5)
    rows += [check(question_id="more"), failure(question_id="f", record=b'{"question": "a", "turns": ["b"]}')]
    return write_run(folder, rows)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_run(tmp_path_factory.mktemp("export") / "run")


def exported(directory: Path, target: Path, *flags: str) -> Path:
    assert export([str(directory), "-o", str(target), *flags]) == 0
    return target


def stored(directory: Path, table: str) -> list[dict[str, Any]]:
    return [row for path in row_files(str(directory / table)) for row in read_rows(path)]


def plain(value: Any) -> Any:
    """A stored value as JSON has it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


TO_BE_READ_AS_ROWS = sorted(TABLES.keys() - {"failures"})


# -- every table, every kind of file


@pytest.mark.parametrize("table", TO_BE_READ_AS_ROWS)
def test_json_lines_hold_the_rows(run: Path, tmp_path: Path, table: str) -> None:
    lines = exported(run, tmp_path / "rows.jsonl", f"--table={table}").read_text("utf-8").split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == [plain(row) for row in stored(run, table)]
    assert lines


@pytest.mark.parametrize("table", TO_BE_READ_AS_ROWS)
def test_parquet_holds_the_rows_with_their_types(run: Path, tmp_path: Path, table: str) -> None:
    path = exported(run, tmp_path / "rows.parquet", f"--table={table}")
    assert pq.read_table(path).to_pylist(maps_as_pydicts="strict") == stored(run, table)
    assert duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall() == [(len(stored(run, table)),)]


@pytest.mark.parametrize("table", TO_BE_READ_AS_ROWS)
def test_csv_holds_the_rows(run: Path, tmp_path: Path, table: str) -> None:
    text = exported(run, tmp_path / "rows.csv", f"--table={table}").read_bytes().decode("utf-8")
    header, *lines = csv.reader(io.StringIO(text, newline=""))
    assert len(lines) == len(stored(run, table)) > 0
    for line, row in zip(lines, stored(run, table), strict=True):
        for name, shown in zip(header, line, strict=True):
            value = plain(row[name])
            if isinstance(value, str):
                assert shown == marked_as_text(value)
            elif isinstance(value, bool):
                assert shown == str(value).lower()
            elif value is None:
                assert shown == ""
            else:
                assert json.loads(shown) == value


@pytest.mark.parametrize("table", TO_BE_READ_AS_ROWS)
def test_a_workbook_holds_the_rows(run: Path, tmp_path: Path, table: str) -> None:
    book = openpyxl.load_workbook(exported(run, tmp_path / "rows.xlsx", f"--table={table}"))
    assert book.sheetnames == [table]
    header, *lines = book[table].iter_rows()
    names = [head.value for head in header]
    assert len(lines) == len(stored(run, table)) > 0
    for line, row in zip(lines, stored(run, table), strict=True):
        for name, shown in zip(names, line, strict=True):
            value = row[name]
            assert shown.data_type != "f"
            assert shown.hyperlink is None
            if isinstance(value, datetime):
                assert shown.value == value.replace(tzinfo=None)
                assert "UTC" in shown.number_format
            elif isinstance(value, list | dict):
                assert json.loads(shown.value) == plain(value)
            elif isinstance(value, str) and value:
                # A workbook is XML, which has one way to end a line, and escapes what XML has not.
                assert unescape(str(shown.value)).replace("\r", "\n") == value.replace("\r", "\n")
            elif value not in ("", None, b""):
                assert shown.value == plain(value)


def test_the_name_of_the_file_tells_its_kind_unless_a_flag_does(run: Path, tmp_path: Path) -> None:
    jsonl = exported(run, tmp_path / "rows.txt", "--format=jsonl")
    assert len(jsonl.read_text("utf-8").splitlines()) >= len(stored(run, "answers"))
    assert exported(run, tmp_path / "ROWS.CSV").read_bytes().startswith(b"run_id,")


def test_a_byte_order_mark_on_request(run: Path, tmp_path: Path) -> None:
    assert (
        exported(run, tmp_path / "a.csv", "--byte_order_mark").read_bytes().startswith(b"\xef\xbb\xbfrun_id,")
    )


# -- one row an answer


def test_flat_has_an_answer_with_its_sources_and_metadata(tmp_path: Path) -> None:
    metadata = (
        '{"n": 1, "f": 0.5, "yes": true, "mixed": 1, "it\'s \\"q\\" \\\\": "x", "list": [1], "=a": null}'
    )
    run = write_run(
        tmp_path / "run",
        [
            answer(question_id="a", answer_id="a", metadata=metadata, warnings=("one", "two"), chunk_count=2),
            chunk(
                question_id="a",
                answer_id="a",
                chunk_index=1,
                title="Second",
                uri="https://b.example/",
                domain="b",
            ),
            chunk(
                question_id="a",
                answer_id="a",
                chunk_index=0,
                title=None,
                uri="https://a.example/",
                domain="b",
            ),
            answer(
                question_id="b",
                answer_id="b",
                metadata='{"n": 2, "f": 1, "mixed": "one", "big": 18446744073709551615}',
            ),
            answer(question_id="c", answer_id="c", metadata=None),
        ],
    )
    lines = exported(run, tmp_path / "flat.jsonl", "--flat").read_text("utf-8").splitlines()
    first, second, third = map(json.loads, lines)
    assert [each["question_id"] for each in (first, second, third)] == ["a", "b", "c"]
    assert (first["source_count"], first["sources"]) == (2, "https://a.example/\nSecond")
    assert (first["source_uris"], first["source_domains"]) == ("https://a.example/\nhttps://b.example/", "b")
    assert first["warnings"] == "one\ntwo"
    assert {name: value for name, value in first.items() if name.startswith("metadata.")} == {
        "metadata.n": 1,
        "metadata.f": 0.5,
        "metadata.yes": True,
        "metadata.mixed": "1",
        'metadata.it\'s "q" \\': "x",
        "metadata.list": "[1]",
        "metadata.big": None,
    }
    assert (second["metadata.n"], second["metadata.f"], second["metadata.mixed"]) == (2, 1.0, "one")
    assert second["metadata.big"] == "18446744073709551615"
    assert {third[name] for name in third if name.startswith("metadata.")} == {None}
    assert not first.keys() & {"request_json", "response_json", "metadata"}


# -- which rows


def test_a_row_that_was_written_again_is_there_once(tmp_path: Path) -> None:
    same = answer(question_id="a", answer_id="a", run_id="r")
    again = answer(question_id="a", answer_id="a", run_id="r", answered_at=later(1))
    run = write_run(tmp_path / "run", [same, again, same])
    path = exported(run, tmp_path / "rows.parquet")
    assert pq.read_table(path)["answered_at"].to_pylist() == [NOON, later(1)]


def test_conditions_hold_together(run: Path, tmp_path: Path) -> None:
    flags = ["--where=grounding_score >= 0.2", "--where=grounding_score < 0.35 -- of all"]
    found = pq.read_table(exported(run, tmp_path / "rows.parquet", *flags))["grounding_score"].to_pylist()
    wanted = [
        row["grounding_score"] for row in stored(run, "answers") if 0.2 <= row["grounding_score"] < 0.35
    ]
    assert found == wanted
    assert wanted


@pytest.mark.parametrize(
    "condition",
    [
        "nothing < 1",
        "1); DROP VIEW answers; --",
        "true; SELECT 1",
        "answer_text",
        "",
        "(",
        "count(*) > 1",
        "1, 2",
    ],
)
def test_what_is_no_condition_is_refused_in_a_sentence(run: Path, tmp_path: Path, condition: str) -> None:
    assert_refused(run, tmp_path / "rows.csv", f"--where={condition}", says="--where=")


@pytest.mark.parametrize(
    ("target", "flags", "says"),
    [
        ("rows.txt", [], "--format"),
        ("rows.csv", ["--flat", "--table=support_chunks"], "--flat"),
        ("rows.jsonl", ["--byte_order_mark"], "--byte_order_mark"),
        ("rows.csv", ["--table=nothing"], "--table"),
        ("missing/rows.csv", [], "missing"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    run: Path, tmp_path: Path, target: str, flags: list[str], says: str
) -> None:
    assert_refused(run, tmp_path / target, *flags, says=says)


def assert_refused(run: Path, target: Path, *flags: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        export([str(run), "-o", str(target), *flags])
    assert is_one_sentence(str(raised.value)), raised.value
    assert says in str(raised.value)
    assert not target.exists()


def test_a_run_that_is_not_there_and_a_missing_name(tmp_path: Path) -> None:
    for argv in ([str(tmp_path / "none"), "-o", "a.csv"], [str(tmp_path)], [str(tmp_path), "-o", "a.csv"]):
        with pytest.raises(UsageError) as raised:
            export(argv)
        assert is_one_sentence(str(raised.value)), raised.value


def test_an_older_file_stays_when_the_export_fails(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError("no space left")

    monkeypatch.setitem(export.__globals__["WRITERS"], "csv", fail)
    target = tmp_path / "rows.csv"
    target.write_text("older")
    with pytest.raises(UsageError, match="no space left"):
        export([str(run), "-o", str(target)])
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    assert target.read_text() == "older"


# -- failures


Failed = Callable[..., list[dict[str, Any]]]


def failed(directory: Path, target: Path, *flags: str) -> list[dict[str, Any]]:
    lines = exported(directory, target, "--table=failures", *flags).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_failures_are_records_that_say_why(tmp_path: Path) -> None:
    record = {"question": "=a?", "turns": ["b"], "n": 1}
    rows = [
        failure(
            failure_id="1",
            question_id="1",
            code="C",
            message="So.",
            origin="a:1",
            record=json.dumps(record).encode(),
        ),
        failure(failure_id="2", question_id="2", code="D", message="No.", origin="a:2", record=b"{\xff"),
    ]
    run = write_run(tmp_path / "run", rows)
    first, second = failed(run, tmp_path / "failed.jsonl")
    assert first == {
        "groundrows_failure": "C: So.",
        "groundrows_origin": "a:1",
        **record,
        "groundrows_record": None,
    }
    assert second["groundrows_record"] == "{\ufffd"
    assert as_it_was(first) == record
    path = exported(run, tmp_path / "failed.csv", "--table=failures", "--where=code = 'C'")
    ((line),) = csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""))
    assert as_it_was(dict(line)) == {"question": "=a?", "turns": '["b"]', "n": "1"}


def test_what_was_made_good_since_is_left_out(tmp_path: Path) -> None:
    rows = [
        failure(failure_id="1", question_id="1", run_id="r1", record=b'{"question": "a"}', stage="generate"),
        failure(failure_id="2", question_id="2", run_id="r1", record=b'{"question": "b"}', stage="generate"),
        answer(question_id="1", run_id="r2", answered_at=later(1)),
    ]
    (only,) = failed(write_run(tmp_path / "run", rows), tmp_path / "failed.jsonl")
    assert only["question"] == "b"


def test_a_run_without_failures_gives_a_file_without_rows(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [answer(question_id="1")])
    assert failed(run, tmp_path / "failed.jsonl") == []
    assert exported(run, tmp_path / "failed.csv", "--table=failures").read_text() == (
        "groundrows_failure,groundrows_origin\n"
    )


# -- the rules of spreadsheets


@given(text=st.text(min_size=1))
def test_no_cell_of_csv_is_a_formula(text: str) -> None:
    shown = cell(text)
    assert not shown.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert shown in (text, f"'{text}")
    assert as_it_was({"groundrows_failure": "", "a": shown})["a"] == text or text.startswith("'")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(count=st.integers(LONGEST_TEXT - 3, LONGEST_TEXT + 3), unit=st.sampled_from(["a", "é", "🏛", "\u0301"]))
def test_a_cell_of_a_workbook_is_cut_with_a_mark(count: int, unit: str) -> None:
    text = unit * (count // (len(unit.encode("utf-16-le")) // 2))
    shown = cut(text)
    assert len(shown.encode("utf-16-le")) // 2 <= LONGEST_TEXT
    if len(text.encode("utf-16-le")) // 2 <= LONGEST_TEXT:
        assert shown == text
    else:
        kept, mark, rest = shown.partition("… [cut: ")
        assert text.startswith(kept)
        assert mark
        assert rest == f"{len(text):,} characters]"


def test_rows_keep_the_order_of_the_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "answers").mkdir(parents=True)
    for number in range(4):
        file = RowFile(str(run / "answers" / f"part-{number}.avro"), "answers")
        for row in range(1_000):
            file.write(answer(question_id=f"{number}-{row}", answer_id=f"{number}-{row}"))
        file.close()
    wanted = [row["question_id"] for row in stored(run, "answers")]
    for flags in ([], ["--flat"]):
        table = pq.read_table(exported(run, tmp_path / "rows.parquet", *flags))
        assert table["question_id"].to_pylist() == wanted
    assert len(wanted) == 4_000
