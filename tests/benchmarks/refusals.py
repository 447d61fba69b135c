"""Refusals that do not come from our own rate cost little but themselves, in one process and through Redis."""

from __future__ import annotations

from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.tools import Table, archive, calls, middle_rate, run_pipeline, verdict
from tests.support.services import redis_server

PER_MINUTE = 1_200
COUNT = 600
SHARES = (0.1, 0.2, 0.3)
# Of what is left when the refused calls are taken away.
LEAST = 0.8


def answered_per_second(folder: Path, name: str, share: float, *flags: str) -> tuple[float, float]:
    """Answers a second in the middle of a run whose service refuses this share of the calls."""
    log = folder / f"{name}.jsonl"
    faults = (f"--faults=resource_exhausted:{share}", "--seed=3", "--latency=lognormal:0.5,2")
    with running_emulator("--port=0", *faults, f"--call_log={log}") as emulator:
        run_pipeline(
            emulator.address,
            archive(folder, COUNT),
            folder / name,
            f"--requests_per_minute={PER_MINUTE}",
            "--max_attempts=20",
            *flags,
        )
    seen = sorted((call["t"], call["code"]) for call in calls(log))
    moments = [moment for moment, code in seen if code == "OK"]
    # From the first call until four fifths are answered: the start is in it, and the last few retries are not.
    most = len(moments) * 4 // 5
    return middle_rate(moments), most / (moments[most] - seen[0][0])


def measure(folder: Path) -> list[Table]:
    """Each limiter with more and more refusals, beside itself without any."""
    rows: list[tuple[str, ...]] = []
    all_kept = True
    with redis_server() as redis:
        limiters = {"local": "local", "redis": f"redis://127.0.0.1:{redis.port}/0"}
        for name, limiter in limiters.items():
            flag = f"--rate_limiter={limiter}"
            without, cold_without = answered_per_second(folder, f"{name}-0", 0.0, flag)
            rows.append((name, "0 %", f"{without:.1f}", "", "", "", ""))
            for share in SHARES:
                rate, cold_rate = answered_per_second(folder, f"{name}-{share}", share, flag)
                used = rate / (without * (1 - share))
                cold = cold_rate / (cold_without * (1 - share))
                kept = min(used, cold) >= LEAST
                all_kept &= kept
                rows.append(
                    (
                        name,
                        f"{share:.0%}",
                        f"{rate:.1f}",
                        f"{used:.2f}",
                        f"{cold:.2f}",
                        f">= {LEAST}",
                        verdict(kept),
                    )
                )
    header = (
        "limiter",
        "refused by chance",
        "answers a second",
        "of what is left",
        "from the first call",
        "wanted",
        "",
    )
    return [
        Table(
            f"{COUNT} questions at {PER_MINUTE:,} a minute, calls refused at random", header, rows, all_kept
        )
    ]
