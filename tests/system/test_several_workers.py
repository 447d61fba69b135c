"""A backfill by several worker processes: the rows of one, under a limit that is kept all the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS, JITTER_SECONDS
from tests.support.runs import calls, comparable, google_search, rows, run, summary, write_lines
from tests.system.test_main_job import questions

COUNT = 120
PER_MINUTE = 600
SHARDS = 4
SPANS = (1.0, 2.0, 8.0)
# So long a machine with more processes than cores may hold up the server, whose count is by arrival.
STALL_SECONDS = 1.0


def busiest(moments: Sequence[float], seconds: float) -> int:
    """The most calls that arrived within so many seconds."""
    ordered = sorted(moments)
    first = most = 0
    for last, moment in enumerate(ordered):
        while moment - ordered[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


def allowed(seconds: float) -> int:
    """What the limit lets arrive in a span: its rate, what was late, and for each shard the call on the edge."""
    late = CATCH_UP_SECONDS + JITTER_SECONDS + STALL_SECONDS
    return math.floor(PER_MINUTE / 60 * (seconds + late)) + SHARDS


def arrivals(log: Path) -> list[float]:
    return [call["t"] for call in calls(log)]


def test_four_processes_share_a_limit_and_give_the_same_rows(tmp_path: Path) -> None:
    sources = [write_lines(tmp_path / f"{number}.jsonl", questions(COUNT)[number::3]) for number in range(3)]
    log = tmp_path / "calls.jsonl"
    with running_emulator("--port=0", "--latency=0.2", f"--call_log={log}") as emulator:
        flags = [
            "--service=emulator",
            f"--endpoint={emulator.address}",
            f"--input={','.join(map(str, sources))}",
            f"--request_defaults={google_search(tmp_path)}",
            "--quiet",
        ]
        run(*flags, f"--output={tmp_path / 'one'}")
        by_one = arrivals(log)
        log.write_text("")
        run(
            *flags,
            f"--output={tmp_path / 'four'}",
            "--direct_num_workers=4",
            "--direct_running_mode=multi_processing",
            "--rate_limiter=sharded",
            f"--pacing_shards={SHARDS}",
            f"--requests_per_minute={PER_MINUTE}",
        )
        by_four = arrivals(log)
    said = summary(tmp_path / "four")
    assert said["balanced"]
    assert (said["answered"], said["calls"], said["duplicates"]) == (COUNT, COUNT, 0)
    assert len(by_four) == COUNT
    assert comparable(tmp_path / "four") == comparable(tmp_path / "one")
    # Several did work: each writes files of its own.
    assert len(list((tmp_path / "four" / "answers").glob("*.avro"))) > 1
    assert len(rows(tmp_path / "four", "answers")) == COUNT
    for seconds in SPANS:
        assert busiest(by_four, seconds) <= allowed(seconds)
    # Which without a limit would not be so.
    assert busiest(by_one, 1.0) > allowed(1.0)
