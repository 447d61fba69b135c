"""What pipelines of the tests are made of: everything here is pickled, and unpickled in worker processes."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue

from groundrows.schemas.errors import CallError
from groundrows.schemas.outcome import Outcome
from groundrows.schemas.question import Question
from groundrows.transforms.generate.clients.base import Call, Reply
from groundrows.transforms.generate.settings import CallSettings
from tests.support.engines import HandClient, response

# Of this process: outcomes with window and timestamp, and the backends that were made.
collected: list[tuple[Outcome, Any, Any]] = []
clients: list[HandClient] = []


def forget_everything() -> None:
    """Start afresh."""
    collected.clear()
    clients.clear()


async def _uneven(prompt: str, nth: int) -> bytes:
    await asyncio.sleep(zlib.crc32(prompt.encode()) % 20 / 1000)
    return response(prompt)


async def _shaky(prompt: str, nth: int) -> bytes:
    if nth == 1 and prompt.endswith("1"):
        raise CallError("UNAVAILABLE", "")
    if nth <= 2 and prompt.endswith("2"):
        raise CallError("ABORTED", "")
    if prompt.endswith("3"):
        raise CallError("INVALID_ARGUMENT", f"never {prompt}")
    return response(prompt)


def uneven_client(settings: CallSettings) -> HandClient:
    """A backend whose answers come in another order than the questions."""
    clients.append(HandClient(_uneven))
    return clients[-1]


def shaky_client(settings: CallSettings) -> HandClient:
    """A backend that fails by the last digit of the prompt: 1 once, 2 twice, 3 for good."""
    clients.append(HandClient(_shaky))
    return clients[-1]


class _ByMethod:
    """Fails once for what ends in 1, and answers in two parts where a stream is asked for."""

    def __init__(self, settings: CallSettings) -> None:
        self._settings = settings
        self._seen: set[bytes] = set()

    async def ask(self, call: Call, deadline: float) -> Reply:
        if call.request not in self._seen and b"1" in call.request:
            self._seen.add(call.request)
            raise CallError("UNAVAILABLE", "")
        if self._settings.method == "check":
            return Reply(b"")
        return Reply(response("x"), 7.4 if self._settings.stream_answers else None)

    async def close(self) -> None:
        pass


def client_by_method(settings: CallSettings) -> _ByMethod:
    """A backend that answers what the settings ask for."""
    return _ByMethod(settings)


def denied_at_first(settings: CallSettings) -> HandClient:
    """A backend that nobody may call; the second that is made, as by an operator who has mended it, answers."""

    async def denied(prompt: str, nth: int) -> bytes:
        raise CallError("PERMISSION_DENIED", "nobody may")

    clients.append(HandClient(_uneven if clients else denied))
    return clients[-1]


def another_client(settings: CallSettings) -> HandClient:
    """A backend like the shaky one; engines of the two are apart, as those of two workers are."""
    return shaky_client(settings)


def stamped(question: Question) -> TimestampedValue:
    """A question at the second that its metadata says."""
    return TimestampedValue(question, json.loads(question.metadata or "{}").get("second", 0))


class Collect(beam.DoFn):
    """Notes outcomes with their window and timestamp."""

    def process(
        self,
        outcome: Outcome,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Outcome]:
        collected.append((outcome, timestamp, window))
        yield outcome


def described(outcome: Outcome) -> str:
    """A line of JSON for an outcome: its question, how it ended, and its calls."""
    ended = outcome.failure.code if outcome.failure else outcome.skip or "OK"
    return json.dumps([outcome.question.question_id, ended, outcome.calls])
