import asyncio

import pytest

from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.gate import Gate, Halted, Slots
from tests.support.engines import run
from tests.support.virtual_time import run_virtually


class OpenPacer:
    """No limit at all."""

    def __init__(self):
        self.acquired = 0
        self.refusals = []
        self.closed = False

    async def acquire(self):
        self.acquired += 1

    def throttled(self, sent_at, retry_after):
        self.refusals.append((sent_at, retry_after))

    async def close(self):
        self.closed = True


class HandPacer(OpenPacer):
    """Lets one call out for each `release()`."""

    def __init__(self):
        super().__init__()
        self._places = asyncio.Semaphore(0)
        self.waiting = 0
        self.most_waiting = 0

    def release(self):
        self._places.release()

    async def acquire(self):
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        self.acquired += 1


async def settled():
    """Give every task that can go on the time to."""
    for _ in range(20):
        await asyncio.sleep(0)


class Callers:
    """Tasks that pass a gate, note their name, and stay until told to leave."""

    def __init__(self, gate):
        self.gate = gate
        self.out = []
        self.turned_away = []
        self.tasks = {}

    def start(self, name, *, retry=False):
        self.tasks[name] = asyncio.create_task(self._pass(name, retry))

    async def _pass(self, name, retry):
        try:
            await self.gate.enter(retry=retry)
        except Halted:
            self.turned_away.append(name)
            return
        self.out.append(name)

    def leave(self):
        self.gate.leave()


@pytest.mark.parametrize("paced", [True, False])
def test_never_more_than_the_slots_and_always_all_of_them(paced):
    async def scenario():
        callers = Callers(Gate(Slots(3), OpenPacer(), paced=paced))
        for name in range(10):
            callers.start(name)
        await settled()
        assert callers.out == [0, 1, 2]
        for gone in range(7):
            callers.leave()
            await settled()
            assert callers.out == list(range(4 + gone))

    run(scenario())


def test_a_retry_goes_before_every_first_attempt_that_waits():
    async def scenario():
        pacer = HandPacer()
        callers = Callers(Gate(Slots(10), pacer, paced=True))
        for name in ("first 1", "first 2", "first 3"):
            callers.start(name)
        await settled()
        pacer.release()
        await settled()
        assert callers.out == ["first 1"]
        # A place is already being waited for in the name of nobody: who goes is decided last.
        callers.start("retry 1", retry=True)
        callers.start("retry 2", retry=True)
        await settled()
        for _ in range(4):
            pacer.release()
            await settled()
        assert callers.out == ["first 1", "retry 1", "retry 2", "first 2", "first 3"]

    run(scenario())


def test_a_retry_goes_first_too_when_slots_are_what_is_short():
    async def scenario():
        callers = Callers(Gate(Slots(1), OpenPacer(), paced=False))
        for name in ("first 1", "first 2"):
            callers.start(name)
        callers.start("retry", retry=True)
        await settled()
        callers.leave()
        await settled()
        callers.leave()
        await settled()
        assert callers.out == ["first 1", "retry", "first 2"]

    run(scenario())


def test_one_waiter_at_a_time_asks_the_pacer():
    async def scenario():
        pacer = HandPacer()
        callers = Callers(Gate(Slots(10), pacer, paced=True))
        for name in range(5):
            callers.start(name)
        await settled()
        for _ in range(5):
            pacer.release()
        await settled()
        assert pacer.most_waiting == 1
        assert pacer.acquired == 5

    run(scenario())


def test_a_halt_releases_everybody_at_once_however_long_the_pace():
    async def scenario():
        slots = Slots(2)
        callers = Callers(Gate(slots, HandPacer(), paced=True))
        for name in range(5):
            callers.start(name)
        callers.start("retry", retry=True)
        await settled()
        callers.gate.halt()
        await settled()
        assert callers.out == []
        assert len(callers.turned_away) == 6
        # Whoever comes later is turned away as well, and no slot was lost.
        callers.start("late")
        await settled()
        assert callers.turned_away[-1] == "late"
        assert slots.try_take()
        assert slots.try_take()

    run(scenario())


def test_a_halt_releases_those_who_wait_for_a_slot():
    async def scenario():
        slots = Slots(1)
        callers = Callers(Gate(slots, OpenPacer(), paced=True))
        for name in range(3):
            callers.start(name)
        await settled()
        assert callers.out == [0]
        callers.gate.halt()
        await settled()
        assert callers.turned_away == [1, 2]
        callers.leave()
        assert slots.try_take()
        assert not slots.try_take()

    run(scenario())


