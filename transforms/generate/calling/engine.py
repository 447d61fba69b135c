"""The engine makes all calls of a process, on one event loop.

Beam's threads pass questions in with `submit`, and take their outcomes out of a basket. The thread of the
event loop makes the calls. The two sides share only the basket and the backlog, which limits the number of
unfinished questions.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from groundrows.schemas.errors import LedgerError, SetupError
from groundrows.schemas.outcome import Answer, Outcome
from groundrows.schemas.question import Question
from groundrows.transforms.generate.calling.answered import (
    AnsweredTurns,
    Delivered,
    delivered_turns,
    is_complete,
)
from groundrows.transforms.generate.calling.attempts import Attempts, GaveUp, Line, Success
from groundrows.transforms.generate.calling.basket import Backlog, Basket
from groundrows.transforms.generate.calling.breaker import Breaker
from groundrows.transforms.generate.calling.budgets import Budgets, has_budget
from groundrows.transforms.generate.calling.commit import GroupCommit
from groundrows.transforms.generate.calling.conversation import is_over
from groundrows.transforms.generate.calling.fares import Expectations, Fare
from groundrows.transforms.generate.calling.gate import Gate, Slots
from groundrows.transforms.generate.calling.halt import Halt
from groundrows.transforms.generate.calling.job import (
    Job,
    answer_of,
    claimed,
    entry_of,
    look_up,
    need_of,
    next_job,
    release,
)
from groundrows.transforms.generate.calling.leases import Leases
from groundrows.transforms.generate.calling.outcomes import (
    failed,
    internal_error,
    not_attempted,
    out_of_reach,
    outcome_of,
    skipped,
)
from groundrows.transforms.generate.calling.retry import RetryPolicy
from groundrows.transforms.generate.calling.rights import Right, Rights
from groundrows.transforms.generate.clients.base import Call, Client
from groundrows.transforms.generate.clients.open import open_client
from groundrows.transforms.generate.ledger.base import Entry, Ledger
from groundrows.transforms.generate.ledger.uri import open_ledger
from groundrows.transforms.generate.pacing.base import Pacer
from groundrows.transforms.generate.pacing.open import open_pacer, open_unit_pacer
from groundrows.transforms.generate.settings import CallSettings

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")


class Engine:
    """What all calls of a process share. The first bundle that needs an engine creates it.

    Args:
        settings: The settings of the calls.
        client_of: Makes the client that calls the service.
        pacer_of: Makes a shard's pacer.

    Attributes:
        done: Number of questions that have an outcome, for the progress display.
        failed: Number of questions that failed.
        is_wanted: Whether this process is still the one to ask a question of this origin; by default always.
        answered: Number of questions with an answer, from a call or from before. An answer also counts when
            nothing waits for it any more.
        stored: Number of answers that this engine has put into the ledger.

    Raises:
        SetupError: Credentials are missing.
        LedgerError: The ledger can't be used.
    """

    def __init__(
        self,
        settings: CallSettings,
        client_of: Callable[[CallSettings], Client] = open_client,
        pacer_of: Callable[[CallSettings], Pacer] = open_pacer,
    ) -> None:
        self.settings = settings
        self.halt = Halt(settings.exhausted_seconds, settings.retry_seconds)
        self.ledger: Ledger = open_ledger(settings.ledger)
        self._delivered = AnsweredTurns(settings.answered_path) if settings.answered_path else None
        self._pacer_of = pacer_of
        # Twice the number of calls in flight, since as many questions may wait for a slot or for a retry. One
        # batch more, so that the next call can start before Beam delivers more questions.
        self._backlog = Backlog(2 * settings.max_in_flight + settings.batch_size)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="groundrows-ledger")
        self._commit = GroupCommit(self._store, self._executor)
        self._leases = Leases(self.ledger, settings.run_id)
        self._rights = Rights(self._leases, self._executor, self._ledger_has_failed, self.ledger.settle)
        self._slots = Slots(settings.max_in_flight)
        self._breaker = Breaker()
        self._expectations = Expectations()
        self._lines: dict[int, Line] = {}
        self._budgets = Budgets(
            settings, self.ledger, self._executor, lambda reason: self.attempts.stop(reason)
        )
        self.is_wanted: Callable[[str], bool] = lambda origin: True
        self._ledger_failed = False
        self._ending = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._signalled = 0
        self._signalling = threading.Lock()
        self._unchecked = 0
        self._counting = threading.Lock()
        self.done = 0
        self.answered = 0
        self.stored = 0
        self.failed = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="groundrows-calls", daemon=True)
        self._thread.start()
        try:
            self.attempts = self._on_loop(self._open(client_of))
        except BaseException:
            self._stop_threads()
            self._close_files()
            raise

    async def _open(self, client_of: Callable[[CallSettings], Client]) -> Attempts:
        settings = self.settings
        self._rights.start()
        return Attempts(
            client=client_of(settings),
            policy=RetryPolicy(settings.max_attempts, settings.retry_seconds, settings.backoff_seconds),
            halt=self.halt,
            halted=asyncio.Event(),
            on_halt=self._turn_everybody_away,
            deadline_seconds=settings.deadline_seconds,
            # A worker that takes over such a budget assumes that no question makes more attempts than this.
            count_probes=settings.max_requests is not None and settings.ledger == "none",
        )

    # -- called by Beam's threads --------------------------------------------------------------------

    def submit(self, batch: Sequence[tuple[Any, Question]], basket: Basket, shard: int = 0) -> None:
        """Accept a batch of questions. Blocks while the backlog is full.

        Each question's outcome is put into the basket. When the ledger fails or no call can succeed, calling
        stops, and the remaining questions get the outcome that they were not attempted.

        Args:
            batch: Pairs of a ticket and a question. The ticket comes back with the outcome.
            basket: Where the outcomes are put.
            shard: The shard whose part of the rate limit and the budget is used.
        """
        basket.expect(len(batch))
        if self._ending:
            return
        kept = self._leave_out(batch, basket)
        if not kept:
            return
        # Leases are taken only after there is room. Otherwise two processes could wait for ever, each for a
        # question that the other has leased and has no room to ask.
        self._backlog.add(len(kept))
        jobs: list[Job] = []
        try:
            jobs = self._look_up(kept, basket)
        finally:
            for _ in range(len(kept) - len(jobs)):
                self._backlog.remove_one()
        if jobs:
            self._loop.call_soon_threadsafe(self._start, jobs, basket, shard)

    def settle(self) -> None:
        """Give back reserved calls when no question is unfinished. Called at the end of a bundle."""
        if has_budget(self.settings) and self._backlog.taken == 0:
            self._on_loop(self._budgets.settle())

    @property
    def throttled_seconds(self) -> float:
        """Seconds that calls have waited for the rate limit so far."""
        # A copy, because the loop's thread may add a line at the same time.
        return sum(line.gate.throttled_seconds for line in list(self._lines.values()))

    def take_throttled_seconds(self) -> int:
        """Return the whole seconds that calls waited for the rate limit since the last time."""
        with self._signalling:
            seconds = int(self.throttled_seconds) - self._signalled
            self._signalled += seconds
            return seconds

    def stop_calling(self) -> int:
        """Make no more calls. Does not wait, so a signal's handler may call it.

        No more outcomes come. Calls in flight continue, and their responses are stored: `close` waits for
        them.

        Returns:
            The number of calls that `close` will wait for.
        """
        self._loop.call_soon_threadsafe(self._let_none_out)
        return self._worth_waiting_for

    def halt_calling(self, reason: str) -> None:
        """Make no more calls, and end all waiting questions as not attempted. Any thread may call it.

        Args:
            reason: One sentence for people.
        """
        self._loop.call_soon_threadsafe(self.attempts.stop, reason)

    @property
    def _worth_waiting_for(self) -> int:
        return 0 if self.settings.ledger == "none" else self.attempts.out

    def close(self) -> None:
        """Stop calling, give back reserved calls and leases, and close everything.

        Calls in flight are paid for. When there is a ledger, this waits for them, at most for the deadline of
        an attempt. All other unfinished questions are dropped.
        """
        if self._unchecked:
            _LOGGER.warning(
                "%d answer(s) in the output could not be checked, because the ledger does not hold them: "
                "name the --ledger of the run that asked them.",
                self._unchecked,
            )
        try:
            self._on_loop(self._close())
        finally:
            self._stop_threads()
            self._close_files()

    def _close_files(self) -> None:
        self.ledger.close()
        if self._delivered is not None:
            self._delivered.close()

    def _on_loop(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _stop_threads(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._executor.shutdown()

    def _leave_out(
        self, batch: Sequence[tuple[Any, Question]], basket: Basket
    ) -> list[tuple[Any, Question, Delivered]]:
        """Leave out duplicates, and questions that are completely answered and checked."""
        delivered = delivered_turns(self._delivered, [question for _, question in batch])
        first = self._claimed([question for _, question in batch])
        kept = []
        for is_first, turns, (ticket, question) in zip(first, delivered, batch, strict=True):
            if not is_first:
                self._deliver(basket, ticket, skipped(question, "duplicate"))
            elif is_complete(question, turns):
                self._deliver(basket, ticket, skipped(question, "already_answered"))
            else:
                kept.append((ticket, question, turns))
        return kept

    def _claimed(self, questions: list[Question]) -> list[bool]:
        everything = [True] * len(questions)
        if self._ledger_failed:
            return everything  # another attempt to use the ledger could take long for every batch
        try:
            return claimed(self.ledger, self.settings.run_id, questions)
        except LedgerError as error:
            self._stop(error)
            return everything

    def _look_up(self, questions: Sequence[tuple[Any, Question, Delivered]], basket: Basket) -> list[Job]:
        """Deliver the outcomes that the ledger has answers for; return the jobs that need a call."""
        jobs = [next_job(ticket, question, (), turns, self.settings) for ticket, question, turns in questions]
        calling, over = jobs, list[Job]()
        if not self._ledger_failed:
            try:
                calling, over = look_up(self._find, jobs, self.settings)
            except LedgerError as error:
                self._stop(error)
        # A question that has rows is not asked again only to check its answer.
        for job in (*over, *(job for job in calling if job.is_delivered)):
            self._finish(basket, job, outcome_of(job, job.answers, None, (), 0))
        return [job for job in calling if not job.is_delivered]

    def _find(self, jobs: Sequence[Job]) -> dict[bytes, Entry]:
        """Return the stored entries. Take leases on the other jobs, if no other process has them."""
        if self.halt.reason is not None:
            return self.ledger.get_many([job.key for job in jobs])
        stored = self._leases.take([job.hold for job in jobs if not job.is_delivered])
        delivered = [job.key for job in jobs if job.is_delivered]
        return {**stored, **self.ledger.get_many(delivered)} if delivered else stored

    def _finish(self, basket: Basket, job: Job, outcome: Outcome) -> None:
        with self._counting:
            self._unchecked += out_of_reach(job, outcome)
        self._deliver(basket, job.ticket, outcome)

    def _deliver(self, basket: Basket, ticket: Any, outcome: Outcome) -> None:
        # Two threads may count at once and lose an update. That is acceptable, as these are for display.
        self.done += 1
        self.answered += outcome.failure is None
        self.failed += outcome.failure is not None
        basket.put(ticket, outcome)

    def _stop(self, error: LedgerError) -> None:
        """Stop calling, from any thread, before the loop gets any further work."""
        self._ledger_failed = True
        self._loop.call_soon_threadsafe(self.attempts.stop, str(error))

    # -- called on the loop --------------------------------------------------------------------------

    def _start(self, jobs: Sequence[Job], basket: Basket, shard: int) -> None:
        for job in jobs:
            task = self._loop.create_task(self._run(job, basket, shard))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _line(self, shard: int) -> Line:
        line = self._lines.get(shard)
        if line is None:
            settings = self.settings
            unlimited = settings.requests_per_minute is None and "://" not in settings.rate_limiter
            gate = Gate(
                self._slots,
                self._pacer_of(settings),
                paced=not unlimited,
                breaker=self._breaker,
                units=open_unit_pacer(settings),
            )
            if self.halt.reason is not None:
                gate.halt()
            line = self._lines[shard] = Line(gate, self._budgets.of(shard), self._budgets.purse)
        return line

    async def _in_executor(self, function: Callable[..., _T], *args: Any) -> _T:
        return await self._loop.run_in_executor(self._executor, function, *args)

    async def _run(self, job: Job, basket: Basket, shard: int) -> None:
        fare = Fare(self._expectations)
        try:
            outcome = await self._ask_turns(job, shard, fare)
        except Exception as error:
            failure = failed(job.question, len(job.answers), internal_error(error))
            outcome = outcome_of(job, job.answers, failure, (), 0, fare)
        if self._ending:
            self.answered += outcome.failure is None
            return  # the waiting thread was interrupted and must not continue without answers
        if outcome.failure is not None and self.settings.release_failed:
            await self._release(job.question)
        # In this order: when a bundle has its last outcome, none of its questions is in the backlog.
        self._backlog.remove_one()
        self._finish(basket, job, outcome)

    async def _release(self, question: Question) -> None:
        if self._ledger_failed:
            return
        try:
            await self._in_executor(release, self.ledger, self.settings.run_id, question)
        except LedgerError as error:
            self._ledger_has_failed(error)

    def _ledger_has_failed(self, error: LedgerError) -> None:
        """Stop calling: without a ledger, no call may be made. From now on it only stores responses."""
        self._ledger_failed = True
        self.attempts.stop(str(error))

    async def _ask_turns(self, job: Job, shard: int, fare: Fare) -> Outcome:
        answers = job.answers
        codes: tuple[str, ...] = ()
        calls = 0
        while True:
            result = await self._ask_turn(job, shard, fare)
            if isinstance(result, GaveUp):
                failure = failed(job.question, len(answers), result)
                codes, calls = codes + result.retry_codes, calls + result.attempts
                return outcome_of(job, answers, failure, codes, calls, fare)
            answer, retry_codes = result
            answers = (*answers, answer)
            codes += retry_codes
            calls += 0 if answer.from_ledger else answer.attempts
            if is_over(job.question, answers):
                return outcome_of(job, answers, None, codes, calls, fare)
            job = next_job(job.ticket, job.question, answers, job.delivered, self.settings)

    async def _ask_turn(self, job: Job, shard: int, fare: Fare) -> tuple[Answer, tuple[str, ...]] | GaveUp:
        """Ask a turn. An internal error fails this question only, not the run."""
        try:
            return await self._ask(job, self._line(shard), fare)
        except LedgerError as error:
            self._ledger_has_failed(error)
            return not_attempted(str(error))
        except SetupError as error:
            # Without a rate limiter, no call may be made.
            self.attempts.stop(str(error))
            return not_attempted(str(error))
        except Exception as error:
            return internal_error(error)

    async def _ask(self, job: Job, line: Line, fare: Fare) -> tuple[Answer, tuple[str, ...]] | GaveUp:
        async def keep(success: Success) -> None:
            await self._keep(job, success)

        right = Right(job.hold, self._leases, self._rights, lambda: self.is_wanted(job.question.origin))
        answered = False
        call = Call(job.request, job.question.user_context)
        fare.need = need_of(job)
        try:
            result = await self.attempts.ask(call, line, keep, right, fare)
            answered = not isinstance(result, GaveUp) and self.settings.ledger != "none"
        finally:
            await self._let_go(job, answered=answered)
        if isinstance(result, GaveUp):
            return result
        retry_codes = result.retry_codes if isinstance(result, Success) else ()
        answer = answer_of(job, result, self.settings, from_ledger=isinstance(result, Entry))
        return answer, retry_codes

    async def _let_go(self, job: Job, *, answered: bool) -> None:
        try:
            # When the ledger has failed or the engine ends, all leases end together.
            await self._rights.let_go(job.hold, answered=answered or self._ledger_failed or self._ending)
        except LedgerError as error:
            self._ledger_has_failed(error)

    def _store(self, entries: Sequence[Entry]) -> Sequence[None]:
        self.ledger.put_many(entries)
        return [None] * len(entries)

    async def _keep(self, job: Job, success: Success) -> None:
        if self.settings.ledger == "none":
            return
        try:
            await self._commit.put(entry_of(job, success))
            self.stored += 1
        except LedgerError as error:
            # This answer is used, but no further call is made whose response can't be stored.
            self._ledger_has_failed(error)

    def _let_none_out(self) -> None:
        self._ending = True
        self.attempts.stop("Calling has ended.")

    def _turn_everybody_away(self) -> None:
        if not self._ending:
            _LOGGER.error("%s", self.halt.reason)
        for line in self._lines.values():
            line.gate.halt()
        self._rights.halt()

    async def _close(self) -> None:
        self._let_none_out()
        if self._worth_waiting_for:
            await asyncio.wait(self._tasks, timeout=self.settings.deadline_seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._commit.flush()  # the responses that arrived are paid for
        await self._budgets.settle()
        await self._rights.close(tell=not self._ledger_failed)
        async with AsyncExitStack() as closing:  # closes each, even when closing another one fails
            closing.push_async_callback(self.attempts.client.close)
            for line in self._lines.values():
                closing.push_async_callback(line.gate.close)
