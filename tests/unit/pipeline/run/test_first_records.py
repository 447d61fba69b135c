"""What is said before the first call when the first records show a slip in a flag."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from groundrows.pipeline.run.first_records import common_failure, no_references
from groundrows.pipeline.sources.archive_source import Archives
from groundrows.pipeline.sources.archives import Archive, find_archives
from groundrows.pipeline.sources.formats.items import Item
from groundrows.pipeline.sources.selection import limited
from groundrows.schemas.question import RecordSettings
from tests.support.tools import is_one_sentence, write_lines

GOOD = {"id": "good", "question": "Why?"}
BAD = {"id": "bad", "text": "Why?", "team": "art"}


def items(archives: Sequence[Archive]) -> Iterator[Item]:
    return Archives((), known=tuple(archives)).items()


def said(tmp_path: Path, records: list[object], settings: RecordSettings | None = None) -> str | None:
    write_lines(tmp_path / "a.jsonl", records)
    found = common_failure(items(find_archives([str(tmp_path / "*.jsonl")])), settings or RecordSettings())
    assert found is None or is_one_sentence(found)
    return found


def test_a_hundred_without_a_question(tmp_path: Path) -> None:
    found = said(tmp_path, [BAD] * 100 + [GOOD])
    assert found is not None
    assert found.startswith("The first 100 records all fail for one reason, NO_QUESTION, as ")
    assert "a.jsonl:1: the record asks nothing" in found
    assert found.endswith(" The fields of that record are id, text, team.")


@pytest.mark.parametrize("good", [0, 50, 99])
def test_one_of_them_that_can_be_asked_is_enough(tmp_path: Path, good: int) -> None:
    assert said(tmp_path, [*[BAD] * good, GOOD, *[BAD] * (99 - good)]) is None


def test_two_reasons_are_for_the_summary(tmp_path: Path) -> None:
    assert said(tmp_path, [*[BAD] * 99, b"no JSON"]) is None


def test_the_columns_of_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("No;Frage;Team\n" + "1;Warum?;Kunst\n" * 120)
    found = common_failure(
        items(find_archives([str(tmp_path / "a.csv")])), RecordSettings(question_field="frage_text")
    )
    assert found is not None
    assert found.endswith("are No, Frage, Team.")


def test_over_several_files(tmp_path: Path) -> None:
    write_lines(tmp_path / "0.jsonl", [BAD] * 60)
    assert said(tmp_path, [BAD] * 39) is not None
    assert said(tmp_path, [BAD] * 39 + [GOOD]) is None


def test_a_limit_of_few_records_is_told_too_and_a_handful_is_not(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [BAD] * 200)
    archives = find_archives([str(tmp_path / "a.jsonl")])
    found = common_failure(items(limited(archives, 20)), RecordSettings())
    assert found is not None
    assert found.startswith("The first 20 records all fail")
    assert common_failure(items(limited(archives, 9)), RecordSettings()) is None
    assert said(tmp_path, []) is None


def test_records_that_are_none_have_no_fields(tmp_path: Path) -> None:
    found = said(tmp_path, [b"\x1b[2J no JSON"] * 100)
    assert found is not None
    assert "The fields" not in found
    assert found.isprintable()


def test_many_and_odd_fields_stay_one_line(tmp_path: Path) -> None:
    wide = {f"\x1b[2J{number}\n" + "x" * 500: 1 for number in range(500)}
    found = said(tmp_path, [json.dumps(wide).encode()] * 100)
    assert found is not None
    assert found.isprintable()
    assert len(found) < 5_000
    assert found.endswith(", ….")


def noted(tmp_path: Path, records: list[object], reference_field: str | None) -> str | None:
    write_lines(tmp_path / "a.jsonl", records)
    settings = RecordSettings(reference_field=reference_field)
    found = no_references(items(find_archives([str(tmp_path / "*.jsonl")])), settings)
    assert found is None or is_one_sentence(found)
    return found


def test_a_reference_field_that_no_record_has_is_said(tmp_path: Path) -> None:
    found = noted(tmp_path, [{"question": "Why?", "answers": ["1972"]}, BAD], "answer")
    assert found is not None
    assert "None of the first 1 questions" in found
    assert found.endswith("are question, answers.")


def test_one_record_with_reference_answers_is_enough(tmp_path: Path) -> None:
    assert noted(tmp_path, [*[GOOD] * 99, {"question": "Why?", "answer": "so"}], "answer") is None
    assert noted(tmp_path, [*[GOOD] * 100, {"question": "Why?", "answer": "so"}], "answer") is not None
    assert noted(tmp_path, [GOOD], None) is None
    assert noted(tmp_path, [BAD], "answer") is None