@pytest.mark.parametrize("paced", [True, False])
def test_nobody_leaves_after_a_halt_not_even_who_was_just_let_out(paced):
    async def scenario():
        slots = Slots(1)
        callers = Callers(Gate(slots, OpenPacer(), paced=paced))
        callers.start("holder")
        await settled()
        callers.start("next")
        await settled()
        assert callers.out == ["holder"]
        halted_at = []

        async def halt_once_let_out():
            # Runs again and again until `next` has been let out but has not yet gone on.
            while not slots.try_take():
                turns = [*callers.gate._firsts]
                if not turns:
                    callers.gate.halt()
                    halted_at.append(list(callers.out))
                    return
                await asyncio.sleep(0)

        watcher = asyncio.create_task(halt_once_let_out())
        callers.leave()
        await settled()
        await watcher
        assert halted_at == [["holder"]]
        assert callers.out == ["holder"]
        assert callers.turned_away == ["next"]
        assert slots.try_take()  # its slot came back

    run(scenario())


def test_a_pacer_that_fails_fails_those_who_wait_and_not_those_who_come_later():
    class Failing(OpenPacer):
        async def acquire(self):
            self.acquired += 1
            if self.acquired == 1:
                await asyncio.sleep(0.01)
                raise RuntimeError("no pace")

    async def scenario():
        slots = Slots(1)
        gate = Gate(slots, Failing(), paced=True)
        results = await asyncio.gather(*(gate.enter(retry=False) for _ in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [RuntimeError] * 3
        await gate.enter(retry=False)
        assert not slots.try_take()
        gate.leave()
        assert slots.try_take()

    run(scenario())


def test_a_pacer_that_fails_on_the_short_way_costs_no_slot():
    class Failing(OpenPacer):
        async def acquire(self):
            raise RuntimeError("no pace")

    async def scenario():
        slots = Slots(1)
        gate = Gate(slots, Failing(), paced=False)
        with pytest.raises(RuntimeError):
            await gate.enter(retry=False)
        assert slots.try_take()

    run(scenario())


def test_callers_who_give_up_cost_no_slot():
    async def scenario():
        pacer = HandPacer()
        slots = Slots(1)
        callers = Callers(Gate(slots, pacer, paced=True))
        callers.start("gives up")
        callers.start("stays")
        await settled()
        callers.tasks["gives up"].cancel()
        await settled()
        pacer.release()
        await settled()
        assert callers.out == ["stays"]
        callers.start("let out and cancelled")
        await settled()
        callers.leave()
        pacer.release()
        for _ in range(20):
            if not callers.gate._firsts:
                break
            await asyncio.sleep(0)
        callers.tasks["let out and cancelled"].cancel()
        await settled()
        assert "let out and cancelled" not in callers.out
        assert slots.try_take()

    run(scenario())


def test_a_refusal_reaches_the_pacer_and_makes_an_open_gate_paced():
    async def scenario():
        pacer = HandPacer()
        callers = Callers(Gate(Slots(5), pacer, paced=False))
        callers.gate.failed(CallError("RESOURCE_EXHAUSTED", "slow down", 3.0), 12.5)
        assert pacer.refusals == [(12.5, 3.0)]
        for name in range(3):
            callers.start(name)
        await settled()
        assert callers.out == []
        assert pacer.most_waiting == 1
        pacer.release()
        await settled()
        assert callers.out == [0]

    run(scenario())


def test_waiting_for_the_pace_is_counted_and_waiting_for_a_slot_is_not(monkeypatch):
    class Slow(OpenPacer):
        async def acquire(self):
            await asyncio.sleep(0.05)

    async def scenario():
        gate = Gate(Slots(1), Slow(), paced=True)
        await gate.enter(retry=False)
        waited = gate.throttled_seconds
        assert waited >= 0.04
        second = asyncio.create_task(gate.enter(retry=False))
        await asyncio.sleep(0.2)
        assert gate.throttled_seconds == waited
        gate.leave()
        await second
        assert gate.throttled_seconds >= waited + 0.04

    run_virtually(scenario(), monkeypatch)


def test_gates_share_the_slots_and_nobody_starves():
    async def scenario():
        slots = Slots(2)
        one, two = (
            Callers(Gate(slots, OpenPacer(), paced=True)),
            Callers(Gate(slots, OpenPacer(), paced=True)),
        )
        for name in range(4):
            one.start(name)
            two.start(name)
        await settled()
        assert len(one.out) + len(two.out) == 2
        for _ in range(6):
            one.leave()
            await settled()
        assert (one.out, two.out) == ([0, 1, 2, 3], [0, 1, 2, 3])

    run(scenario())


def test_closing_closes_the_pacer():
    async def scenario():
        pacer = HandPacer()
        callers = Callers(Gate(Slots(1), pacer, paced=True))
        callers.start(0)
        await settled()
        await callers.gate.close()
        await settled()
        assert pacer.closed
        assert callers.turned_away == [0]

    run(scenario())
