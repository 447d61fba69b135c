"""Beam's transform from questions to outcomes. It is the only module in this folder that uses Beam.

`GenerateAnswers` is for calls that take a second or more. For calls of a few milliseconds, a plain `ParDo`
with Beam's batching is simpler and as fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder
from apache_beam.io.components.adaptive_throttler import ThrottlingSignaler
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from groundrows.schemas.codes import NOT_ATTEMPTED
from groundrows.schemas.errors import StoppedError
from groundrows.schemas.outcome import Outcome
from groundrows.schemas.question import Question
from groundrows.schemas.spending import NOTHING
from groundrows.transforms.counters import (
    CALLS,
    CHECKS,
    FIRST_PART_MS,
    FROM_LEDGER,
    HALTED,
    LATENCY_MS,
    QUESTIONS,
    RECORDS,
    RETRIES,
    retries_by_code,
    spent_by_model,
)
from groundrows.transforms.generate.calling import shared
from groundrows.transforms.generate.calling.basket import Basket
from groundrows.transforms.generate.calling.budget import budget_scope
from groundrows.transforms.generate.calling.engine import Engine
from groundrows.transforms.generate.clients.open import open_client
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from groundrows.transforms.generate.pacing.open import open_pacer
from groundrows.transforms.generate.settings import CallSettings
from groundrows.transforms.shards import KeyByShard


class GenerateAnswers(beam.PTransform):
    """Takes a PCollection[Question]; gives a PCollection[Outcome], with exactly one outcome per question.

    An outcome keeps its question's window and timestamp. Calls of different elements and batches run at the
    same time; a bundle (a part of the PCollection that Beam processes as one unit) ends when its own
    questions have their outcomes. Counters are in the namespace `groundrows`, or `groundrows.checks` when the
    method is `check`. With `rate_limiter="sharded"`, the questions are first distributed over `pacing_shards`
    shards by a shuffle. Otherwise nothing is shuffled.

    When no call can succeed (see `calling/halt.py`), the remaining questions of a bounded input end as
    `NOT_ATTEMPTED`. For an unbounded input, the bundle fails instead, and the runner repeats it, with new
    calls, until it succeeds. Only a spent budget ends these questions, too.

    Args:
        settings: The settings of the calls.
        client_of: Makes the client that calls the service, once per process. It must be a class or a
            module's function. Objects that are not equal after pickling, such as partials, would each get an
            engine and a rate limit of their own.
        pacer_of: Makes a shard's pacer. The same rules apply.
    """

    def __init__(
        self,
        settings: CallSettings,
        client_of: shared.ClientOf = open_client,
        pacer_of: shared.PacerOf = open_pacer,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._client_of = client_of
        self._pacer_of = pacer_of

    def expand(self, questions: Any) -> Any:
        """Add the steps that call, directly or shard by shard.

        Raises:
            ValueError: The budget of calls would be counted in keyed state, and every window would start it
                again; or a budget of tokens or searches has no ledger to be counted in.
        """
        arguments = (self._settings, self._client_of, self._pacer_of, not questions.is_bounded)
        if self._settings.rate_limiter != "sharded":
            return questions | "Call" >> beam.ParDo(_GenerateFn(*arguments)).with_output_types(Outcome)
        if _budget_in_state(self._settings) and not isinstance(questions.windowing.windowfn, GlobalWindows):
            raise ValueError(
                "max_requests over windows is counted in a ledger: name one, or ask before windowing"
            )
        if _unit_budgets_in_parts(self._settings):
            raise ValueError(
                "max_tokens and max_searches over shards need a ledger to be counted in: name one"
            )
        if questions.is_bounded and isinstance(questions.windowing.windowfn, GlobalWindows):
            return (
                questions
                | KeyByShard(self._settings.pacing_shards)
                | "Note timestamps" >> beam.Map(_with_timestamp).with_output_types(tuple[int, Any])
                | "GroupByShard" >> beam.GroupByKey()
                | "CallGroups" >> beam.ParDo(_GenerateGroupFn(*arguments)).with_output_types(Outcome)
            )
        return (
            questions
            | KeyByShard(self._settings.pacing_shards)
            | "CallByShard" >> beam.ParDo(_GenerateShardFn(*arguments)).with_output_types(Outcome)
        )


def _with_timestamp(
    keyed: tuple[int, Question], timestamp: Any = beam.DoFn.TimestampParam
) -> tuple[int, tuple[Question, Any]]:
    # Grouping would replace the timestamp by the end of the window.
    shard, question = keyed
    return shard, (question, timestamp)


class _Calling(beam.DoFn):
    """What all ways of calling share: the engine, batches, and outcomes in their questions' windows."""

    def __init__(
        self,
        settings: CallSettings,
        client_of: shared.ClientOf,
        pacer_of: shared.PacerOf,
        comes_again: bool = False,
    ) -> None:
        self._settings = settings
        self._client_of = client_of
        self._pacer_of = pacer_of
        self._comes_again = comes_again
        namespace = CHECKS if settings.method == "check" else RECORDS
        self._retries_by_code = retries_by_code(namespace)
        self._calls = Metrics.counter(namespace, CALLS)
        self._retries = Metrics.counter(namespace, RETRIES)
        self._from_ledger = Metrics.counter(namespace, FROM_LEDGER)
        self._halted = Metrics.counter(namespace, HALTED)
        self._latency = Metrics.distribution(namespace, LATENCY_MS)
        self._first_part = Metrics.distribution(namespace, FIRST_PART_MS)
        self._throttled = ThrottlingSignaler(namespace=namespace)

    def setup(self) -> None:
        self._engine = self._acquired()

    def _acquired(self) -> Engine:
        return shared.acquire(self._settings, self._client_of, self._pacer_of, anew=self._comes_again)

    def teardown(self) -> None:
        shared.release(self._engine)

    def start_bundle(self) -> None:
        if self._comes_again and self._engine.halt.reason is not None:
            stopped, self._engine = self._engine, self._acquired()
            shared.release(stopped)
        self._basket = Basket()
        self._batches: dict[int, list[tuple[Any, Question]]] = {}
        # The largest number of calls that this bundle's questions may still make, by shard.
        self._open: Counter[int] = Counter()

    def _add(self, shard: int, question: Question, timestamp: Any, window: Any) -> Iterator[WindowedValue]:
        batch = self._batches.setdefault(shard, [])
        batch.append(((timestamp, window, shard), question))
        self._open[shard] += self._most_calls(question)
        if len(batch) >= self._settings.batch_size:
            del self._batches[shard]
            self._engine.submit(batch, self._basket, shard)
            yield from self._emit(self._basket.take())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for shard, batch in self._batches.items():
            self._engine.submit(batch, self._basket, shard)
            yield from self._emit(self._basket.take())
        self._batches = {}
        for finished in self._basket.drain():
            yield from self._emit(finished)
        self._engine.settle()
        self._signal()

    def _emit(self, finished: Iterable[tuple[Any, Outcome]]) -> Iterator[WindowedValue]:
        for (timestamp, window, shard), outcome in finished:
            if self._comes_again and self._was_turned_away(outcome):
                raise StoppedError(self._engine.halt.reason)
            self._open[shard] -= self._most_calls(outcome.question)
            self._count(outcome)
            yield WindowedValue(outcome, timestamp, (window,))
        self._signal()

    def _was_turned_away(self, outcome: Outcome) -> bool:
        failure = outcome.failure
        return failure is not None and failure.code == NOT_ATTEMPTED and self._engine.halt.reason is not None

    def _most_calls(self, question: Question) -> int:
        return len(question.turns) * self._settings.max_attempts

    def _signal(self) -> None:
        # Tells the runner that this worker waits for a rate limit, so that it does not add workers.
        seconds = self._engine.take_throttled_seconds()
        if seconds:
            self._throttled.signal_throttled(seconds)

    def _count(self, outcome: Outcome) -> None:
        if self._was_turned_away(outcome):
            self._halted.inc()
        if outcome.calls:
            self._calls.inc(outcome.calls)
        for code in outcome.retry_codes:
            self._retries.inc()
            Metrics.counter(self._retries_by_code, code).inc()
        if outcome.spent != NOTHING:
            for kind, count in (*asdict(outcome.spent).items(), (QUESTIONS, 1)):
                if count:
                    Metrics.counter(spent_by_model(kind), outcome.model).inc(count)
        for answer in outcome.answers:
            if answer.from_ledger:
                self._from_ledger.inc()
            else:
                self._latency.update(round(answer.latency_ms))
                if answer.first_part_ms is not None:
                    self._first_part.update(round(answer.first_part_ms))


