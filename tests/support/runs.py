"""Whole runs in processes of their own, and what they left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro

from groundrows.schemas.tables import TABLES
from groundrows.transforms.generate.ledger.uri import open_ledger
from tests.support.paths import ROOT

SAMPLES = ROOT / "pipeline" / "samples"
GOOGLE_SEARCH = {"grounding_sources": [{"google_search_source": {}}]}
# What differs between two runs that asked the same: when, under which name, and at what pains.
OF_A_RUN = (
    "run_id",
    "asked_at",
    "answered_at",
    "failed_at",
    "latency_ms",
    "attempts",
    "from_ledger",
    "uris_expire_at",
)


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "groundrows", "run", *flags]


def run(*flags: str, code: int = 0, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """`groundrows run`, expected to end with this exit code."""
    finished = subprocess.run(command(*flags), cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    assert finished.returncode == code, f"{finished.returncode}: {finished.stdout}{finished.stderr}"
    return finished


def start(*flags: str) -> subprocess.Popen[bytes]:
    """`groundrows run`, under way; whoever starts it stops it."""
    return subprocess.Popen(
        command(*flags), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
    )


def summary(output: Path) -> dict[str, Any]:
    return json.loads((output / "run.json").read_text(encoding="utf-8"))


def rows(output: Path, table: str) -> list[dict[str, Any]]:
    """Every row of a table; fails on a file that can't be read whole."""
    found: list[dict[str, Any]] = []
    for path in sorted((output / table).glob("*.avro")):
        with path.open("rb") as file:
            found += fastavro.reader(file)
    return found


def comparable(output: Path, *, without: Iterable[str] = OF_A_RUN) -> dict[str, list[str]]:
    """The rows of every table, sorted, without what differs from run to run."""
    left_out = set(without)
    return {
        table: sorted(
            repr({name: value for name, value in row.items() if name not in left_out})
            for row in rows(output, table)
        )
        for table in TABLES
    }


def write_lines(path: Path, records: Iterable[bytes | dict[str, Any]]) -> Path:
    with path.open("wb") as file:
        for record in records:
            file.write(record if isinstance(record, bytes) else json.dumps(record).encode())
            file.write(b"\n")
    return path


def google_search(folder: Path) -> Path:
    """Request defaults that name Google Search."""
    path = folder / "defaults.json"
    path.write_text(json.dumps(GOOGLE_SEARCH), encoding="utf-8")
    return path


def stored(output: Path) -> set[str]:
    """The questions whose answers the ledger of a run holds, by their ids; none where there is no ledger yet."""
    path = output / ".groundrows" / "ledger.sqlite"
    if not path.exists():
        return set()
    with closing(open_ledger(f"sqlite://{path}", read_only=True)) as ledger:
        return {entry.question_id for entry in ledger.entries()}


def calls(log: Path) -> list[dict[str, Any]]:
    """An emulator's call log; its last line may be cut when it was killed."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
