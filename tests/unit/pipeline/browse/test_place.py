"""An index is made once, is whole or not there, and is made anew when the files are others."""

import fcntl
import os
from pathlib import Path

import pytest

from groundrows.pipeline.browse import place
from groundrows.pipeline.query.run import find_run
from tests.support.made import answer
from tests.support.report_runs import write_run


@pytest.fixture
def run(tmp_path):
    return find_run(str(write_run(tmp_path / "run", [answer()])), str(tmp_path))


def test_the_name_tells_of_the_files(run, tmp_path):
    name = place.name_of(run)
    assert place.name_of(find_run(run.directory, str(tmp_path))) == name
    file = Path(run.files["answers"][0].path)
    os.utime(file, ns=(1, 1))
    touched = place.name_of(run)
    file.write_bytes(file.read_bytes() + b"\0")
    os.utime(file, ns=(1, 1))
    longer = place.name_of(run)
    file.rename(file.with_name("another.avro"))
    renamed = place.name_of(find_run(run.directory, str(tmp_path)))
    assert len({name, touched, longer, renamed}) == 4


def test_it_is_made_once(tmp_path):
    made = []

    def make(folder):
        made.append(folder)
        Path(folder, "whole").write_text("x")

    for _ in range(2):
        with place.kept(str(tmp_path), "name", make) as folder:
            assert Path(folder, "whole").read_text() == "x"
            assert folder == str(tmp_path / "name")
    assert len(made) == 1


def test_what_breaks_off_is_not_there(tmp_path):
    def make(folder):
        Path(folder, "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), place.kept(str(tmp_path), "name", make):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_index_of_files_that_were_is_removed_unless_it_is_in_use(tmp_path):
    def make(folder):
        Path(folder, "whole").write_text("x")

    with place.kept(str(tmp_path), "old", make), place.kept(str(tmp_path), "new", make):
        assert (tmp_path / "old" / "whole").exists()
    with place.kept(str(tmp_path), "new", make):
        assert not (tmp_path / "old").exists()


def test_what_a_killed_process_left_is_removed(tmp_path):
    left, begun = tmp_path / "half-1", tmp_path / "half-2"
    for folder in (left, begun):
        folder.mkdir()
        (folder / place.IN_USE).touch()
    with (begun / place.IN_USE).open("rb") as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        with place.kept(str(tmp_path), "name", lambda folder: None):
            assert not left.exists()
            assert begun.exists()


def test_where_nothing_can_be_written_the_index_is_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert place.room_of(str(tmp_path)) == str(tmp_path / ".groundrows" / "browse")
    remote = place.room_of("gs://bucket/run")
    assert remote.startswith(str(tmp_path / "groundrows" / "browse"))
    assert remote != place.room_of("gs://bucket/other")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert place.room_of(str(tmp_path)).startswith(str(tmp_path / "groundrows"))
