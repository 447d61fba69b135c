"""The worker's loop: gather a batch, run it beside the others, acknowledge what is on disk."""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty
from typing import Literal

from groundrows.pipeline.run.quantiles import Sketches
from groundrows.pipeline.run.settings import RunSettings
from groundrows.pipeline.worker.batch import (
    drop_failures,
    failures,
    measure,
    output_of_batch,
    publish,
    run_batch,
)
from groundrows.pipeline.worker.gathering import Gathering, Limits
from groundrows.pipeline.worker.hand import Hand, Held
from groundrows.pipeline.worker.pulling import FAILING_SECONDS, Puller, kept
from groundrows.pipeline.worker.subscription import Subscription
from groundrows.schemas.codes import LEFT_TO_ANOTHER, NOT_ATTEMPTED
from groundrows.schemas.errors import FailuresTopicError, SubscriptionError
from groundrows.schemas.rows import FailureRow
from groundrows.transforms.counters import DUPLICATES, RECORDS, RECORDS_READ

# Several batches run at once: a batch ends with its slowest question, and meanwhile the others make calls.
BATCHES_AT_ONCE = 3
# Messages for one batch more than those are pulled ahead.
BATCHES_IN_HAND = BATCHES_AT_ONCE + 1
_POLL_SECONDS = 0.1

