"""A worker goes on in its own directory, keeps every row there, and is kept out of others'."""

import json

import pytest

from groundrows.pipeline.storage import output
from groundrows.pipeline.storage import worker_directory as directory
from groundrows.schemas.errors import UsageError
from tests.support.made import answer, write_rows
from tests.support.tools import files_below, is_one_sentence


def check(path, **flags):
    directory.check(str(path), **{"overwrite": False, "append": False, **flags})


def refused(path, **flags) -> str:
    with pytest.raises(UsageError) as caught:
        check(path, **flags)
    assert is_one_sentence(str(caught.value))
    return str(caught.value)


def test_a_worker_that_was_killed_goes_on_and_keeps_its_rows(tmp_path):
    path = tmp_path / "out"
    check(path)
    assert not path.exists()
    with directory.claimed(str(path), append=False) as first:
        rows = write_rows(path / "answers" / "answers-1.avro", [answer()])
        half = path / ".groundrows" / "staging" / "batch-1" / "answers" / "answers-2.avro"
        write_rows(half, [answer()])
    check(path)
    with directory.claimed(str(path), append=False) as second:
        assert second.run_id == first.run_id
        assert second.started_at == first.started_at
        assert second.kept_files == (str(rows),)
    assert rows.exists()
    assert not half.exists()


def test_a_worker_that_has_finished_goes_on_too(tmp_path):
    with directory.claimed(str(tmp_path), append=False) as first:
        output.finish(first, {"balanced": True})
    rows = write_rows(tmp_path / "answers" / "answers-1.avro", [answer()])
    check(tmp_path)
    assert (tmp_path / "run.json").exists()
    with directory.claimed(str(tmp_path), append=False) as second:
        assert second.run_id == first.run_id
        assert not (tmp_path / "run.json").exists()
    assert rows.exists()


def test_overwriting_is_refused(tmp_path):
    assert "--overwrite" in refused(tmp_path, overwrite=True)


def test_a_finished_run_over_archives_is_added_to_only_on_request(tmp_path):
    with output.claimed(str(tmp_path), overwrite=False, append=False) as archives:
        rows = write_rows(tmp_path / "answers" / "answers-1.avro", [answer()])
        output.finish(archives, {})
    before = files_below(tmp_path)
    assert "--append" in refused(tmp_path)
    assert files_below(tmp_path) == before
    check(tmp_path, append=True)
    with directory.claimed(str(tmp_path), append=True) as worker:
        assert worker.run_id != archives.run_id
        assert worker.kept_files == (str(rows),)
    check(tmp_path)  # it is the worker's now


@pytest.mark.parametrize("append", [False, True])
def test_a_stopped_run_over_archives_is_left_alone(tmp_path, append):
    with output.claimed(str(tmp_path), overwrite=False, append=False):
        pass
    assert "stopped" in refused(tmp_path, append=append)


def test_a_run_over_archives_does_not_take_a_killed_worker_for_a_stopped_run(tmp_path):
    with directory.claimed(str(tmp_path), append=False):
        rows = write_rows(tmp_path / "answers" / "answers-1.avro", [answer()])
    with (
        pytest.raises(UsageError, match="holds rows"),
        output.claimed(str(tmp_path), overwrite=False, append=False),
    ):
        pass
    assert rows.exists()


def test_one_worker_at_a_time(tmp_path):
    with directory.claimed(str(tmp_path), append=False):
        with pytest.raises(UsageError, match="another run"), directory.claimed(str(tmp_path), append=False):
            pass
        with (
            pytest.raises(UsageError, match="another run"),
            output.claimed(str(tmp_path), overwrite=True, append=False),
        ):
            pass


@pytest.mark.parametrize(
    "mark",
    [
        "{",
        "[]",
        json.dumps({"run_id": "", "started_at": "2025-03-01T12:00:00+00:00"}),
        json.dumps({"run_id": "a", "started_at": "yesterday"}),
        json.dumps({"run_id": "a"}),
    ],
)
def test_a_damaged_mark_is_named(tmp_path, mark):
    (tmp_path / ".groundrows").mkdir()
    (tmp_path / ".groundrows" / "worker.json").write_text(mark)
    assert "worker.json is damaged" in refused(tmp_path)


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "out").write_text("a file")
    assert "--output=" in refused(tmp_path / "out")


def test_a_worker_adds_rows_in_the_format_that_is_there(tmp_path):
    with directory.claimed(str(tmp_path), append=False, row_format="parquet") as first:
        assert first.row_format == "parquet"
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "answers-1.parquet").write_bytes(b"")
    with directory.claimed(str(tmp_path), append=False) as second:
        assert second.row_format == "parquet"
    assert "holds rows as parquet" in refused(tmp_path, row_format="avro")
