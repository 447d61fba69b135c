"""What refusals do to the pace: those of a limit are followed, those that come by chance are not.

Everything here happens in virtual time, with the real gate, breaker and pacer.
"""

import asyncio
import math
import time

import pytest

from groundrows.transforms.generate.pacing.local import LocalPacer
from tests.support.paced_service import Service, keep_asking
from tests.support.virtual_time import run_virtually

HIGH, LOW = 600, 200
SECONDS = 60.0


class Deaf(LocalPacer):
    """Hears of no refusal: what the throughput would be if refusals cost nothing but themselves."""

    def throttled(self, sent_at, retry_after):
        pass


def local(per_second, kind=LocalPacer):
    return kind(per_second, time.monotonic, asyncio.sleep)


def answers(monkeypatch, kind, chances, *, per_second=math.inf, seeds=(1, 2), **kwargs):
    """Answers a second, on average over some seeds."""
    total = 0.0
    for seed in seeds:
        service = Service(chances=chances, seed=seed, **kwargs)
        asking = keep_asking_with(service, kind, per_second, SECONDS)
        total += run_virtually(asking, monkeypatch).answered(0, SECONDS)
    return total / len(seeds)


async def keep_asking_with(service, kind, per_second, seconds, **kwargs):
    pacer = local(per_second, kind)
    return await keep_asking(service, pacer, seconds, paced=per_second < math.inf, **kwargs)


@pytest.mark.parametrize("per_second", [math.inf, 10.0], ids=["no limit given", "ten a second"])
@pytest.mark.parametrize("share", [0.03, 0.1, 0.2, 0.3])
def test_refusals_by_chance_cost_little_but_themselves(monkeypatch, share, per_second):
    without = answers(monkeypatch, Deaf, {}, per_second=per_second, seeds=(1,))
    with_them = answers(monkeypatch, LocalPacer, {"RESOURCE_EXHAUSTED": share}, per_second=per_second)
    assert with_them >= 0.8 * (1 - share) * without


@pytest.mark.parametrize("share", [0.03, 0.1, 0.2, 0.3])
def test_refusals_by_chance_that_ask_for_a_wait_hold_up_only_themselves(monkeypatch, share):
    chances = {"RESOURCE_EXHAUSTED": share}
    # Who waits to ask again is not there to ask, whatever the pace.
    monkeypatch.setattr(f"{__name__}.SECONDS", 120.0)
    told = {"told_at_random": 5.0, "seeds": (1,)}
    without = answers(monkeypatch, Deaf, chances, **told)
    assert answers(monkeypatch, LocalPacer, chances, **told) >= 0.8 * without


def test_a_service_with_many_faults_at_once_is_not_brought_to_a_stop(monkeypatch):
    chances = {"UNAVAILABLE": 0.15, "HANG": 0.03, "RESOURCE_EXHAUSTED": 0.1}
    # Hung calls keep their slots for as long as they do; that is no matter of the pace.
    without = answers(monkeypatch, Deaf, chances)
    assert answers(monkeypatch, LocalPacer, chances) >= 0.8 * without


@pytest.mark.parametrize("told", [False, True], ids=["bare", "told when"])
@pytest.mark.parametrize("share", [0.0, 0.05], ids=["alone", "with some by chance"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_limit_that_changes_is_followed_and_used(monkeypatch, told, share, seed):
    service = Service(HIGH, {"UNAVAILABLE": share}, told=told, seed=seed)
    lowered, raised, end = 60.0, 160.0, 240.0
    run_virtually(
        keep_asking_with(service, LocalPacer, HIGH / 60, end, changes={lowered: LOW, raised: HIGH}),
        monkeypatch,
    )
    assert service.accepted(10, lowered) >= 0.97 * HIGH / 60
    assert service.arrived(lowered + 10, raised) <= 1.15 * LOW / 60
    assert service.accepted(lowered + 10, raised) >= 0.97 * LOW / 60
    assert service.accepted(raised + 10, end) >= 0.97 * HIGH / 60


@pytest.mark.parametrize("told", [False, True], ids=["bare", "told when"])
def test_a_limit_that_nobody_named_is_found_and_used(monkeypatch, told):
    service = Service(HIGH, told=told)
    run_virtually(keep_asking_with(service, LocalPacer, math.inf, 120.0), monkeypatch)
    assert service.accepted(10, 120) >= 0.97 * HIGH / 60
    assert service.arrived(30, 120) <= 1.3 * HIGH / 60
