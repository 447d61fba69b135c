"""What the tests of the calling share: questions, settings, backends written by hand, and an engine to ask."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from groundrows.schemas.discoveryengine.messages import request_class, response_class
from groundrows.schemas.outcome import Outcome
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.transforms.generate.calling.basket import Basket
from groundrows.transforms.generate.calling.engine import Engine
from groundrows.transforms.generate.clients.base import Call, Client, Reply
from groundrows.transforms.generate.clients.open import open_client
from groundrows.transforms.generate.pacing.open import open_pacer
from groundrows.transforms.generate.settings import CallSettings

LOCATION = "projects/p/locations/global"
Behaviour = Callable[[str, int], Awaitable[bytes]]


def make_question(text: str | Sequence[str], origin: str | None = None, **fields: Any) -> Question:
    """A question of one turn, or of several; its text is its id and its origin unless others are given."""
    turns = [text] if isinstance(text, str) else list(text)
    record = {"id": turns[0], "turns": turns} | fields
    return parse_question(Record(json.dumps(record).encode(), origin or turns[0]), RecordSettings())


def questions(count: int, prefix: str = "q") -> list[Question]:
    """So many questions of one turn, which differ in their number."""
    return [make_question(f"{prefix}{number}") for number in range(count)]


def make_check(answer: str, facts: Sequence[str] = (), question_id: str = "q") -> Question:
    """The question of whether facts support an answer."""
    message = request_class("v1", "check")(
        answer_candidate=answer, facts=[{"fact_text": fact} for fact in facts or [answer]]
    )
    asked = make_question(answer, id=question_id)
    return replace(asked, method="check", request=message.SerializeToString(deterministic=True))


def make_settings(endpoint: str = "127.0.0.1:9", **changes: Any) -> CallSettings:
    """Settings that waste no time: short waits between attempts, and no limit."""
    quick: dict[str, Any] = {
        "endpoint": endpoint,
        "secure": False,
        "location": LOCATION,
        "api_version": "v1",
        "run_id": "run",
        "backoff_seconds": 0.001,
        "deadline_seconds": 20.0,
        "max_attempts": 3,
    }
    return CallSettings(**(quick | changes))


def response(text: str) -> bytes:
    """A response with one candidate that says `text`."""
    message = response_class("v1")()
    message.candidates.add().content.parts.add(text=text)
    return message.SerializeToString()


def text_of(answer: bytes) -> str:
    """What a response's first candidate says."""
    return response_class("v1").FromString(answer).candidates[0].content.parts[0].text


def prompt_of(request: bytes) -> str:
    """The last user turn of a request."""
    return request_class("v1").FromString(request).contents[-1].parts[0].text


async def echo(prompt: str, nth: int) -> bytes:
    """Answers at once with the prompt and the number of the call that asked it."""
    return response(f"{prompt}/{nth}")


class HandClient:
    """A backend whose behaviour is a coroutine function of the prompt and of how often it was asked.

    `most_out` is how many calls were out at once at most; `log` holds the prompts in the order of arrival.
    """

    def __init__(self, behaviour: Behaviour = echo) -> None:
        self.log: list[str] = []
        self.out = 0
        self.most_out = 0
        self.closed = False
        self._behaviour = behaviour
        self._seen: Counter[str] = Counter()

    async def ask(self, call: Call, deadline: float) -> Reply:
        prompt = prompt_of(call.request)
        self._seen[prompt] += 1
        self.log.append(prompt)
        self.out += 1
        self.most_out = max(self.most_out, self.out)
        try:
            return Reply(await self._behaviour(prompt, self._seen[prompt]))
        finally:
            self.out -= 1

    async def close(self) -> None:
        self.closed = True


@contextmanager
def engine_for(
    settings: CallSettings,
    client: Client | None = None,
    pacer_of: Callable[[CallSettings], Any] = open_pacer,
) -> Iterator[Engine]:
    """An engine, by default calling over the settings' transport; closed when the block ends."""
    engine = Engine(settings, open_client if client is None else lambda _: client, pacer_of)
    try:
        yield engine
    finally:
        engine.close()


def ask(engine: Engine, questions: Sequence[Question], shard: int = 0) -> list[Outcome]:
    """Hand the questions in as one bundle would, and return their outcomes in the same order."""
    basket = Basket()
    size = engine.settings.batch_size
    for start in range(0, len(questions), size):
        batch = list(enumerate(questions))[start : start + size]
        engine.submit(batch, basket, shard)
    outcomes = dict(outcome for finished in basket.drain() for outcome in finished)
    engine.settle()
    assert sorted(outcomes) == list(range(len(questions)))
    return [outcomes[index] for index in range(len(questions))]


def codes_of(outcomes: Sequence[Outcome]) -> Counter[str]:
    """How the outcomes ended: `OK`, a skip, or a failure's code."""
    return Counter(outcome.failure.code if outcome.failure else outcome.skip or "OK" for outcome in outcomes)


def read_log(path: Path) -> list[dict[str, Any]]:
    """An emulator's call log."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(coroutine: Any, seconds: float = 20.0) -> Any:
    """Run a coroutine, but not for ever."""

    async def bounded() -> Any:
        return await asyncio.wait_for(coroutine, seconds)

    return asyncio.run(bounded())
