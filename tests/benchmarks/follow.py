"""A server that changes its limit in mid-run is followed both ways."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.quota import busiest_minute
from tests.benchmarks.tools import ROOT, Table, archive, calls, command, verdict

HIGH, LOW = 600, 200
FIRST_SECONDS, LOW_SECONDS, LAST_SECONDS = 70.0, 120.0, 100.0
FOLLOWED_SECONDS = 30.0
MOST_REFUSED = 0.05
# Whoever is not told when to come back has to ask, and what is refused has arrived, too.
PROBES = 1.15


def busiest(moments: Sequence[float], since: float, until: float) -> int:
    """The most calls that arrived in any minute that lies between two moments."""
    return busiest_minute([moment for moment in moments if since <= moment < until])


def follow(folder: Path, name: str, *emulator_flags: str) -> tuple[list[tuple[str, ...]], bool]:
    """One run whose server lowers its limit and raises it again; nobody tells the pipeline."""
    limits, log = folder / f"{name}.json", folder / f"{name}.jsonl"
    limits.write_text(json.dumps({"requests_per_minute": HIGH}))
    flags = (f"--limits_file={limits}", "--latency=lognormal:0.5,3", f"--call_log={log}", *emulator_flags)
    with running_emulator("--port=0", *flags) as emulator:
        source = archive(folder, 4_000)
        child = subprocess.Popen(
            command(emulator.address, source, folder / name, f"--requests_per_minute={HIGH}"), cwd=ROOT
        )
        try:
            changes = []
            for wait, limit in ((FIRST_SECONDS, LOW), (LOW_SECONDS, HIGH)):
                time.sleep(wait)
                limits.write_text(json.dumps({"requests_per_minute": limit}))
                emulator.signal(signal.SIGHUP)
                changes.append(time.time())
            time.sleep(LAST_SECONDS)
        finally:
            child.terminate()
            child.wait(20)
    lowered, raised = changes
    seen = calls(log)
    refused = sum(call["code"] == "RESOURCE_EXHAUSTED" for call in seen) / len(seen)
    moments = [call["t"] for call in seen]
    since_lowered = busiest(moments, lowered + FOLLOWED_SECONDS, raised)
    last = [moment for moment in moments if raised + FOLLOWED_SECONDS <= moment < raised + LAST_SECONDS]
    rate = len(last) / (LAST_SECONDS - FOLLOWED_SECONDS) * 60
    checks = (
        (f"lowered to {LOW}: busiest minute from 30 s on", f"{since_lowered}", f"<= {LOW * PROBES:.0f}"),
        (f"raised to {HIGH}: calls a minute from 30 s on", f"{rate:.0f}", f">= {HIGH * 0.9:.0f}"),
        ("refused, of all calls", f"{refused:.3f}", f"<= {MOST_REFUSED}"),
    )
    kept = (since_lowered <= LOW * PROBES, rate >= HIGH * 0.9, refused <= MOST_REFUSED)
    rows = [(name, *check, verdict(fits)) for check, fits in zip(checks, kept, strict=True)]
    return rows, all(kept)


def measure(folder: Path) -> list[Table]:
    """Refusals that say when to come back, and bare ones."""
    told, told_kept = follow(folder, "told when")
    bare, bare_kept = follow(folder, "bare refusals", "--no_retry_info")
    title = f"A server limit of {HIGH}, then {LOW}, then {HIGH} a minute"
    return [Table(title, ("", "", "measured", "wanted", ""), told + bare, told_kept and bare_kept)]
