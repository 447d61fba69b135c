"""What tests of commands share: a command run in this process, and its rows read back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pytest

from groundrows.pipeline.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Groundrows:
    """`groundrows` as typed, against a server that the test started."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *always: str) -> None:
        self._capsys = capsys
        self._always = always

    def __call__(self, command: str, *flags: str) -> Result:
        self._capsys.readouterr()
        code = main([command, *self._always, *flags] if command != "ledger" else [command, *flags])
        out, err = self._capsys.readouterr()
        return Result(code, out, err)


def write_lines(path: Path, records: Iterable[object]) -> Path:
    """An archive of JSON lines; bytes stand as they are."""
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def rows(output: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted((output / table).glob("*.avro")):
        with path.open("rb") as file:
            found += fastavro.reader(file)
    return found


def run_json(output: Path) -> dict[str, Any]:
    return json.loads((output / "run.json").read_text())


def prompts_of(call_log: Path) -> list[str]:
    """The prompts of the calls that arrived, in order."""
    if not call_log.exists():
        return []
    return [json.loads(line)["prompt"] for line in call_log.read_text().splitlines()]


def is_one_sentence(text: str) -> bool:
    """One line that starts with a capital or a flag and ends as a sentence does."""
    line = text.removesuffix("\n")
    return "\n" not in line and (line[:1].isupper() or line.startswith("--")) and line[-1:] in (".", "?")


def files_below(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }
