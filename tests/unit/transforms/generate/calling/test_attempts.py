import asyncio
import logging
import math
import time
from collections import Counter
from datetime import UTC, datetime

import pytest

from groundrows.schemas.codes import (
    EMPTY_ANSWER,
    INTERNAL_ERROR,
    MESSAGE_TOO_LARGE,
    NOT_ATTEMPTED,
    RETRYABLE_CODES,
    UNDECODABLE_RESPONSE,
)
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.calling.attempts import Attempts, GaveUp, Line, Success
from groundrows.transforms.generate.calling.breaker import Breaker
from groundrows.transforms.generate.calling.budget import Budget
from groundrows.transforms.generate.calling.conversation import turn_request
from groundrows.transforms.generate.calling.gate import Gate, Slots
from groundrows.transforms.generate.calling.halt import HOPELESS_STREAK, TRANSIENT_STREAK, Halt
from groundrows.transforms.generate.calling.retry import RetryPolicy
from groundrows.transforms.generate.clients.base import Call, Reply
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from groundrows.transforms.generate.pacing.local import LocalPacer
from tests.support.engines import LOCATION, HandClient, echo, make_question, response, run
from tests.support.virtual_time import run_virtually

FINAL = (
    "CANCELLED",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "FAILED_PRECONDITION",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "DATA_LOSS",
    "UNAUTHENTICATED",
    MESSAGE_TOO_LARGE,
    UNDECODABLE_RESPONSE,
)


def request(text):
    return turn_request(make_question(text), (), LOCATION)


async def forget(success):
    """Keeps nothing."""


class NeverOpen(Breaker):
    is_open = False


class Desk:
    """Attempts with everything around them, to be made inside a running loop."""

    def __init__(
        self,
        behaviour=echo,
        *,
        slots=100,
        per_second=math.inf,
        policy=None,
        halt=None,
        budget=None,
        deadline=20.0,
        paced=False,
        pacer=None,
        breaker=None,
    ):
        self.client = HandClient(behaviour)
        self.slots = Slots(slots)
        self.gate = Gate(
            self.slots,
            pacer or LocalPacer(per_second),
            paced=paced or per_second != math.inf,
            breaker=breaker,
        )
        self.line = Line(self.gate, budget)
        self.halts = 0
        self.attempts = Attempts(
            client=self.client,
            policy=policy or RetryPolicy(4, 600.0, 0.001),
            halt=halt or Halt(90.0, 600.0),
            halted=asyncio.Event(),
            on_halt=self._on_halt,
            deadline_seconds=deadline,
        )

    def _on_halt(self):
        self.halts += 1
        self.gate.halt()

    async def ask(self, text, keep=forget):
        return await self.attempts.ask(Call(request(text)), self.line, keep)

    async def ask_all(self, texts):
        return await asyncio.gather(*(self.ask(text) for text in texts))


class FreePacer:
    """Only notes refusals."""

    def __init__(self):
        self.refusals = []

    async def acquire(self):
        pass

    def throttled(self, sent_at, retry_after):
        self.refusals.append((sent_at, retry_after))

    async def close(self):
        pass


def failing(code, times=math.inf, retry_after=None):
    async def behaviour(prompt, nth):
        if nth <= times:
            raise CallError(code, f"{code} for the {nth}th time", retry_after)
        return response(f"{prompt}/{nth}")

    return behaviour


def budget_of(limit, delay=0.0):
    ledger = MemoryLedger()

    async def reserve(count):
        await asyncio.sleep(delay)
        return ledger.reserve("run", limit, count)

    async def give_back(count):
        ledger.give_back("run", count)

    return Budget(reserve, give_back)


def test_a_success_tells_what_it_took():
    async def scenario():
        desk = Desk(failing("UNAVAILABLE", times=2))
        before = datetime.now(UTC)
        kept = []

        async def keep(success):
            kept.append(success)

        success = await desk.ask("q", keep)
        assert isinstance(success, Success)
        assert kept == [success]
        assert success.reply.response == response("q/3")
        assert success.attempts == 3
        assert success.retry_codes == ("UNAVAILABLE", "UNAVAILABLE")
        assert before <= success.asked_at <= success.answered_at <= datetime.now(UTC)
        assert desk.attempts.made == 3
        assert (desk.attempts.out, desk.attempts.waiting_to_retry) == (0, 0)

    run(scenario())


