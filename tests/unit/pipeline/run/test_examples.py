"""One example for each reason for which records failed, as the summary prints it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from groundrows.pipeline.run.examples import MOST, Example, failure_examples
from groundrows.pipeline.storage.output import Output
from tests.support.made import failure, write_rows


def output_with(directory: Path, *kept: Path) -> Output:
    return Output(str(directory), "run", tuple(map(str, kept)), datetime.now(UTC))


def test_the_first_of_each_code_the_most_frequent_first(tmp_path: Path) -> None:
    rows = [
        failure(code="RARE", origin="a:1", message="Once."),
        failure(code="OFTEN", origin="a:2", message="First."),
        failure(code="OFTEN", origin="a:3", message="Second."),
    ]
    write_rows(tmp_path / "failures" / "a.avro", rows[:2], "failures")
    write_rows(tmp_path / "failures" / "b.avro", rows[2:], "failures")
    assert failure_examples(output_with(tmp_path), {"RARE": 1, "OFTEN": 2, "NOT_THERE": 1}) == [
        Example("OFTEN", "a:2", "First."),
        Example("RARE", "a:1", "Once."),
    ]


def test_those_of_earlier_runs_are_left_out(tmp_path: Path) -> None:
    old = write_rows(tmp_path / "failures" / "a.avro", [failure(code="A", origin="old")], "failures")
    write_rows(tmp_path / "failures" / "b.avro", [failure(code="A", origin="new")], "failures")
    assert [each.origin for each in failure_examples(output_with(tmp_path, old), {"A": 1})] == ["new"]


def test_there_are_never_many(tmp_path: Path) -> None:
    codes = [f"CODE_{number:03d}" for number in range(200)]
    write_rows(tmp_path / "failures" / "a.avro", [failure(code=code) for code in codes], "failures")
    found = failure_examples(output_with(tmp_path), dict.fromkeys(codes, 1))
    assert [each.code for each in found] == codes[:MOST]


def test_without_failures_and_with_a_damaged_file_there_is_none(tmp_path: Path) -> None:
    assert failure_examples(output_with(tmp_path), {}) == []
    assert failure_examples(output_with(tmp_path), {"A": 1}) == []
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "a.avro").write_bytes(b"no rows")
    assert failure_examples(output_with(tmp_path), {"A": 1}) == []


def test_one_is_one_line_of_bounded_length_that_gives_no_orders() -> None:
    line = Example("CODE", "a\n.jsonl:1\x1b[2J", "Long.\r\n" + "x" * 5_000).line()
    assert line.startswith("CODE, as a .jsonl:1\\x1b[2J: Long. xxx")
    assert line.isprintable()
    assert len(line) < 700
