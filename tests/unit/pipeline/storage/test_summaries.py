"""What each finished run said of itself, and what a run that found nothing to do leaves as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundrows.pipeline.storage import output, summaries
from tests.support.tools import files_below


def put_rows(directory: Path) -> None:
    (directory / "answers").mkdir(parents=True, exist_ok=True)
    (directory / "answers/a.avro").write_bytes(b"rows")


def finish(directory: Path, *, append: bool = False, overwrite: bool = False, again: bool = False) -> str:
    with output.claimed(str(directory), overwrite=overwrite, append=append) as claimed:
        put_rows(directory)
        output.finish(claimed, {"run_id": claimed.run_id}, again=again)
    return claimed.run_id


def kept(directory: Path) -> set[str]:
    return {path.name for path in (directory / "runs").glob("*")} if (directory / "runs").exists() else set()


def test_each_runs_summary_stays(tmp_path: Path) -> None:
    runs = [finish(tmp_path), finish(tmp_path, append=True), finish(tmp_path, append=True)]
    assert kept(tmp_path) == {f"{run_id}.json" for run_id in runs}
    for run_id in runs:
        assert json.loads((tmp_path / "runs" / f"{run_id}.json").read_bytes()) == {"run_id": run_id}
    assert json.loads((tmp_path / "run.json").read_bytes()) == {"run_id": runs[-1]}
    assert summaries.count(str(tmp_path)) == 3


def test_replacing_the_rows_replaces_the_summaries(tmp_path: Path) -> None:
    finish(tmp_path)
    finish(tmp_path, append=True)
    last = finish(tmp_path, overwrite=True)
    assert kept(tmp_path) == {f"{last}.json"}


def test_a_directory_of_the_first_versions_gets_the_summary_that_it_lacks(tmp_path: Path) -> None:
    put_rows(tmp_path)
    (tmp_path / "run.json").write_bytes(b'{"run_id": "old", "answered": 7}')
    new = finish(tmp_path, append=True)
    assert kept(tmp_path) == {"old.json", f"{new}.json"}
    assert (tmp_path / "runs/old.json").read_bytes() == b'{"run_id": "old", "answered": 7}'


@pytest.mark.parametrize(
    "text", [b"[]", b"no JSON", b"{}", b'{"run_id": "../../escaped"}', b'{"run_id": 7}', b""], ids=repr
)
def test_a_summary_without_a_name_that_could_be_a_files_is_not_kept(tmp_path: Path, text: bytes) -> None:
    directory = tmp_path / "a" / "b"
    put_rows(directory)
    (directory / "run.json").write_bytes(text)
    new = finish(directory, append=True)
    assert kept(directory) == {f"{new}.json"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_a_run_that_found_nothing_to_do_leaves_all_as_it_was(tmp_path: Path) -> None:
    finish(tmp_path)
    finish(tmp_path, append=True)
    before = files_below(tmp_path)
    with output.claimed(str(tmp_path), overwrite=False, append=True) as claimed:
        assert not output.is_finished(str(tmp_path))
        assert output.finish_unchanged(claimed)
    assert files_below(tmp_path) == before


def test_a_run_that_was_stopped_and_then_finds_nothing_leaves_all_as_it_was(tmp_path: Path) -> None:
    finish(tmp_path)
    before = files_below(tmp_path)
    with output.claimed(str(tmp_path), overwrite=False, append=True):
        pass
    with output.claimed(str(tmp_path), overwrite=False, append=True) as claimed:
        assert output.finish_unchanged(claimed)
    assert files_below(tmp_path) == before


def test_in_a_new_directory_there_is_nothing_to_put_back(tmp_path: Path) -> None:
    with output.claimed(str(tmp_path), overwrite=False, append=False) as claimed:
        assert not output.finish_unchanged(claimed)
        assert output.is_under_way(str(tmp_path))


def test_a_run_that_finishes_several_times_under_one_name_has_as_many_summaries(tmp_path: Path) -> None:
    for answered in (1, 2, 3):
        summaries.write(str(tmp_path), "worker", {"answered": answered}, again=True)
    assert kept(tmp_path) == {"worker.json", "worker.2.json", "worker.3.json"}
    assert json.loads((tmp_path / "runs/worker.3.json").read_bytes()) == {"answered": 3}
    assert json.loads((tmp_path / "runs/worker.json").read_bytes()) == {"answered": 1}
    # A kill between the two files, and the run finished a second time: that is the same end of it.
    summaries.write(str(tmp_path), "archives", {"answered": 4})
    summaries.write(str(tmp_path), "archives", {"answered": 4})
    assert "archives.2.json" not in kept(tmp_path)


def test_what_run_json_said_before(tmp_path: Path) -> None:
    run_id = finish(tmp_path)
    assert summaries.earlier(str(tmp_path)) is None
    with output.claimed(str(tmp_path), overwrite=False, append=True):
        assert summaries.earlier(str(tmp_path)) == {"run_id": run_id}
    (tmp_path / ".groundrows/earlier.json").write_bytes(b"no JSON")
    assert summaries.earlier(str(tmp_path)) is None