def test_the_latency_is_that_of_the_successful_attempt(monkeypatch):
    async def slow_first(prompt, nth):
        if nth == 1:
            await asyncio.sleep(1.0)
            raise CallError("UNAVAILABLE", "")
        await asyncio.sleep(0.05)
        return response("")

    async def scenario():
        success = await Desk(slow_first).ask("q")
        assert 40 <= success.latency_ms < 900
        assert (success.answered_at - success.asked_at).total_seconds() < 0.9

    run_virtually(scenario(), monkeypatch)


@pytest.mark.parametrize("code", sorted(RETRYABLE_CODES))
def test_transient_codes_are_tried_to_the_last_attempt_and_no_further(code):
    async def scenario():
        desk = Desk(failing(code), policy=RetryPolicy(4, 600.0, 0.001), pacer=FreePacer())
        result = await desk.ask("q")
        assert isinstance(result, GaveUp)
        assert (result.error.code, result.attempts, result.retryable) == (code, 4, True)
        assert result.retry_codes == (code,) * 3
        assert "4th time" in result.error.message
        assert desk.client.log == ["q"] * 4
        # Only a refusal for the quota says anything about the pace.
        assert len(desk.gate.pacer.refusals) == (4 if code == "RESOURCE_EXHAUSTED" else 0)

    run(scenario())


@pytest.mark.parametrize("code", FINAL)
def test_every_other_code_is_asked_once(code):
    async def scenario():
        desk = Desk(failing(code))
        result = await desk.ask("q")
        assert (result.error.code, result.attempts, result.retryable) == (code, 1, False)
        assert result.retry_codes == ()
        assert desk.client.log == ["q"]

    run(scenario())


@pytest.mark.parametrize("most", [1, 2, 7])
def test_nothing_is_asked_more_often_than_allowed(most):
    async def scenario():
        # The breaker would let these out one by one; here it is the attempts that are counted.
        desk = Desk(failing("UNAVAILABLE"), policy=RetryPolicy(most, 600.0, 0.001), breaker=NeverOpen())
        results = await desk.ask_all([f"q{number}" for number in range(50)])
        assert {result.attempts for result in results} == {most}
        assert set(Counter(desk.client.log).values()) == {most}

    run(scenario())


def test_no_attempt_starts_after_the_time_is_over_even_when_the_pace_was_in_the_way():
    async def scenario():
        # Every wait fits into the time, but the pace holds the retry for longer than that.
        desk = Desk(failing("UNAVAILABLE"), per_second=2.0, policy=RetryPolicy(5, 0.2, 0.001))
        result = await desk.ask("q")
        assert (result.error.code, result.attempts, result.retry_codes) == ("UNAVAILABLE", 1, ())
        assert desk.client.log == ["q"]
        assert desk.slots.try_take()

    run(scenario())


def test_a_wait_that_is_asked_for_is_waited_to_the_millisecond():
    async def scenario():
        arrivals = []

        async def behaviour(prompt, nth):
            arrivals.append(time.monotonic())
            if nth == 1:
                raise CallError("RESOURCE_EXHAUSTED", "", retry_after=0.25)
            return response("")

        desk = Desk(behaviour)
        assert (await desk.ask("q")).attempts == 2
        assert arrivals[1] - arrivals[0] >= 0.25

    run(scenario())


def test_a_refusal_for_the_quota_holds_first_attempts_up_too_and_other_errors_do_not():
    async def arrivals_after(code):
        arrivals = {}

        async def behaviour(prompt, nth):
            arrivals[prompt, nth] = time.monotonic()
            if prompt == "first" and nth == 1:
                raise CallError(code, "", retry_after=0.8)
            return response("")

        desk = Desk(behaviour)
        one = asyncio.create_task(desk.ask("first"))
        await asyncio.sleep(0.02)
        await desk.ask("second")
        await one
        return arrivals["second", 1] - arrivals["first", 1]

    assert run(arrivals_after("RESOURCE_EXHAUSTED")) >= 0.8
    assert run(arrivals_after("UNAVAILABLE")) < 0.8


def test_a_retry_goes_before_the_first_attempts_that_wait_and_those_go_on_meanwhile():
    async def scenario():
        async def behaviour(prompt, nth):
            if prompt == "retried" and nth == 1:
                raise CallError("UNAVAILABLE", "", retry_after=0.15)
            await asyncio.sleep(0.01)
            return response("")

        # One slot, so that everybody queues for it.
        desk = Desk(behaviour, slots=1)
        tasks = [asyncio.create_task(desk.ask("retried"))]
        tasks += [asyncio.create_task(desk.ask(f"first {number}")) for number in range(60)]
        await asyncio.gather(*tasks)
        log = desk.client.log
        again = log.index("retried", 1)
        assert again > 1  # first attempts went on while it waited
        assert again < len(log) - 10  # and it did not go to the end of the queue

    run(scenario())


