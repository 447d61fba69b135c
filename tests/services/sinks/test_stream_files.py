"""Rows of a stream into files: no row is too late, and no file takes another's place."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pytest
from apache_beam.pipeline import PipelineVisitor
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundrows.pipeline.sinks import files as sinks
from groundrows.pipeline.sinks.files import PublishFn, WriteRows, staged_file
from groundrows.pipeline.sinks.stream_files import WriteStream
from groundrows.pipeline.storage.output import Output
from groundrows.pipeline.storage.row_files import RowFile, read_rows
from groundrows.schemas.rows import Row
from tests.support.cloud import CloudStorage, cloud_storage
from tests.support.made import answer, failure
from tests.support.streams import LATE, Come, Event, Wait, Watermark, arrivals, clock, play, schedules
from tests.support.tools import rows

NAME = re.compile(r"(\w+)-(\d{8}T\d{6}Z)-shard(\d+)of(\d+)-pane[0-9a-f]{32}\.avro")


@pytest.fixture
def where(tmp_path: Path) -> Output:
    return output_at(tmp_path)


def output_at(path: Path) -> Output:
    return Output(str(path / "out"), "run", (), datetime.now(UTC))


def group(number: int) -> tuple[Row, ...]:
    """An answer, and a failure with every third."""
    row = answer(question_id=f"q{number}")
    return (row, failure(question_id=f"q{number}")) if number % 3 == 0 else (row,)


def write(events: Sequence[Event], where: Output, shards: int = 1, **given: Any) -> None:
    play(events, group, lambda groups: groups | files(where, shards=shards, **given))


def files(where: Output, **given: Any) -> WriteStream:
    return WriteStream(where, **({"window_seconds": 60, "clock": clock} | given))


def names(where: Output, table: str = "answers") -> list[str]:
    directory = Path(where.table(table))
    return sorted(os.listdir(directory)) if directory.exists() else []


def parts(where: Output, table: str = "answers") -> list[tuple[str, str, str]]:
    """Window, shard and number of shards of a table's files, as their names say."""
    found = [NAME.fullmatch(name) for name in names(where, table)]
    return [match.group(2, 3, 4) for match in found if match]


def check_all_there(where: Output, count: int) -> None:
    """Every row is on disk once, in files that say what they are, and nothing else is left."""
    for table, numbers in (("answers", range(count)), ("failures", range(0, count, 3))):
        found = sorted(row["question_id"] for row in rows(Path(where.path), table))
        assert found == sorted(f"q{number}" for number in numbers)
        assert all(NAME.fullmatch(name) for name in names(where, table)), names(where, table)
    staging = Path(where.private("staging"))
    assert not staging.exists() or list(staging.iterdir()) == []


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_no_row_is_lost(where: Output, shards: int) -> None:
    write(LATE, where, shards)
    check_all_there(where, arrivals(LATE))


def test_files_are_of_the_format_that_is_asked_for(where: Output) -> None:
    write(LATE, replace(where, row_format="parquet"))
    assert all(name.endswith(".parquet") for name in names(where))
    found = [row["question_id"] for path in where.table_files("answers") for row in read_rows(path)]
    assert sorted(found) == sorted(f"q{number}" for number in range(arrivals(LATE)))


def test_windows_of_the_rows_own_times_would_lose_some(tmp_path: Path) -> None:
    # So that the schedule does put to the test what it is here for.
    where = output_at(tmp_path)
    play(LATE, group, lambda groups: groups | beam.WindowInto(FixedWindows(60)) | WriteRows(where))
    assert 0 < len(rows(Path(where.path), "answers")) < arrivals(LATE)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedules(), st.sampled_from([1, 2, 4]), st.sampled_from([1, 3, 1000]))
def test_no_row_is_lost_whatever_comes_when(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], shards: int, groups_per_pane: int
) -> None:
    where = output_at(tmp_path_factory.mktemp("schedule"))
    write(events, where, shards, groups_per_pane=groups_per_pane)
    check_all_there(where, arrivals(events))


def test_the_input_may_have_windows_already(where: Output) -> None:
    def steps(groups: Any) -> Any:
        return groups | beam.WindowInto(FixedWindows(60)) | files(where, shards=2)

    play(LATE, group, steps)
    check_all_there(where, arrivals(LATE))


def test_gathering_knows_no_windows_whatever_the_input_has(where: Output) -> None:
    # This runner forgives gathering in windows; one that drops what is late for them would lose rows.
    class Visitor(PipelineVisitor):
        def enter_composite_transform(self, node: Any) -> None:
            if node.full_label.endswith("/Gather"):
                gathered.extend(node.inputs)

    gathered: list[Any] = []
    pipeline = beam.Pipeline()
    groups = pipeline | beam.Create([group(0)]) | beam.WindowInto(FixedWindows(60))
    groups | files(where)
    pipeline.visit(Visitor())
    assert [each.windowing.windowfn for each in gathered] == [GlobalWindows()]


# -- when ----------------------------------------------------------------------------------------------------


def test_each_window_has_a_file_whose_name_says_when(where: Output) -> None:
    write([event for n in range(4) for event in (Come((n, n + 1)), Wait(61))], where)
    check_all_there(where, 8)
    # What came in a window's first seconds is written in the next one's.
    assert parts(where) == [(f"20250301T120{pane + 1}00Z", "0", "1") for pane in range(4)]