EndedBy = Literal["signal", "idle", "nothing_is_asked", "subscription", "failures_topic", "error"]


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker works on.

    Attributes:
        subscription: Where the questions come from.
        settings: How they are asked, and where the rows go.
        runner_flags: Beam's own flags.
        limits: When a batch is full.
        scratch: A directory on this machine for batches under way.
        publish_failures: Publishes failures before their messages are acknowledged. It may raise
            `FailuresTopicError`.
        has_stopped: Whether calling has stopped because nothing can work.
        idle_seconds: Stop after so many seconds without a message; None for never.
    """

    subscription: Subscription
    settings: RunSettings
    runner_flags: Sequence[str]
    limits: Limits
    scratch: str
    publish_failures: Callable[[Iterable[FailureRow]], None]
    has_stopped: Callable[[], bool]
    idle_seconds: float | None = None


@dataclass(slots=True)
class Done:
    """What was done, in one batch or in all.

    Attributes:
        counters: The job's counters.
        sketches: What is known of the answers.
        batches: How many batches.
        given_back: Number of messages that were given back because calling stopped before they had an
            outcome, or because their failure could not be published. The counters do not include them, except
            for an answer of which only the check had no outcome.
        error: Why failures could not be published, or None.
    """

    counters: Counter[tuple[str, str]] = field(default_factory=Counter)
    sketches: Sketches = field(default_factory=Sketches)
    batches: int = 0
    given_back: int = 0
    error: FailuresTopicError | None = None

    def add(self, other: Done) -> None:
        """Add what another batch did."""
        self.counters.update(other.counters)
        self.sketches.merge(other.sketches)
        self.batches += other.batches
        self.given_back += other.given_back
        self.error = self.error or other.error


class Worker:
    """Works off a subscription until told to stop, idle for long enough, or stopped by an error.

    Attributes:
        done: What was done so far.
        error: The error that ended the work, or None.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._hand = Hand()
        self._gathering = Gathering(task.limits)
        self._puller = Puller(
            task.subscription,
            self._hand,
            BATCHES_IN_HAND * task.limits.messages,
            BATCHES_IN_HAND * task.limits.bytes,
            None if task.idle_seconds is None else FAILING_SECONDS,
        )
        self._running: dict[Future[Done], list[Held]] = {}
        self._started = 0
        self._busy_at = time.monotonic()
        self.done = Done()
        self.error: Exception | None = None

    def is_ours(self, origin: str) -> bool:
        """Whether a message's question is this worker's to ask; safe to use from threads."""
        return self._hand.is_ours(origin)

    def work(self, asked_to_stop: Callable[[], bool]) -> EndedBy:
        """Work until the end. Batches that have begun are finished, and messages that wait are given back.

        Args:
            asked_to_stop: Says whether to begin no further batch.
        """
        with kept(self._task.subscription, self._hand), ThreadPoolExecutor(BATCHES_AT_ONCE) as pool:
            self._puller.start()
            try:
                ended_by = self._until_over(pool, asked_to_stop)
            finally:
                self._puller.stop()
            self._give_back(self._waiting())
            for batch in list(self._running):
                self._settle(batch)
            self._puller.join()
            self._give_back(self._waiting())
        repeated = self._hand.repeated
        self.done.counters.update({(RECORDS, RECORDS_READ): repeated, (RECORDS, DUPLICATES): repeated})
        if isinstance(self.error, FailuresTopicError):
            return "failures_topic"
        # If the last pull fails while the work ends anyway, that is no error of the run.
        return ended_by if self.error is None or self.error is self._puller.error else "error"

    def _until_over(self, pool: ThreadPoolExecutor, asked_to_stop: Callable[[], bool]) -> EndedBy:
        while True:
            self._gather()
            for batch in [batch for batch in self._running if batch.done()]:
                self._settle(batch)
            if self.error is not None:
                return "error"
            if self._puller.error is not None:
                self.error = self._puller.error
                return "subscription" if isinstance(self.error, SubscriptionError) else "error"
            # Messages that are given back come again at once and would be pulled for another batch.
            stopped = self._task.has_stopped()
            if self.done.given_back or (stopped and not self._running):
                return "nothing_is_asked"
            if asked_to_stop():
                return "signal"
            now = time.monotonic()
            if self._is_idle(now):
                return "idle"
            if not stopped and len(self._running) < BATCHES_AT_ONCE and self._gathering.is_due(now):
                self._start(pool, self._gathering.take())

    def _is_idle(self, now: float) -> bool:
        if self._hand.count:
            self._busy_at = now
        quiet_since, idle_seconds = self._puller.quiet_since, self._task.idle_seconds
        if quiet_since is None or idle_seconds is None:
            return False
        return now - max(self._busy_at, quiet_since) >= idle_seconds

    def _gather(self) -> None:
        with suppress(Empty):
            self._gathering.add(self._puller.arrived.get(timeout=_POLL_SECONDS))
            while True:
                self._gathering.add(self._puller.arrived.get_nowait())

    def _waiting(self) -> list[Held]:
        with suppress(Empty):
            while True:
                self._gathering.add(self._puller.arrived.get_nowait())
        return self._gathering.take_all()

    def _start(self, pool: ThreadPoolExecutor, messages: list[Held]) -> None:
        self._started += 1
        self._running[pool.submit(self._work_off, self._started, messages)] = messages

    def _settle(self, batch: Future[Done]) -> None:
        """Wait for a batch to end, and add what it did."""
        messages = self._running.pop(batch)
        try:
            self.done.add(batch.result())
            self.error = self.error or self.done.error
        except Exception as error:
            self.error = self.error or error
            self._give_back(messages)
        # A graph is full of cycles that hold the batch's messages; left alone they pile up for minutes. What
        # was there before the first batch is frozen, so this takes some 20 ms.
        gc.collect()

    def _give_back(self, messages: Iterable[Held]) -> None:
        ack_ids = self._hand.let_go(messages, done=False, now=time.monotonic())
        self._task.subscription.give_back(ack_ids)

    def _work_off(self, number: int, messages: list[Held]) -> Done:
        """Ask what a batch of messages asks, and acknowledge them; in a thread of its own."""
        task = self._task
        batch = output_of_batch(task.settings.output, os.path.join(task.scratch, f"batch-{number}"))
        settings = replace(task.settings, output=batch)
        counters = Counter(run_batch([held.record for held in messages], settings, task.runner_flags))
        rows = list(failures(batch))
        left = {row.origin for row in rows if row.code == LEFT_TO_ANOTHER}
        back = self._to_give_back(rows) - left
        failed = {row.origin for row in rows} - back - left
        error = None
        try:
            # Before the rows get their final names: a failure that the topic did not take is not written,
            # since its message comes again.
            task.publish_failures([row for row in rows if row.origin in failed])
        except FailuresTopicError as broken:
            error = broken
            back |= failed
        if back or left:
            # A count of zero is left out: otherwise its code would be shown as one that did occur.
            counters -= drop_failures(batch, back | left, checks_are_records=settings.calls.method == "check")
        done = Done(counters, measure(batch), batches=1, given_back=len(back), error=error)
        publish(batch, task.settings.output)
        # Of what was left to another worker the server knows better, unless it has come here again.
        self._give_back([held for held in messages if held.record.origin in back | left])
        now = time.monotonic()
        ack_ids = self._hand.let_go(
            [held for held in messages if held.record.origin not in failed | back | left], done=True, now=now
        )
        ack_ids += self._hand.let_go(
            [held for held in messages if held.record.origin in failed - back], done=False, now=now
        )
        task.subscription.acknowledge(ack_ids)
        return done

    def _to_give_back(self, rows: Sequence[FailureRow]) -> set[str]:
        """Return the origins of messages to give back, so that a run in which nothing works burns no queue.

        Calling that has stopped does not start again. A question that failed meanwhile with a passing error
        either made it stop or could not be tried again.
        """
        if not self._task.has_stopped() and all(row.code != NOT_ATTEMPTED for row in rows):
            return set()
        return {row.origin for row in rows if row.retryable}