def test_a_slot_is_free_while_a_retry_waits():
    async def scenario():
        async def behaviour(prompt, nth):
            if prompt == "waits" and nth == 1:
                raise CallError("UNAVAILABLE", "", retry_after=5.0)
            return response("")

        desk = Desk(behaviour, slots=1)
        waiting = asyncio.create_task(desk.ask("waits"))
        await asyncio.sleep(0.01)
        assert desk.attempts.waiting_to_retry == 1
        assert isinstance(await desk.ask("other"), Success)
        waiting.cancel()

    run(scenario(), 4)


def test_the_deadline_is_the_clients():
    async def scenario():
        class Client(HandClient):
            async def ask(self, call, deadline):
                deadlines.append(deadline)
                return Reply(response(""))

        deadlines = []
        desk = Desk(deadline=7.5)
        desk.attempts.client = Client()
        await desk.ask("q")
        assert deadlines == [7.5]

    run(scenario())


@pytest.mark.parametrize("paced", [True, False])
def test_all_the_slots_are_used_and_never_more(paced):
    async def scenario():
        together = asyncio.Event()

        async def behaviour(prompt, nth):
            if desk.client.out == 64:
                together.set()
            await asyncio.wait_for(together.wait(), 10)
            await asyncio.sleep(0.001)
            return response("")

        desk = Desk(behaviour, slots=64, paced=paced)
        results = await desk.ask_all([f"q{number}" for number in range(300)])
        assert all(isinstance(result, Success) for result in results)
        assert desk.client.most_out == 64

    run(scenario())


def test_a_response_holds_its_slot_until_it_is_kept():
    async def scenario():
        desk = Desk(slots=2)
        go = asyncio.Event()
        kept = []

        async def keep(success):
            kept.append(success)
            await go.wait()

        tasks = [asyncio.create_task(desk.ask(f"q{number}", keep)) for number in range(5)]
        await asyncio.sleep(0.05)
        assert len(kept) == len(desk.client.log) == 2
        go.set()
        assert all(isinstance(result, Success) for result in await asyncio.gather(*tasks))

    run(scenario())


# -- faults of our own -----------------------------------------------------------------------------------


def test_an_error_that_no_client_should_raise_costs_one_question_and_frees_its_slot(caplog):
    async def scenario():
        async def behaviour(prompt, nth):
            if prompt == "odd":
                raise ValueError("the prompt was: odd")
            return response("")

        desk = Desk(behaviour, slots=1)
        results = await desk.ask_all(["odd", "a", "odd", "b"])
        assert [isinstance(result, Success) for result in results] == [False, True, False, True]
        odd = results[0]
        assert (odd.error.code, odd.attempts, odd.retryable) == (INTERNAL_ERROR, 1, True)
        assert "ValueError" in odd.error.message
        assert (desk.attempts.made, desk.attempts.out) == (4, 0)
        assert desk.slots.try_take()

    with caplog.at_level(logging.DEBUG):
        run(scenario())
    assert "ValueError" in caplog.text
    assert "the prompt was" not in caplog.text


def test_a_keeper_that_fails_frees_the_slot():
    async def scenario():
        async def keep(success):
            raise RuntimeError("no room")

        desk = Desk(slots=1)
        with pytest.raises(RuntimeError):
            await desk.ask("q", keep)
        assert desk.slots.try_take()

    run(scenario())


def test_a_budget_that_fails_frees_the_slot():
    async def scenario():
        async def reserve(count):
            raise RuntimeError("no count")

        desk = Desk(slots=1, budget=Budget(reserve, reserve))
        with pytest.raises(RuntimeError):
            await desk.ask("q")
        assert desk.client.log == []
        assert desk.slots.try_take()

    run(scenario())


# -- the budget ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 7, 100, 257])
@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_not_one_call_over_the_budget_with_retries_and_256_in_flight(limit, delay):
    async def scenario():
        async def behaviour(prompt, nth):
            await asyncio.sleep(0)
            if nth == 1 and int(prompt) % 3 == 0:
                raise CallError("UNAVAILABLE", "")
            return response("")

        desk = Desk(behaviour, slots=256, budget=budget_of(limit, delay))
        results = await desk.ask_all([str(number) for number in range(300)])
        assert len(desk.client.log) == limit
        for result in results:
            if isinstance(result, GaveUp) and result.error.code == NOT_ATTEMPTED:
                assert (result.attempts, result.retryable, result.retry_codes) == (0, True, ())
                assert "--max_requests" in result.error.message
            elif isinstance(result, GaveUp):
                # Its second call was not to be had: it ends by its own error.
                assert (result.error.code, result.attempts, result.retry_codes) == ("UNAVAILABLE", 1, ())
                assert result.retryable
        assert sum(result.attempts for result in results) == limit

    run(scenario())


