"""Rows into files that appear only when they are whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pytest
from apache_beam.transforms.window import FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue

from groundrows.pipeline.sinks import files as sinks
from groundrows.pipeline.sinks.files import ensure_every_table
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import RowFile
from groundrows.schemas.errors import RowError
from groundrows.schemas.rows import Row
from groundrows.schemas.tables import TABLES
from tests.support.made import answer, failure
from tests.support.tools import rows
from tests.support.written_files import write


@pytest.fixture
def where(tmp_path: Path) -> Output:
    # Brackets, so that whatever takes the name for a pattern is found out.
    return Output(str(tmp_path / "out[x]"), "run", (), datetime.now(UTC))


def files(where: Output, table: str = "answers") -> list[str]:
    directory = Path(where.table(table))
    return sorted(os.listdir(directory)) if directory.exists() else []


def staged(where: Output) -> list[str]:
    directory = Path(where.private("staging"))
    return sorted(os.listdir(directory)) if directory.exists() else []


def ids(where: Output) -> list[str]:
    return sorted(row["question_id"] for row in rows(Path(where.path), "answers"))


def answers(count: int) -> list[Row]:
    return [answer(question_id=f"q{number:03}") for number in range(count)]


def test_every_row_is_in_a_file_once(where: Output) -> None:
    assert write(where, answers(100)) == {"answers": 100}
    assert ids(where) == [f"q{number:03}" for number in range(100)]
    assert len(files(where)) == 1
    assert staged(where) == []


def test_the_schema_and_the_codec_are_in_the_file(where: Output) -> None:
    write(where, [failure()], table="failures")
    (path,) = Path(where.table("failures")).iterdir()
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        assert reader.metadata["avro.codec"] == "deflate"
        assert fastavro.parse_schema(reader.writer_schema)["fields"] == TABLES["failures"].schema["fields"]
        assert [row["record"] for row in reader] == [b"{}"]


def test_no_rows_no_file(where: Output) -> None:
    assert write(where, []) == {}
    assert files(where) == []


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [1]), (4, [4]), (5, [1, 4]), (12, [4, 4, 4]), (13, [1, 4, 4, 4])]
)
def test_a_file_that_is_full_is_followed_by_another(where: Output, count: int, expected: list[int]) -> None:
    assert write(where, answers(count), rows_per_file=4) == {"answers": count}
    sizes = []
    for path in Path(where.table("answers")).iterdir():
        with path.open("rb") as file:
            sizes.append(len(list(fastavro.reader(file))))
    assert sorted(sizes) == expected
    assert len(ids(where)) == count


class _Look(beam.DoFn):
    """Says at the last of `count` rows which files there are, with nothing but their names to go by."""

    def __init__(self, where: Output, count: int, seen: Path) -> None:
        self._where = where
        self._count = count
        self._seen = seen
        self._passed = 0

    def process(self, row: Row) -> Iterator[Row]:
        yield row
        self._passed += 1
        if self._passed == self._count:
            self._seen.write_text(f"{len(files(self._where))} {len(staged(self._where))}")


def test_nothing_appears_before_the_last_row(where: Output, tmp_path: Path) -> None:
    # Rolled files are whole long before the end; even they wait.
    write(where, answers(10), rows_per_file=3, then=_Look(where, 10, tmp_path / "seen"))
    assert (tmp_path / "seen").read_text() == "0 4"
    assert len(files(where)) == 4


def test_a_file_under_its_final_name_is_whole_from_the_start(
    where: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def moving(source: str, target: str) -> None:
        with open(source, "rb") as file:
            found.append(len(list(fastavro.reader(file))))
        assert not os.path.exists(target)
        os.rename(source, target)

    monkeypatch.setattr(sinks, "move", moving)
    write(where, answers(10), rows_per_file=5)
    assert found == [5, 5]


def test_a_window_has_a_file_of_its_own_whose_name_says_when(where: Output) -> None:
    noon = 1_740_830_400  # 2025-03-01 12:00 UTC
    times = {"a": noon, "b": noon + 59.999, "c": noon + 60, "d": noon + 3600}
    elements = [TimestampedValue(answer(question_id=name), time) for name, time in times.items()]
    assert write(where, elements, window=FixedWindows(60)) == {"answers": 4}
    found = {}
    for path in Path(where.table("answers")).iterdir():
        with path.open("rb") as file:
            found[path.name.split("-")[1]] = sorted(row["question_id"] for row in fastavro.reader(file))
    assert found == {
        "20250301T120000Z": ["a", "b"],
        "20250301T120100Z": ["c"],
        "20250301T130000Z": ["d"],
    }


def test_full_files_of_several_windows(where: Output) -> None:
    elements = [TimestampedValue(answer(question_id=f"q{n}"), n % 2 * 60) for n in range(20)]
    assert write(where, elements, window=FixedWindows(60), rows_per_file=4) == {"answers": 20}
    windows = [name.split("-")[1] for name in files(where)]
    assert windows == ["19700101T000000Z"] * 3 + ["19700101T000100Z"] * 3
    assert len(ids(where)) == 20


class _FailAt(beam.DoFn):
    def __init__(self, question_id: str) -> None:
        self._question_id = question_id

    def process(self, row: Row) -> Iterator[Row]:
        if row.question_id == self._question_id:
            raise OSError(28, "No space left on device")
        yield row


def test_a_bundle_that_fails_publishes_nothing(where: Output) -> None:
    with pytest.raises(Exception, match="No space left"):
        write(where, answers(10), rows_per_file=2, then=_FailAt("q009"))
    assert files(where) == []
    # What was tried again leaves no trace among the rows.
    assert write(where, answers(10), rows_per_file=2) == {"answers": 10}
    assert len(ids(where)) == 10


def test_a_bundle_that_is_tried_again_counts_and_writes_once(where: Output) -> None:
    # The runner processes every bundle twice and drops what the first came to.
    assert write(where, answers(10), flags=["--direct_runner_bundle_repeat=1"]) == {"answers": 10}
    assert ids(where) == [f"q{number:03}" for number in range(10)]
    assert len(staged(where)) > 0


def test_a_row_that_does_not_fit_names_table_and_field_and_not_what_it_held(where: Output) -> None:
    with pytest.raises(RowError, match=r"answers.*latency_ms") as raised:
        write(where, [*answers(2), answer(latency_ms="secret")])
    assert "secret" not in str(raised.value)
    assert files(where) == []


def test_a_lone_surrogate_is_such_a_row_too(where: Output) -> None:
    with pytest.raises(RowError, match="answer_text"):
        write(where, [answer(answer_text="\ud800")])
    assert files(where) == []


def a_staged_file(where: Output, name: str = "answers-1.avro") -> str:
    path = where.private("staging", name)
    file = RowFile(path, "answers")
    file.write(answer())
    file.close()
    return path


def publish(where: Output, *paths: str) -> list[str]:
    return list(sinks.PublishFn(where).process(("answers", paths)))


def test_publishing_gives_the_final_name(where: Output) -> None:
    path = a_staged_file(where)
    assert publish(where, path) == [f"{where.path}/answers/answers-1.avro"]
    assert not os.path.exists(path)
    assert ids(where) == ["q"]


def test_publishing_twice_is_publishing_once(where: Output) -> None:
    paths = [a_staged_file(where, "answers-1.avro"), a_staged_file(where, "answers-2.avro")]
    # As if the worker had died half-way.
    publish(where, paths[0])
    assert publish(where, *paths) == publish(where, *paths)
    assert files(where) == ["answers-1.avro", "answers-2.avro"]
    assert staged(where) == []


def test_a_staged_file_that_is_gone_is_no_silent_loss(where: Output) -> None:
    path = a_staged_file(where)
    os.remove(path)
    with pytest.raises(FileNotFoundError, match=r"answers-1\.avro is gone"):
        publish(where, path)


@pytest.mark.parametrize(
    ("window", "part"),
    [
        (GlobalWindow(), ""),
        (IntervalWindow(0, 60), "19700101T000000Z-"),
        (IntervalWindow(-3600, 0), "19691231T230000Z-"),
        (IntervalWindow(1_740_830_400.5, 1_740_830_401), "20250301T120000Z-"),
    ],
)
def test_a_windows_part_of_the_name(window: Any, part: str) -> None:
    assert sinks._window_part(window) == part


def test_a_table_without_rows_gets_a_file_that_shows_its_columns(where: Output) -> None:
    write(where, [failure()], table="failures")
    ensure_every_table(where)
    ensure_every_table(where)
    for table in TABLES:
        assert len(files(where, table)) == 1
        with (Path(where.table(table)) / files(where, table)[0]).open("rb") as file:
            reader = fastavro.reader(file)
            assert [field["name"] for field in reader.writer_schema["fields"]] == [
                field["name"] for field in TABLES[table].schema["fields"]
            ]
            assert len(list(reader)) == (table == "failures")
    assert staged(where) == []


def test_a_disk_that_is_full_is_an_error_and_not_a_short_file(where: Output) -> None:
    directory = Path(where.private("staging"))
    directory.mkdir(parents=True)
    (directory / "answers-full.avro").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        a_staged_file(where, "answers-full.avro")