class _GenerateFn(_Calling):
    def process(
        self,
        question: Question,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[WindowedValue]:
        yield from self._add(0, question, timestamp, window)


class _GenerateGroupFn(_Calling):
    """Asks all questions of a shard, which are one element, so that each shard is on one worker.

    This is for bounded inputs. Keyed state would have the same effect, but the local runner gives a stateful
    step only one worker. And because a group is processed in one piece, its part of the budget need not be
    stored.
    """

    def process(
        self,
        group: tuple[int, Iterable[tuple[Question, Any]]],
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[WindowedValue]:
        shard, questions = group
        for question, timestamp in questions:
            yield from self._add(shard, question, timestamp, window)


class _GenerateShardFn(_Calling):
    """Asks the questions of a stream's shards. A shard has state, so it is on one worker at a time.

    The state holds the largest number of calls that the shard may have made, and the name of the worker that
    wrote it. State can be written only while an element of the shard is processed. So the number includes all
    attempts that the questions of the bundle may still make. The worker that wrote it last continues from its
    own exact count; another worker continues from the number in the state. Only the worker itself knows the
    calls of a bundle that failed.
    """

    SPENT = ReadModifyWriteStateSpec("spent", StrUtf8Coder())

    def start_bundle(self) -> None:
        super().start_bundle()
        self._seen: set[int] = set()

    def process(
        self,
        element: tuple[int, Question],
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        spent: Any = beam.DoFn.StateParam(SPENT),  # noqa: B008 - Beam declares state in this way
    ) -> Iterator[WindowedValue]:
        shard, question = element
        if _budget_in_state(self._settings):
            self._look_ahead(shard, question, spent)
        yield from self._add(shard, question, timestamp, window)

    def _look_ahead(self, shard: int, question: Question, spent: Any) -> None:
        ledger = self._engine.ledger
        assert isinstance(ledger, MemoryLedger)
        scope = budget_scope(self._settings, shard)
        if shard not in self._seen:
            self._seen.add(shard)
            name, _, count = (spent.read() or "").partition(" ")
            if count and name != ledger.name:
                ledger.start_from(scope, int(count))
        most = ledger.reserved(scope) + self._open[shard] + self._most_calls(question)
        spent.write(f"{ledger.name} {most}")


def _budget_in_state(settings: CallSettings) -> bool:
    return settings.max_requests is not None and settings.ledger == "none"


def _unit_budgets_in_parts(settings: CallSettings) -> bool:
    has_any = settings.max_tokens is not None or settings.max_searches is not None
    return has_any and settings.ledger == "none" and settings.pacing_shards > 1