def test_who_can_not_be_paid_for_does_not_wait_for_the_pace():
    async def scenario():
        # At one call in five seconds, 50 questions would wait for minutes.
        desk = Desk(per_second=0.2, budget=budget_of(1))
        first = asyncio.create_task(desk.ask("q"))
        await first
        desk.gate.pacer._next = 0.0
        results = await desk.ask_all([f"q{number}" for number in range(50)])
        assert {result.error.code for result in results} == {NOT_ATTEMPTED}
        assert len(desk.client.log) == 1

    run(scenario(), 4)


# -- halting ---------------------------------------------------------------------------------------------


def test_after_a_halt_nothing_is_called_and_the_rest_is_not_attempted():
    async def scenario():
        desk = Desk(failing("UNAUTHENTICATED"), slots=1)
        desk.client._behaviour = same_words("UNAUTHENTICATED")
        results = await desk.ask_all([f"q{number}" for number in range(100)])
        assert len(desk.client.log) == HOPELESS_STREAK
        codes = Counter(result.error.code for result in results)
        assert codes == {"UNAUTHENTICATED": HOPELESS_STREAK, NOT_ATTEMPTED: 100 - HOPELESS_STREAK}
        for result in results:
            if result.error.code == NOT_ATTEMPTED:
                assert result.retryable
                assert "UNAUTHENTICATED" in result.error.message
        assert desk.halts == 1
        late = await desk.ask("late")
        assert late.error.code == NOT_ATTEMPTED
        assert len(desk.client.log) == HOPELESS_STREAK

    run(scenario())


def same_words(code, retry_after=None):
    async def behaviour(prompt, nth):
        await asyncio.sleep(0)
        raise CallError(code, "the same words", retry_after)

    return behaviour


def test_calls_in_the_air_when_it_halts_are_waited_for_and_keep_their_answers():
    async def scenario():
        go = asyncio.Event()

        async def behaviour(prompt, nth):
            if prompt == "slow":
                await go.wait()
                return response("late")
            raise CallError("PERMISSION_DENIED", "no")

        desk = Desk(behaviour, slots=2)
        slow = asyncio.create_task(desk.ask("slow"))
        await asyncio.sleep(0.01)
        await desk.ask_all([f"q{number}" for number in range(20)])
        assert desk.attempts.halted.is_set()
        go.set()
        assert (await slow).reply.response == response("late")

    run(scenario())


def test_a_halt_wakes_who_waits_to_retry_and_it_ends_by_its_own_error():
    async def scenario():
        async def behaviour(prompt, nth):
            if prompt == "waits":
                raise CallError("UNAVAILABLE", "come back", retry_after=500.0)
            raise CallError("PERMISSION_DENIED", "no")

        desk = Desk(behaviour)
        waiting = asyncio.create_task(desk.ask("waits"))
        await asyncio.sleep(0.01)
        await desk.ask_all([f"q{number}" for number in range(HOPELESS_STREAK)])
        result = await waiting
        assert (result.error.code, result.attempts, result.retry_codes) == ("UNAVAILABLE", 1, ())
        assert result.retryable

    run(scenario(), 4)


def test_waits_of_a_day_halt_before_a_second_round_of_calls():
    async def scenario():
        desk = Desk(same_words("RESOURCE_EXHAUSTED", 86_400.0), slots=8)
        results = await desk.ask_all([f"q{number}" for number in range(1_000)])
        assert len(desk.client.log) <= 8
        assert Counter(result.error.code for result in results)[NOT_ATTEMPTED] == 1_000 - len(desk.client.log)
        assert all(result.retryable for result in results)

    run(scenario(), 8)


def test_a_halt_releases_who_waits_for_a_long_pace():
    async def scenario():
        desk = Desk(per_second=0.001)
        tasks = [asyncio.create_task(desk.ask(f"q{number}")) for number in range(50)]
        await asyncio.sleep(0.05)
        desk.attempts.stop("The disk is full.")
        results = await asyncio.gather(*tasks)
        assert sum(isinstance(result, Success) for result in results) == 1
        assert {r.error.message for r in results if isinstance(r, GaveUp)} == {"The disk is full."}

    run(scenario(), 4)


