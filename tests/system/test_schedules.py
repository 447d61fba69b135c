"""Two runs, or two workers, that share a ledger under faults at any moment: nothing is lost, little is paid twice.

What is paid twice is at most what was in flight at each fault, and each run's records balance. A few schedules
are played here; `GROUNDROWS_SCHEDULES=50` plays that many of each kind, as `make bench` does.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.schedules import Fault, Programs, Schedule, address_of, drawn, world
from tests.support.services import PubSub

COUNT = int(os.environ.get("GROUNDROWS_SCHEDULES", "2"))
# Longer than the deadline for an acknowledgement, for which Pub/Sub takes ten seconds at least.
TOO_LONG = 12.0
SLOW = {"programs": "workers", "ledger": "redis", "count": 60, "per_minute": 240}


@pytest.mark.timeout(120 + 40 * COUNT)
@pytest.mark.parametrize("programs", ["runs", "workers"])
def test_faults_at_any_moment(
    programs: Programs, redis_uri: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pubsub: PubSub | None = request.getfixturevalue("pubsub") if programs == "workers" else None
    with world(tmp_path, address_of(redis_uri), pubsub) as place:
        played = list(place.play_all([drawn(programs, seed) for seed in range(COUNT)]))
    print(*played, sep="\n")
    assert [str(each) for each in played if each.problems] == []
    assert any(each.happened for each in played)


def test_a_worker_that_stalls_longer_than_its_messages_are_kept(
    pubsub: PubSub, redis_uri: str, tmp_path: Path
) -> None:
    """It has more messages in hand than it can ask meanwhile, and the other worker gets those."""
    schedules = [
        Schedule("cut", faults=((Fault(0.5, "cut_pubsub", TOO_LONG),), ()), **SLOW),  # type: ignore[arg-type]
        Schedule("stopped", faults=((Fault(0.5, "stop", TOO_LONG),), ()), **SLOW),  # type: ignore[arg-type]
    ]
    with world(tmp_path, address_of(redis_uri), pubsub) as place:
        cut, stopped = place.play_all(schedules)
    assert (cut.problems, stopped.problems) == ([], [])
    assert (len(cut.happened), len(stopped.happened)) == (1, 1)
    assert cut.calls == 60
