"""Fifty schedules of faults for two runs, and fifty for two workers, that share a ledger."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.tools import Table, verdict
from tests.support.schedules import Programs, drawn, world
from tests.support.services import SERVICES, pubsub_emulator, redis_server

SCHEDULES = 50


def measure(folder: Path) -> list[Table]:
    """Play them all, and say what was paid twice."""
    tables = [_measure(folder, "runs")]
    if SERVICES["Pub/Sub emulator"].found() is not None:
        tables.append(_measure(folder, "workers"))
    return tables


def _measure(folder: Path, programs: Programs) -> Table:
    with ExitStack() as stack:
        server = stack.enter_context(redis_server())
        pubsub = stack.enter_context(pubsub_emulator()) if programs == "workers" else None
        place = stack.enter_context(world(folder, f"127.0.0.1:{server.port}", pubsub))
        played = list(place.play_all([drawn(programs, seed) for seed in range(SCHEDULES)]))
    broken = [each for each in played if each.problems]
    for each in broken:
        print(each, flush=True)
    twice, in_flight = (sum(getattr(each, name) for each in played) for name in ("paid_twice", "in_flight"))
    faults = [happened.split()[1] for each in played for happened in each.happened]
    rows = [
        (
            "faults",
            str(len(faults)),
            ", ".join(f"{faults.count(kind)} {kind}" for kind in sorted(set(faults))),
        ),
        ("calls", f"{sum(each.calls for each in played):,}", ""),
        ("paid twice", f"{twice:,}", f"<= {in_flight:,} in flight at the faults"),
        ("schedules in which it all holds", f"{SCHEDULES - len(broken)}", verdict(not broken)),
    ]
    return Table(f"{SCHEDULES} schedules of faults, two {programs}", ("", "", ""), rows, not broken)
