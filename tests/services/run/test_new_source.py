"""A source that is listed has all that a source has: here one that is made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.pipeline.options import source
from groundrows.pipeline.options.source import SourceKind
from groundrows.pipeline.run import session
from tests.support.tools import Groundrows, is_one_sentence, rows, run_json


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_emulator("--port=0", "--answers=canned") as emulator:
        yield emulator.address


@pytest.fixture
def groundrows(
    capsys: pytest.CaptureFixture[str], address: str, monkeypatch: pytest.MonkeyPatch
) -> Groundrows:
    monkeypatch.setattr(session, "tune_interpreter", lambda: None)
    made_up = SourceKind("input", "inputs", True, "tests.support.made_up_source:numbers_of")
    monkeypatch.setattr(source, "SOURCES", (made_up,))
    return Groundrows(capsys, "--service=emulator", f"--endpoint={address}")


@pytest.mark.parametrize("flags", [[], ["--rate_limiter=sharded", "--pacing_shards=2"]])
def test_it_is_asked_like_any_other(groundrows: Groundrows, tmp_path: Path, flags: list[str]) -> None:
    result = groundrows("run", "--input=15", f"--output={tmp_path / 'out'}", *flags)
    assert (result.code, result.err) == (0, "There are 15 numbers.\n")
    run = run_json(tmp_path / "out")
    assert (run["records_read"], run["answered"], run["failed"], run["balanced"]) == (15, 14, 1, True)
    (failed,) = rows(tmp_path / "out", "failures")
    assert (failed["stage"], failed["code"], failed["origin"]) == ("read", "UNLUCKY", "numbers:13")


def test_it_is_planned_like_any_other(groundrows: Groundrows) -> None:
    planned = groundrows("plan", "--input=15", "--json").json
    assert (planned["records"], planned["questions"], planned["invalid"]) == (15, 14, 1)


def test_what_it_refuses_is_refused_before_anything_is_touched(
    groundrows: Groundrows, tmp_path: Path
) -> None:
    result = groundrows("run", "--input=0", f"--output={tmp_path / 'out'}")
    assert result.code == 2
    assert is_one_sentence(result.err)
    assert "--input=0 asks nothing" in result.err
    assert not (tmp_path / "out").exists()
