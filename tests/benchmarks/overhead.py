"""What ledger and pacing cost together, on the throughput in steady state."""

from __future__ import annotations

from pathlib import Path

from groundrows.pipeline.emulator.process import running_emulator
from tests.benchmarks.steady import LATENCY, pipeline_rate
from tests.benchmarks.tools import Table, median, verdict

ROUNDS = 3
MOST = 0.05
# A limit that is never reached: the pacer does all its work and holds nobody up.
PACED = "--requests_per_minute=600000"


def measure(folder: Path) -> list[Table]:
    """With both and without either, in turn."""
    rows = []
    all_kept = True
    with running_emulator("--port=0", "--answers=canned", f"--latency={LATENCY}") as emulator:
        for in_flight, count in ((64, 4_000), (256, 12_000)):
            bare, full = [], []
            for number in range(ROUNDS):
                where = folder / f"overhead-{in_flight}-{number}"
                where.mkdir()
                bare.append(
                    pipeline_rate(emulator.address, count, in_flight, where / "bare", "--ledger=none")
                )
                full.append(pipeline_rate(emulator.address, count, in_flight, where / "full", PACED))
            cost = 1 - median([own / other for own, other in zip(full, bare, strict=True)])
            all_kept &= cost <= MOST
            rows.append(
                (
                    str(in_flight),
                    f"{median(bare):.0f}",
                    f"{median(full):.0f}",
                    f"{cost:.3f}",
                    verdict(cost <= MOST),
                )
            )
    header = ("in flight", "without/s", "with both/s", f"cost (<= {MOST})", "")
    return [Table("Ledger and pacing, on calls a second", header, rows, all_kept)]
