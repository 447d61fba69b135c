"""What the measurements share: archives, runs in processes of their own, tables."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro

from groundrows.pipeline.emulator.process import EmulatorProcess
from groundrows.schemas.service import DISCOVERY_ENGINE, GEMINI
from tests.support.paths import ROOT

LOCATION = "projects/bench/locations/global"
GOOGLE_SEARCH = {"grounding_spec": {"grounding_sources": [{"google_search_source": {}}]}}


@dataclass(frozen=True)
class Table:
    """A measurement's result: rows of text, and whether every limit named in them was kept."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    kept: bool = True

    def __str__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        ]
        return "\n".join([self.title, text[0], "  ".join("-" * width for width in widths), *text[1:]])


def verdict(kept: bool) -> str:
    """A limit's outcome in a word."""
    return "kept" if kept else "MISSED"


def archive(folder: Path, count: int) -> Path:
    """An archive of distinct questions."""
    path = folder / f"questions-{count}.jsonl"
    if not path.exists():
        with path.open("w", encoding="utf-8") as file:
            for number in range(count):
                file.write(
                    json.dumps({"id": f"q{number}", "question": f"What is known about item {number}?"}) + "\n"
                )
    return path


def defaults(folder: Path) -> Path:
    """Request defaults that name Google Search."""
    path = folder / "defaults.json"
    path.write_text(json.dumps(GOOGLE_SEARCH), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Run:
    """A finished run: its directory, its `run.json`, its wall time, its peak memory in KiB and its CPU time."""

    output: Path
    summary: dict[str, Any]
    seconds: float
    peak_kib: int
    cpu_seconds: float


ASKING = {
    DISCOVERY_ENGINE: ("--service=emulator", f"--location={LOCATION}"),
    GEMINI: ("--service=gemini", "--model=gemini-2.5-flash", "--requests_per_minute=1000000"),
}


def address_of(service: str, emulator: EmulatorProcess) -> str:
    """Where a service is asked of an emulator that has a port for each protocol."""
    return str(emulator.rest_address) if service == GEMINI else emulator.address


def command(
    address: str, source: Path, output: Path, *flags: str, service: str = DISCOVERY_ENGINE
) -> list[str]:
    """The command line of a run against an emulator that is already there."""
    return [
        sys.executable,
        "-m",
        "pipeline",
        *ASKING[service],
        f"--endpoint={address}",
        f"--input={source}",
        f"--request_defaults={defaults(source.parent)}",
        f"--output={output}",
        "--quiet",
        *flags,
    ]


def run_pipeline(
    address: str, source: Path, output: Path, *flags: str, service: str = DISCOVERY_ENGINE
) -> Run:
    """Run the pipeline in a process of its own and wait for it."""
    started = time.monotonic()
    child = subprocess.Popen(command(address, source, output, *flags, service=service), cwd=ROOT)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"a measured run ended with {child.returncode}")
    summary = json.loads((output / "run.json").read_text(encoding="utf-8"))
    cpu = usage.ru_utime + usage.ru_stime
    return Run(output, summary, time.monotonic() - started, usage.ru_maxrss, cpu)


def answers(output: Path) -> list[dict[str, Any]]:
    """Every answer row of a run."""
    rows: list[dict[str, Any]] = []
    for path in sorted((output / "answers").glob("*.avro")):
        with path.open("rb") as file:
            rows += fastavro.reader(file)  # type: ignore[arg-type]
    return rows


def calls(log: Path) -> list[dict[str, Any]]:
    """An emulator's call log."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def middle_rate(moments: Sequence[float]) -> float:
    """Events a second between the first and the last fifth: neither filling up nor running out."""
    ordered = sorted(moments)
    first, last = len(ordered) // 5, len(ordered) * 4 // 5
    return (last - first) / (ordered[last] - ordered[first])


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return sorted(values)[len(values) // 2]


def children_peak_kib() -> int:
    """The largest peak memory of any child so far."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
