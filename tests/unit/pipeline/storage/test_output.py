"""The output directory from command to command, and after a kill between any two steps."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from groundrows.pipeline.storage import files, output, summaries, whole
from groundrows.pipeline.storage.output import Output
from groundrows.schemas.errors import UsageError
from tests.support.tools import files_below, is_one_sentence

# Names that a shell, Beam or a URI would take for something else.
NAMES = [
    "out",
    "a b",
    "ü-東京",
    "out[x]",
    "out*",
    "out?",
    "{a}",
    "50%",
    "a#b",
    "a@b",
    "~",
    "-o",
    "x.avro",
    "'",
]


class Killed(BaseException):
    """Not an Exception: nothing may catch it on its way."""


def claim(path: Path | str, *, overwrite: bool = False, append: bool = False) -> Output:
    """Claim and let go at once, as a kill does."""
    with output.claimed(str(path), overwrite=overwrite, append=append) as claimed:
        return claimed


def refusal(path: Path | str, *, overwrite: bool = False, append: bool = False) -> str:
    """What claiming is refused with; looking first must say the same, and neither may change a thing."""
    said = []
    for refuse in (output.check, claim):
        with pytest.raises(UsageError) as raised:
            refuse(str(path), overwrite=overwrite, append=append)
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert is_one_sentence(said[0]), said[0]
    assert f"--output={path}" in said[0]
    return said[0]


def put(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(name.encode())


def row_files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.glob("*/*.avro")}


def finished(directory: Path, *names: str) -> Output:
    """A directory with a finished run that has these files."""
    with output.claimed(str(directory), overwrite=False, append=False) as claimed:
        put(directory, *names)
        output.finish(claimed, {"run_id": claimed.run_id})
    return claimed


def run_id_in(directory: Path) -> str:
    return str(json.loads((directory / "run.json").read_text())["run_id"])


def without_private(directory: Path) -> dict[str, bytes]:
    return {name: body for name, body in files_below(directory).items() if not name.startswith(".groundrows")}


def test_a_new_directory_is_made_with_those_above_it(tmp_path: Path) -> None:
    claimed = claim(tmp_path / "a" / "b")
    assert claimed.path == str(tmp_path / "a" / "b")
    assert claimed.kept_files == ()
    assert set(without_private(tmp_path / "a" / "b")) == {".run.json"}
    assert not output.is_finished(claimed.path)


def test_what_else_a_directory_holds_stays(tmp_path: Path) -> None:
    put(tmp_path, "notes.txt", "answers/readme.md", "other/x.avro")
    finished(tmp_path, "answers/a.avro")
    claim(tmp_path, overwrite=True)
    assert set(without_private(tmp_path)) == {".run.json", "notes.txt", "answers/readme.md", "other/x.avro"}


def test_every_run_has_a_name_of_its_own(tmp_path: Path) -> None:
    assert claim(tmp_path / "a").run_id != claim(tmp_path / "b").run_id


def test_looking_first_makes_nothing(tmp_path: Path) -> None:
    output.check(str(tmp_path / "a" / "b"), overwrite=False, append=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "flags", [{}, {"overwrite": True}, {"append": True}], ids=["plain", "overwrite", "append"]
)
def test_a_stopped_run_is_taken_up_by_the_same_command(tmp_path: Path, flags: dict[str, bool]) -> None:
    stopped = claim(tmp_path, **flags)
    put(tmp_path, "answers/left.avro", ".groundrows/staging/half.avro", ".groundrows/ledger.sqlite")
    again = claim(tmp_path, **flags)
    assert again == stopped
    assert row_files(tmp_path) == set()
    assert not (tmp_path / ".groundrows/staging").exists()
    assert (tmp_path / ".groundrows/ledger.sqlite").exists()


def test_a_stopped_append_keeps_what_it_found_and_nothing_else(tmp_path: Path) -> None:
    finished(tmp_path, "answers/old.avro", "failures/old.avro")
    stopped = claim(tmp_path, append=True)
    assert set(stopped.kept_files) == {f"{tmp_path}/answers/old.avro", f"{tmp_path}/failures/old.avro"}
    assert not output.is_finished(str(tmp_path))
    put(tmp_path, "answers/left.avro")
    for flags in ({"append": True}, {}):
        assert claim(tmp_path, **flags) == stopped
        assert row_files(tmp_path) == {"answers/old.avro", "failures/old.avro"}


def test_overwriting_a_stopped_append_keeps_nothing(tmp_path: Path) -> None:
    finished(tmp_path, "answers/old.avro")
    stopped = claim(tmp_path, append=True)
    fresh = claim(tmp_path, overwrite=True)
    assert fresh.run_id != stopped.run_id
    assert fresh.kept_files == ()
    assert row_files(tmp_path) == set()


def test_a_stopped_overwrite_is_taken_up_so_that_its_budget_goes_on(tmp_path: Path) -> None:
    first = finished(tmp_path, "answers/old.avro")
    stopped = claim(tmp_path, overwrite=True)
    assert stopped.run_id != first.run_id
    assert claim(tmp_path, overwrite=True) == stopped


def test_a_kept_file_that_was_taken_away_is_not_kept(tmp_path: Path) -> None:
    finished(tmp_path, "answers/a.avro", "answers/b.avro")
    claim(tmp_path, append=True)
    (tmp_path / "answers/a.avro").unlink()
    assert claim(tmp_path).kept_files == (f"{tmp_path}/answers/b.avro",)


@pytest.mark.parametrize(
    "left",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"run_id": "r", "kept_files": []}',
        b'{"run_id": 5, "kept_files": [], "started_at": "2025-03-01T12:00:00+00:00"}',
        b'{"run_id": "", "kept_files": [], "started_at": "2025-03-01T12:00:00+00:00"}',
        b'{"run_id": "r", "kept_files": 5, "started_at": "2025-03-01T12:00:00+00:00"}',
        b'{"run_id": "r", "kept_files": [5], "started_at": "2025-03-01T12:00:00+00:00"}',
        b'{"run_id": "r", "kept_files": null, "started_at": "2025-03-01T12:00:00+00:00"}',
        b'{"run_id": "r", "kept_files": [], "started_at": "noon"}',
        b'{"run_id": "r", "kept_files": [], "started_at": 5}',
        b'{"run_id": "r", "kept_files": [], "started_at": "2025-03-01T12:00:00"}',
    ],
)
def test_a_damaged_note_of_a_stopped_run(tmp_path: Path, left: bytes) -> None:
    (tmp_path / ".run.json").write_bytes(left)
    put(tmp_path, "answers/a.avro")
    for append in (False, True):
        said = refusal(tmp_path, append=append)
        assert ".run.json" in said
        assert "--overwrite" in said
    with pytest.raises(UsageError, match="damaged"):
        output.finished_files(str(tmp_path), "answers")
    assert row_files(tmp_path) == {"answers/a.avro"}
    fresh = claim(tmp_path, overwrite=True)
    assert row_files(tmp_path) == set()
    assert claim(tmp_path) == fresh


def test_a_finished_run_is_refused(tmp_path: Path) -> None:
    finished(tmp_path, "answers/a.avro")
    before = files_below(tmp_path)
    said = refusal(tmp_path)
    assert "--overwrite" in said
    assert "--append" in said
    assert files_below(tmp_path) == before


def test_overwriting_removes_the_rows_and_keeps_the_ledger(tmp_path: Path) -> None:
    first = finished(tmp_path, "answers/a.avro", "failures/b.avro")
    put(tmp_path, ".groundrows/ledger.sqlite")
    again = claim(tmp_path, overwrite=True)
    assert again.run_id != first.run_id
    assert again.kept_files == ()
    assert set(without_private(tmp_path)) == {".run.json"}
    assert (tmp_path / ".groundrows/ledger.sqlite").exists()


def test_appending_keeps_the_rows(tmp_path: Path) -> None:
    first = finished(tmp_path, "answers/a.avro", "failures/b.avro")
    again = claim(tmp_path, append=True)
    assert again.run_id != first.run_id
    assert set(again.kept_files) == {f"{tmp_path}/answers/a.avro", f"{tmp_path}/failures/b.avro"}
    assert again.kept("answers") == [f"{tmp_path}/answers/a.avro"]
    assert again.kept("claim_supports") == []
    assert row_files(tmp_path) == {"answers/a.avro", "failures/b.avro"}


def test_what_a_run_leaves_when_it_has_finished(tmp_path: Path) -> None:
    with output.claimed(str(tmp_path), overwrite=False, append=False) as claimed:
        put(tmp_path, "answers/a.avro", ".groundrows/staging/half.avro")
        output.finish(claimed, {"run_id": "ü", "answered": 1})
    assert set(without_private(tmp_path)) == {"answers/a.avro", "run.json", f"runs/{claimed.run_id}.json"}
    assert (tmp_path / f"runs/{claimed.run_id}.json").read_bytes() == (tmp_path / "run.json").read_bytes()
    assert json.loads((tmp_path / "run.json").read_bytes()) == {"run_id": "ü", "answered": 1}
    assert not (tmp_path / ".groundrows/staging").exists()


def test_a_summary_with_names_that_are_no_utf8_is_still_json(tmp_path: Path) -> None:
    with output.claimed(str(tmp_path), overwrite=False, append=False) as claimed:
        output.finish(claimed, {"inputs": ["\udcff.jsonl"]})
    assert json.loads((tmp_path / "run.json").read_text("utf-8")) == {"inputs": ["\udcff.jsonl"]}


def test_rows_that_nothing_says_whose_they_are(tmp_path: Path) -> None:
    put(tmp_path, "answers/a.avro")
    for append in (False, True):
        said = refusal(tmp_path, append=append)
        assert "run.json" in said
        assert "--overwrite" in said
    assert row_files(tmp_path) == {"answers/a.avro"}
    claim(tmp_path, overwrite=True)
    assert row_files(tmp_path) == set()


@pytest.mark.parametrize("name", ["", "below", "below/deeper"])
def test_a_file_in_the_way(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    path = tmp_path / "file" / name
    with pytest.raises(UsageError) as raised:
        output.check(str(path), overwrite=True, append=False)
    assert is_one_sentence(str(raised.value))
    assert f"{tmp_path}/file is not a directory" in str(raised.value)
    with pytest.raises(UsageError, match="name another directory"):
        claim(path, overwrite=True)
    assert files_below(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize("name", ["answers", "failures", ".groundrows"])
def test_a_file_where_a_tables_directory_goes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(UsageError, match=f"/{name} is not a directory"):
        output.check(str(tmp_path), overwrite=True, append=False)


@pytest.mark.parametrize("path", ["/proc/nowhere/out", "/dev/null/out", "a\0b"])
def test_a_directory_that_cannot_be_made(path: str) -> None:
    with pytest.raises(UsageError) as raised:
        claim(path, overwrite=True)
    assert is_one_sentence(str(raised.value))
    assert "name another directory" in str(raised.value)


def test_a_directory_that_may_not_be_written() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o555)
        try:
            if os.geteuid() == 0:  # who may write anywhere
                os.seteuid(65534)
            with pytest.raises(UsageError, match=f"{directory} can't be written"):
                output.check(f"{directory}/out", overwrite=False, append=False)
            with pytest.raises(UsageError, match="Permission denied"):
                claim(f"{directory}/out")
        finally:
            os.seteuid(os.getuid())


def test_a_link_to_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "deeper")
    with pytest.raises(UsageError, match="is not a directory"):
        output.check(str(tmp_path / "link"), overwrite=False, append=False)
    with pytest.raises(UsageError, match="name another directory"):
        claim(tmp_path / "link")


@pytest.mark.parametrize("name", NAMES)
def test_the_directorys_name_is_a_name_and_no_pattern(tmp_path: Path, name: str) -> None:
    # What `out[x]`, `out*` and `out?` would match as patterns.
    others = [tmp_path / "outx", tmp_path / "out", tmp_path / "aXb"]
    for other in others:
        if other.name != name:
            finished(other, "answers/theirs.avro", ".groundrows/staging/theirs")
    theirs = {str(other): files_below(other) for other in others if other.name != name}

    directory = tmp_path / name
    first = finished(directory, "answers/a.avro", "failures/b.avro")
    assert set(first.table_files("answers")) == {f"{directory}/answers/a.avro"}
    assert run_id_in(directory) == first.run_id
    refusal(directory)
    again = claim(directory, append=True)
    assert set(again.kept_files) == {f"{directory}/answers/a.avro", f"{directory}/failures/b.avro"}
    put(directory, "answers/left.avro")
    assert claim(directory) == again
    assert row_files(directory) == {"answers/a.avro", "failures/b.avro"}
    claim(directory, overwrite=True)
    assert row_files(directory) == set()
    assert {str(other): files_below(other) for other in others if other.name != name} == theirs


def test_a_relative_path_and_a_link_are_the_same_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finished(tmp_path / "out", "answers/a.avro")
    (tmp_path / "link").symlink_to("out")
    stopped = claim("out", append=True)
    assert stopped.kept_files == ("out/answers/a.avro",)
    assert output.ledger_in("out") == f"sqlite://{tmp_path}/out/.groundrows/ledger.sqlite"
    for spelling in ("./out", str(tmp_path / "out"), "link", "out/../out"):
        again = claim(spelling)
        assert again.run_id == stopped.run_id
        assert again.kept("answers") == [f"{spelling}/answers/a.avro"]
        assert row_files(tmp_path / "out") == {"answers/a.avro"}


def test_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions.jsonl").write_bytes(b"{}")
    claim(".")
    claim(".", overwrite=True)
    assert set(without_private(tmp_path)) == {".run.json", "questions.jsonl"}


def test_a_table_of_a_directory_whose_path_has_a_tables_name(tmp_path: Path) -> None:
    directory = tmp_path / "answers" / "out"
    finished(directory, "failures/f.avro")
    claimed = claim(directory, append=True)
    assert claimed.kept("answers") == []
    assert claimed.kept("failures") == [f"{directory}/failures/f.avro"]


def test_the_files_of_finished_runs(tmp_path: Path) -> None:
    path = str(tmp_path)
    assert output.finished_files(path, "answers") is None
    claim(tmp_path)
    assert output.finished_files(path, "answers") is None
    (tmp_path / ".run.json").unlink()
    finished(tmp_path, "answers/a.avro", "failures/f.avro")
    assert output.finished_files(path, "answers") == [f"{path}/answers/a.avro"]
    assert output.finished_files(path, "claim_supports") == []
    claim(tmp_path, append=True)
    put(tmp_path, "answers/left.avro")
    assert output.finished_files(path, "answers") == [f"{path}/answers/a.avro"]


def test_only_a_local_directory_has_a_ledger() -> None:
    assert output.ledger_in("gs://bucket/out") is None


def test_a_lock_ends_with_its_run(tmp_path: Path) -> None:
    with (
        output.claimed(str(tmp_path), overwrite=False, append=False),
        pytest.raises(UsageError, match="another run"),
    ):
        claim(tmp_path)
    claim(tmp_path)


STEPS = ["delete", "move", "open_for_writing", "make_directory", "remove_directory"]


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, count: int) -> Iterator[None]:
    """Raise instead of the operation on files that comes after `count` of them."""
    done: list[str] = []

    def dying(name: str) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            if len(done) == count:
                raise Killed(name)
            done.append(name)
            return getattr(files, name)(*arguments)

        return step

    with monkeypatch.context() as patched:
        for name in STEPS:
            for module in (output, summaries, whole):
                patched.setattr(module, name, dying(name), raising=False)
        yield


OLD = {"answers/old.avro", "failures/old.avro"}


def begin(directory: Path) -> str:
    """A directory with a finished run of two files; returns its id."""
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    return finished(directory, *OLD).run_id


@pytest.mark.parametrize("flags", [{"overwrite": True}, {"append": True}], ids=["overwrite", "append"])
def test_a_kill_while_claiming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: dict[str, bool]
) -> None:
    for count in range(100):
        old = begin(tmp_path)
        ended = False
        with killed_at(monkeypatch, count):
            try:
                claim(tmp_path, **flags)
                ended = True
            except Killed:
                pass
        if output.is_finished(str(tmp_path)):
            # Nothing has happened: the old run is whole.
            assert row_files(tmp_path) == OLD
            assert run_id_in(tmp_path) == old
            assert "finished run" in refusal(tmp_path)
        else:
            # The new one is under way, and even a command without the flag goes on with it.
            plain, same = claim(tmp_path), claim(tmp_path, **flags)
            assert plain == same
            assert plain.run_id != old
            assert row_files(tmp_path) == (OLD if "append" in flags else set())
        final = claim(tmp_path, **flags)
        assert row_files(tmp_path) == (OLD if "append" in flags else set())
        assert len(final.kept_files) == (2 if "append" in flags else 0)
        kept = {*OLD, f"runs/{old}.json"} if "append" in flags else set()
        assert set(without_private(tmp_path)) == {".run.json", *kept}
        if ended:
            assert count >= 4
            return
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("append", [False, True])
def test_a_kill_while_finishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, append: bool) -> None:
    new = "answers/new.avro"
    for count in range(100):
        begin(tmp_path)
        with output.claimed(str(tmp_path), overwrite=not append, append=append) as claimed:
            put(tmp_path, new, ".groundrows/staging/half")
            ended = False
            with killed_at(monkeypatch, count):
                try:
                    output.finish(claimed, {"run_id": claimed.run_id})
                    ended = True
                except Killed:
                    pass
        rows = {new} | (OLD if append else set())
        if output.is_finished(str(tmp_path)):
            assert run_id_in(tmp_path) == claimed.run_id
            assert row_files(tmp_path) == rows
            assert "finished run" in refusal(tmp_path)
            # A note that was left behind speaks of nothing any more.
            assert set(claim(tmp_path, append=True).kept_files) == {f"{tmp_path}/{name}" for name in rows}
        else:
            assert claim(tmp_path).run_id == claimed.run_id
            assert row_files(tmp_path) == (OLD if append else set())
        if ended:
            assert count >= 4
            return
    raise AssertionError("it never came to an end")


def test_a_kill_while_claiming_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "out"
    for count in range(100):
        ended = False
        with killed_at(monkeypatch, count):
            try:
                claim(directory)
                ended = True
            except Killed:
                pass
        claimed = claim(directory)
        assert set(without_private(directory)) == {".run.json"}
        assert claim(directory) == claimed
        if ended:
            return
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("write", ["half", "nothing"])
def test_a_kill_while_the_summary_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    opened = files.open_for_writing

    def dying(path: str) -> Any:
        file = opened(path)
        write_all = file.write

        class Half:
            def __enter__(self) -> Half:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def write(self, data: bytes) -> None:
                if write == "half":
                    write_all(data[: len(data) // 2])
                raise Killed

        return Half()

    with output.claimed(str(tmp_path), overwrite=False, append=False) as claimed:
        put(tmp_path, "answers/a.avro")
        monkeypatch.setattr(whole, "open_for_writing", dying)
        # Whoever is killed does not tidy up.
        monkeypatch.setattr(whole, "delete", lambda path: None)
        with pytest.raises(Killed):
            output.finish(claimed, {"run_id": claimed.run_id})
    monkeypatch.undo()
    assert not output.is_finished(str(tmp_path))
    assert set(without_private(tmp_path)) == {".run.json", "answers/a.avro"}
    assert claim(tmp_path).run_id == claimed.run_id


# The format of the rows


def test_a_stopped_run_goes_on_in_its_format(tmp_path: Path) -> None:
    with output.claimed(str(tmp_path), overwrite=False, append=False, row_format="parquet") as stopped:
        assert stopped.format.suffix == ".parquet"
    assert claim(tmp_path) == stopped
    with pytest.raises(UsageError, match="whose rows are parquet: give --row_format=parquet to continue it"):
        output.check(str(tmp_path), overwrite=False, append=False, row_format="avro")
    said = json.loads((tmp_path / ".run.json").read_text())
    del said["row_format"]  # as earlier versions wrote it
    (tmp_path / ".run.json").write_text(json.dumps(said))
    assert claim(tmp_path).row_format == "avro"
    (tmp_path / ".run.json").write_text(json.dumps({**said, "row_format": "clay"}))
    assert "damaged" in refusal(tmp_path)


@pytest.mark.parametrize(("there", "other"), [("avro", "parquet"), ("parquet", "avro")])
def test_rows_are_added_in_the_format_that_is_there(tmp_path: Path, there: str, other: str) -> None:
    finished(tmp_path, f"answers/a.{there}", f"failures/f.{there}")
    for row_format in (None, there):
        with output.claimed(str(tmp_path), overwrite=False, append=True, row_format=row_format) as added:
            assert added.row_format == there
        output.finish_unchanged(added)
    with pytest.raises(UsageError, match=f"holds rows as {there}, so {other} can't be added") as refused:
        output.check(str(tmp_path), overwrite=False, append=True, row_format=other)
    assert is_one_sentence(str(refused.value))
    with output.claimed(str(tmp_path), overwrite=True, append=False, row_format=other) as replaced:
        assert replaced.row_format == other


def test_to_rows_of_several_formats_either_can_be_added(tmp_path: Path) -> None:
    finished(tmp_path, "answers/a.avro", "answers/b.parquet")
    for row_format, expected in ((None, "avro"), ("avro", "avro"), ("parquet", "parquet")):
        with output.claimed(str(tmp_path), overwrite=False, append=True, row_format=row_format) as added:
            assert added.row_format == expected
            assert len(added.kept_files) == 2
        output.finish_unchanged(added)