def test_a_panes_files_have_its_name_in_every_table(where: Output) -> None:
    write([Come((1, 2, 3, 4)), Wait(61), Come((5, 6))], where)
    tails = [{name.partition("-")[2] for name in names(where, table)} for table in ("answers", "failures")]
    assert len(tails[0]) == 2
    assert tails[1] <= tails[0]


def test_a_pane_that_is_full_does_not_wait(where: Output) -> None:
    write([Come((1,)), Come((2,)), Come((3, 4, 5))], where, groups_per_pane=2)
    check_all_there(where, 5)
    assert parts(where) == [("20250301T120000Z", "0", "1")] * 3


def test_nothing_comes_of_an_idle_stream(where: Output) -> None:
    write([Wait(3600), Watermark(5_000), Wait(3600)], where)
    assert not Path(where.path).exists()
    write([Come((1,)), Wait(61), Wait(3600), Watermark(5_000), Wait(3600)], where)
    assert len(names(where)) == 1


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_a_window_has_as_many_files_as_shards_at_most(where: Output, shards: int) -> None:
    write([Come(tuple(range(40))), Come(tuple(range(40))), Wait(61)], where, shards)
    check_all_there(where, 80)
    assert parts(where) == [("20250301T120100Z", str(shard), str(shards)) for shard in range(shards)]


class _Look(beam.DoFn):
    """Notes at every group how many files there are by then."""

    def __init__(self, where: Output, seen: Path) -> None:
        self._where = where
        self._seen = seen

    def process(self, rows: Any) -> Iterator[Any]:
        with self._seen.open("a") as file:
            file.write(f"{len(names(self._where))} ")
        yield rows


def test_files_appear_while_the_stream_goes_on(where: Output, tmp_path: Path) -> None:
    def steps(groups: Any) -> Any:
        return groups | beam.ParDo(_Look(where, tmp_path / "seen")) | files(where)

    play([Come((1,)), Wait(30), Come((2,)), Wait(31), Come((3,)), Wait(61), Come((4,))], group, steps)
    assert (tmp_path / "seen").read_text().split() == ["0", "0", "1", "2"]


# -- tried again ---------------------------------------------------------------------------------------------


def test_a_pane_whose_writing_is_tried_again_is_published_once(
    where: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([OSError(28, "No space left on device")])
    close = RowFile.close

    def closing(file: RowFile) -> None:
        close(file)
        for error in failures:
            raise error

    monkeypatch.setattr(RowFile, "close", closing)
    write([Come((1, 2, 3)), Wait(61), Come((4,))], where)
    # What the first attempt wrote is there still, and is nobody's.
    left = list(Path(where.private("staging")).iterdir())
    assert left
    for file in left:
        file.unlink()
    check_all_there(where, 4)


@pytest.mark.parametrize("moved", [False, True])
def test_a_file_whose_move_is_tried_again_is_there_once(
    where: Output, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    failures = iter([OSError(5, "Input/output error")])

    def moving(source: str, target: str) -> None:
        assert not os.path.exists(target)
        for error in failures:
            if moved:
                os.rename(source, target)
            raise error
        os.rename(source, target)

    monkeypatch.setattr(sinks, "move", moving)
    write([Come((1, 2, 3)), Wait(61), Come((4,))], where)
    check_all_there(where, 4)


def test_a_file_is_whole_when_it_gets_its_name(where: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def moving(source: str, target: str) -> None:
        with open(source, "rb") as file:
            found.append(len(list(fastavro.reader(file))))
        assert not os.path.exists(target)
        os.rename(source, target)

    monkeypatch.setattr(sinks, "move", moving)
    write([Come((1, 2)), Wait(61), Come((4,))], where)
    assert sorted(found) == [1, 1, 2]


# -- in Cloud Storage, where a move is a copy and a delete ---------------------------------------------------


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[CloudStorage]:
    with cloud_storage(tmp_path / "bucket") as storage:
        yield storage


def ids_in(bucket: CloudStorage, table: str) -> list[str]:
    objects = [io.BytesIO(bucket.get(name)) for name in bucket.names(f"out/{table}/")]
    return sorted(row["question_id"] for file in objects for row in fastavro.reader(file))


def test_no_row_is_lost_in_cloud_storage(bucket: CloudStorage) -> None:
    where = Output(bucket.url("out"), "run", (), datetime.now(UTC))
    write(LATE, where, 2)
    count = arrivals(LATE)
    assert ids_in(bucket, "answers") == sorted(f"q{number}" for number in range(count))
    assert ids_in(bucket, "failures") == sorted(f"q{number}" for number in range(0, count, 3))
    assert bucket.names("out/.groundrows/staging/") == []


def test_a_move_that_was_cut_off_between_copy_and_delete_is_taken_up(bucket: CloudStorage) -> None:
    where = Output(bucket.url("out"), "run", (), datetime.now(UTC))
    file = staged_file(where, "answers", "1")
    file.write(answer(question_id="q0"))
    file.close()
    bucket.put("out/answers/answers-1.avro", bucket.get("out/.groundrows/staging/answers-1.avro"))
    for _ in range(2):
        assert list(PublishFn(where).process(("answers", [file.path]))) == [
            bucket.url("out/answers/answers-1.avro")
        ]
        assert ids_in(bucket, "answers") == ["q0"]
        assert bucket.names("out/.groundrows/staging/") == []
