"""A server that changes its limit in mid-run is followed both ways."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

from pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import ROOT, Table, archive, calls, command, verdict

HIGH, LOW = 600, 200
FIRST_SECONDS, LOW_SECONDS, LAST_SECONDS = 70.0, 120.0, 100.0
FOLLOWED_SECONDS = 30.0
MOST_REFUSED = 0.05


def measure(folder: Path) -> list[Table]:
    """The pipeline keeps being told the high limit; only the server knows of the low one."""
    limits, log = folder / "limits.json", folder / "follow.jsonl"
    limits.write_text(json.dumps({"requests_per_minute": HIGH}))
    flags = (f"--limits_file={limits}", "--latency=lognormal:0.5,3", f"--call_log={log}")
    with running_emulator("--port=0", *flags) as emulator:
        source = archive(folder, 4_000)
        child = subprocess.Popen(
            command(emulator.address, source, folder / "follow", f"--requests_per_minute={HIGH}"), cwd=ROOT
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
    rows = []
    kept = refused <= MOST_REFUSED

    def rate(since: float, until: float) -> float:
        """Calls a minute that arrived between two moments."""
        return sum(since <= call["t"] < until for call in seen) / (until - since) * 60

    phases = (
        ("before", lowered - 30, lowered, HIGH * 0.9, HIGH),
        ("lowered, from 30 s on", lowered + FOLLOWED_SECONDS, raised, LOW * 0.7, LOW * 1.06),
        ("raised, from 30 s on", raised + FOLLOWED_SECONDS, raised + LAST_SECONDS, HIGH * 0.9, HIGH),
    )
    for name, since, until, least, most in phases:
        measured = rate(since, until)
        fits = least <= measured <= most
        kept &= fits
        rows.append((name, f"{measured:.0f}", f"{least:.0f} to {most:.0f}", verdict(fits)))
    rows.append(("refused, of all", f"{refused:.3f}", f"<= {MOST_REFUSED}", verdict(refused <= MOST_REFUSED)))
    return [
        Table(
            f"A server limit of {HIGH}, {LOW} and {HIGH} a minute",
            ("phase", "calls/min", "wanted", ""),
            rows,
            kept,
        )
    ]
