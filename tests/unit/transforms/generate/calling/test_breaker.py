import asyncio
import random

import pytest

from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.breaker import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    STREAK,
    Breaker,
)
from groundrows.transforms.generate.calling.gate import Gate, Slots
from groundrows.transforms.generate.pacing.local import LocalPacer
from tests.support.engines import run
from tests.support.virtual_time import run_virtually


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_calls_pass_freely_until_a_streak_of_passing_errors():
    async def main():
        breaker = Breaker()
        for _ in range(STREAK - 1):
            breaker.failed()
            await asyncio.wait_for(breaker.pass_one(), 0.05)
        breaker.failed()
        assert breaker.is_open
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(breaker.pass_one(), 0.05)

    run(main())


def test_an_answer_between_two_errors_ends_the_streak():
    async def main():
        breaker = Breaker()
        for _ in range(3):
            for _ in range(STREAK - 1):
                breaker.failed()
            breaker.answered()
        assert not breaker.is_open

    run(main())


@pytest.mark.parametrize("share", [0.1, 0.28, 0.5, 0.7])
def test_a_service_that_fails_a_share_of_the_calls_is_not_taken_for_dead(share):
    drawn = random.Random(7)
    breaker = Breaker()
    for _ in range(500):  # so that the share is known
        breaker.failed() if drawn.random() < share else breaker.answered()
    breaker.answered()
    opened = 0
    for _ in range(10_000):
        breaker.failed() if drawn.random() < share else breaker.answered()
        opened += breaker.is_open
    assert opened <= 10


def test_a_service_that_dies_after_many_errors_is_still_found_dead():
    breaker = Breaker()
    for number in range(300):
        breaker.failed() if number % 2 else breaker.answered()
    for _ in range(2 * STREAK):
        breaker.failed()
    assert breaker.is_open


def test_probes_leave_singly_and_ever_further_apart():
    async def main():
        clock = Clock()
        breaker = Breaker(clock)
        for _ in range(STREAK):
            breaker.failed()
        gaps, last = [], clock.now
        for _ in range(8):
            while True:
                try:
                    await asyncio.wait_for(breaker.pass_one(), 0.001)
                    break
                except TimeoutError:
                    clock.now += 0.25
            gaps.append(clock.now - last)
            last = clock.now
            breaker.failed()
        assert gaps[0] == pytest.approx(FIRST_PAUSE_SECONDS)
        assert gaps == sorted(gaps)
        assert gaps[-1] == pytest.approx(LONGEST_PAUSE_SECONDS)

    run(main())


def test_the_first_answer_lets_everybody_go_on():
    async def main():
        breaker = Breaker()
        for _ in range(STREAK):
            breaker.failed()
        waiting = [asyncio.create_task(breaker.pass_one()) for _ in range(5)]
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in waiting)
        breaker.answered()
        await asyncio.wait_for(asyncio.gather(*waiting), 0.2)
        assert not breaker.is_open

    run(main())


def test_a_server_that_is_down_costs_few_calls(monkeypatch):
    """A hundred questions that would all be asked at once lose a streak's worth of attempts, and probes."""

    async def main():
        gate = Gate(Slots(4), LocalPacer(float("inf")), paced=False)
        made = 0

        async def ask():
            nonlocal made
            await gate.enter(retry=False)
            made += 1
            await asyncio.sleep(0)
            gate.leave()
            gate.failed(CallError("UNAVAILABLE", "down"), 0.0)

        tasks = [asyncio.create_task(ask()) for _ in range(100)]
        await asyncio.sleep(0.8)
        assert STREAK <= made <= STREAK + 4 + 2
        gate.answered()
        gate.answered()
        await asyncio.sleep(0.05)
        assert made > STREAK + 4 + 2
        gate.halt()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtually(main(), monkeypatch)


def test_the_pacer_hears_of_every_refusal_and_the_breaker_of_what_was_accepted():
    async def main():
        heard = []

        class Pacer(LocalPacer):
            def throttled(self, sent_at, retry_after):
                heard.append(("refused", sent_at, retry_after))

        class Hearing(Breaker):
            def answered(self):
                heard.append("answered")

        gate = Gate(Slots(4), Pacer(float("inf")), paced=False, breaker=Hearing())
        gate.failed(CallError("RESOURCE_EXHAUSTED", "slow down"), 1.0)
        gate.failed(CallError("RESOURCE_EXHAUSTED", "slow down", 3.0), 2.0)
        gate.answered()
        # Who looks at a request and turns it down has let it in.
        gate.failed(CallError("INVALID_ARGUMENT", "no"), 4.0)
        # Nothing of the pace follows from a call that broke on its way.
        gate.failed(CallError("UNAVAILABLE", "down"), 5.0)
        assert heard == [
            ("refused", 1.0, None),
            ("refused", 2.0, 3.0),
            "answered",
            "answered",
        ]

    run(main())