def test_a_halt_while_the_budget_is_asked_stops_the_call_and_gives_it_back():
    async def scenario():
        ledger = MemoryLedger()
        asked = asyncio.Event()
        go = asyncio.Event()

        async def reserve(count):
            asked.set()
            await go.wait()
            return ledger.reserve("run", 100, count)

        async def give_back(count):
            ledger.give_back("run", count)

        desk = Desk(budget=Budget(reserve, give_back))
        waiting = asyncio.create_task(desk.ask("q"))
        await asked.wait()
        desk.attempts.stop("Enough.")
        go.set()
        assert (await waiting).error.code == NOT_ATTEMPTED
        assert desk.client.log == []
        await desk.line.budget.settle()
        assert ledger.reserved("run") == 0

    run(scenario())


def test_a_quota_that_stays_at_zero_leaves_the_others_askable():
    async def scenario():
        async def behaviour(prompt, nth):
            await asyncio.sleep(0.01)
            if int(prompt) < 5:
                return response("")
            raise CallError("RESOURCE_EXHAUSTED", "nothing left")

        desk = Desk(behaviour, slots=64, halt=Halt(0.2, 600.0), policy=RetryPolicy(5, 600.0, 0.05))
        results = await desk.ask_all([str(number) for number in range(2_000)])
        assert all(isinstance(result, Success) for result in results[:5])
        assert all(result.retryable for result in results[5:])
        codes = Counter(result.error.code for result in results[5:])
        assert codes[NOT_ATTEMPTED] > 1_800
        assert len(desk.client.log) < 5 + 64 + 5 * TRANSIENT_STREAK

    run(scenario(), 15)


def test_an_empty_answer_is_asked_for_twice_more_and_says_nothing_against_the_service():
    async def scenario():
        desk = Desk(failing(EMPTY_ANSWER), policy=RetryPolicy(9, 600.0, 0.001), pacer=FreePacer())
        result = await desk.ask("q")
        assert isinstance(result, GaveUp)
        assert (result.error.code, result.attempts, result.retryable) == (EMPTY_ANSWER, 3, True)
        assert result.retry_codes == (EMPTY_ANSWER,) * 2
        assert desk.gate.pacer.refusals == []

    run(scenario())


class AlwaysOpen(Breaker):
    """Calls leave singly, but nobody waits."""

    is_open = True

    async def pass_one(self):
        await asyncio.sleep(0)


def test_refused_probes_cost_a_question_none_of_its_attempts():
    async def scenario():
        desk = Desk(
            failing("UNAVAILABLE", times=20), policy=RetryPolicy(2, 600.0, 0.001), breaker=AlwaysOpen()
        )
        return await desk.ask("q")

    result = run(scenario())
    assert isinstance(result, Success)
    assert (result.attempts, len(result.retry_codes)) == (21, 20)


def test_refused_probes_do_not_go_on_for_ever():
    async def scenario():
        desk = Desk(failing("UNAVAILABLE"), policy=RetryPolicy(2, 0.2, 0.001), breaker=AlwaysOpen())
        return await desk.ask("q")

    result = run(scenario())
    assert isinstance(result, GaveUp)
    assert result.attempts > 2
    assert result.error.code == "UNAVAILABLE"


def test_where_a_budget_trusts_in_max_attempts_probes_count():
    async def scenario():
        desk = Desk(failing("UNAVAILABLE"), policy=RetryPolicy(3, 600.0, 0.001), breaker=AlwaysOpen())
        desk.attempts.count_probes = True
        return await desk.ask("q")

    assert run(scenario()).attempts == 3


def test_an_outage_of_a_hundred_probes_costs_no_question_its_answer():
    """Everybody waits; whoever probes is refused, and is no more likely to be the next to probe."""

    class Impatient(Breaker):
        async def pass_one(self):
            await asyncio.sleep(0)

    left = [100]

    async def behaviour(prompt, nth):
        if left[0]:
            left[0] -= 1
            raise CallError("UNAVAILABLE", "down")
        return response(prompt)

    async def scenario():
        desk = Desk(
            behaviour, slots=1, policy=RetryPolicy(11, 600.0, 0.0001), breaker=Impatient(), paced=True
        )
        results = await desk.ask_all([f"q{number}" for number in range(40)])
        return results, Counter(desk.client.log[:40])

    results, first = run(scenario())
    assert all(isinstance(result, Success) for result in results)
    # Ten make the breaker open; from then on those that have not been asked probe first.
    assert len(first) >= 30
