from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.messages import response_class
from schemas.question import Question, RecordSettings, parse_question
from schemas.record import Record
from transforms.generate.job import Job, claimed, look_up, next_job, question_key
from transforms.generate.ledger.base import Entry
from transforms.generate.ledger.memory import MemoryLedger
from transforms.generate.ledger.sqlite import SqliteLedger
from transforms.generate.settings import CallSettings

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = CallSettings("", False, "projects/p/locations/global", "v1", "run")


def question(body: str, origin: str = "a:1") -> Question:
    return parse_question(Record(body.encode(), origin), RecordSettings())


def job_of(asked: Question, settings: CallSettings = SETTINGS) -> Job:
    return next_job("ticket", asked, (), frozenset(), settings)


def stored(job: Job, text: str | None) -> Entry:
    response: Any = response_class("v1")()
    if text is not None:
        response.candidates.add().content.parts.add().text = text
    return Entry(
        job.key,
        job.question.question_id,
        len(job.answers),
        "",
        response.SerializeToString(),
        2,
        3.5,
        NOON,
        NOON,
    )


@pytest.fixture
def ledger(tmp_path):
    opened = SqliteLedger(str(tmp_path / "ledger.sqlite"))
    yield opened
    opened.close()


def test_a_conversation_calls_from_its_first_turn_that_is_not_stored(ledger) -> None:
    job = job_of(question('{"id": "a", "turns": ["one", "two", "three"]}'))
    assert look_up(ledger, [job], SETTINGS) == ([job], [])
    ledger.put_many([stored(job, "eins")])
    (second,), over = look_up(ledger, [job], SETTINGS)
    assert over == []
    assert [(answer.turn_index, answer.attempts, answer.from_ledger) for answer in second.answers] == [
        (0, 2, True)
    ]
    assert b"eins" in second.request
    assert second.key != job.key
    # A turn that is stored behind a gap is out of reach: its request would hold the missing answer.
    ledger.put_many([stored(second, "zwei")])
    (third,), _ = look_up(ledger, [job], SETTINGS)
    ledger.put_many([stored(third, "drei")])
    calling, (done,) = look_up(ledger, [job], SETTINGS)
    assert calling == []
    assert [answer.turn_index for answer in done.answers] == [0, 1, 2]
    other_first = replace(stored(job, "uno"), key=job.key)
    ledger.put_many([other_first])
    (again,), _ = look_up(ledger, [job], SETTINGS)
    assert len(again.answers) == 1


def test_a_stored_answer_without_a_candidate_ends_the_conversation(ledger) -> None:
    job = job_of(question('{"id": "a", "turns": ["one", "two"]}'))
    ledger.put_many([stored(job, None)])
    calling, (done,) = look_up(ledger, [job], SETTINGS)
    assert calling == []
    assert len(done.answers) == 1


def test_a_batch_is_sorted_into_what_calls_and_what_is_over(ledger) -> None:
    jobs = [job_of(question(f'{{"id": "{n}", "question": "Why {n}?"}}')) for n in range(5)]
    ledger.put_many([stored(job, "So.") for job in jobs[1::2]])
    calling, over = look_up(ledger, jobs, SETTINGS)
    assert calling == jobs[::2]
    assert [job.question.question_id for job in over] == ["1", "3"]


def test_the_id_is_part_of_the_key_unless_equal_requests_are_shared() -> None:
    one, other = question('{"id": "a", "question": "Why?"}'), question('{"id": "b", "question": "Why?"}')
    assert job_of(one).key != job_of(other).key
    sharing = replace(SETTINGS, share_identical=True)
    assert job_of(one, sharing).key == job_of(other, sharing).key
    elsewhere = replace(SETTINGS, location="projects/q/locations/global")
    assert job_of(one).key != job_of(one, elsewhere).key


@pytest.mark.parametrize(
    "other",
    [
        '{"id": "b", "turns": ["one", "two"]}',
        '{"id": "a", "turns": ["one"]}',
        '{"id": "a", "turns": ["one", "three"]}',
        '{"id": "a", "turns": ["one", "two"], "system_instruction": "Be brief."}',
    ],
)
def test_another_question_has_another_key(other: str) -> None:
    body = '{"id": "a", "turns": ["one", "two"]}'
    assert question_key(question(body)) == question_key(question(body, "elsewhere:9"))
    assert question_key(question(body)) != question_key(question(other))


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_first_origin_keeps_its_claim(ledger, in_memory: bool) -> None:
    book = MemoryLedger() if in_memory else ledger
    first, same, other = (question('{"question": "Why?"}', f"a:{n}") for n in range(3))
    assert claimed(book, "run", [first, same, question('{"question": "How?"}')]) == [True, False, True]
    # The bundle is tried again, and another one comes.
    assert claimed(book, "run", [same, first]) == [False, True]
    assert claimed(book, "run", [other]) == [False]
    assert claimed(book, "another run", [other]) == [True]
    assert claimed(book, "run", []) == []
