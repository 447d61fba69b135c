"""A quota used to the last percent and never passed, by the server's own count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import Table, archive, calls, run_pipeline, verdict
from tests.support.services import redis_server

PER_MINUTE = 600
COUNT = 2_000
LATENCY = "lognormal:1.0,10.0"
LEAST_USED = 0.97
MOST_REFUSED = 1 / 200
FOUR_PROCESSES = ("--direct_num_workers=4", "--direct_running_mode=multi_processing")


def busiest_minute(moments: Sequence[float]) -> int:
    """The most events in any 60 seconds."""
    ordered = sorted(moments)
    first = most = 0
    for last, moment in enumerate(ordered):
        while moment - ordered[first] >= 60:
            first += 1
        most = max(most, last - first + 1)
    return most


def measure(folder: Path) -> list[Table]:
    """The same archive by one process and by four, sharing the limit in two ways."""
    rows = []
    all_kept = True
    source = archive(folder, COUNT)
    with redis_server() as redis:
        modes = {
            "local, 1 process": ("--rate_limiter=local",),
            "sharded, 4 processes": ("--rate_limiter=sharded", *FOUR_PROCESSES),
            "sharded by 4, 4 processes": ("--rate_limiter=sharded", "--pacing_shards=4", *FOUR_PROCESSES),
            "redis, 4 processes": (f"--rate_limiter=redis://127.0.0.1:{redis.port}/0", *FOUR_PROCESSES),
        }
        for number, (name, flags) in enumerate(modes.items()):
            log = folder / f"quota-{number}.jsonl"
            limit = f"--requests_per_minute={PER_MINUTE}"
            with running_emulator("--port=0", limit, f"--latency={LATENCY}", f"--call_log={log}") as emulator:
                run_pipeline(emulator.address, source, folder / f"quota-{number}", limit, *flags)
            arrived = [call["t"] for call in calls(log)]
            accepted = [call["t"] for call in calls(log) if call["code"] != "RESOURCE_EXHAUSTED"]
            since = min(accepted) + 60
            later = [moment for moment in accepted if moment >= since]
            used = len(later) / (max(later) - since) * 60 / PER_MINUTE
            busiest = busiest_minute(arrived)
            refused = (len(arrived) - len(accepted)) / len(arrived)
            kept = used >= LEAST_USED and busiest <= PER_MINUTE and refused < MOST_REFUSED
            # Shards that are cut finer than the rate needs run out at different times: the price of the mode.
            priced = "--pacing_shards=4" in flags
            all_kept &= kept or (priced and busiest <= PER_MINUTE)
            rows.append(
                (name, f"{used:.3f}", str(busiest), f"{refused:.4f}", "" if priced else verdict(kept))
            )
    header = (
        "limiter",
        f"used (>= {LEAST_USED})",
        f"busiest minute (<= {PER_MINUTE})",
        "refused (< 0.005)",
        "",
    )
    title = f"A quota of {PER_MINUTE} a minute, {COUNT:,} questions, latency {LATENCY} s"
    return [Table(title, header, rows, all_kept)]
