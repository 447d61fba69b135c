from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from groundrows.schemas.discoveryengine.messages import response_class
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from groundrows.transforms.generate.calling.job import (
    Job,
    answer_of,
    claimed,
    look_up,
    model_of,
    next_job,
    question_key,
    release,
    stored_in,
)
from groundrows.transforms.generate.ledger.base import Entry, fingerprint
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from groundrows.transforms.generate.settings import CallSettings
from tests.support.engines import make_check

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = CallSettings("", False, "projects/p/locations/global", "v1", "run")


def question(body: str, origin: str = "a:1") -> Question:
    return parse_question(Record(body.encode(), origin), RecordSettings())


def job_of(asked: Question, settings: CallSettings = SETTINGS) -> Job:
    return next_job("ticket", asked, (), {}, settings)


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
    assert look_up(stored_in(ledger), [job], SETTINGS) == ([job], [])
    ledger.put_many([stored(job, "eins")])
    (second,), over = look_up(stored_in(ledger), [job], SETTINGS)
    assert over == []
    assert [(answer.turn_index, answer.attempts, answer.from_ledger) for answer in second.answers] == [
        (0, 2, True)
    ]
    assert b"eins" in second.request
    assert second.key != job.key
    # A turn that is stored behind a gap is out of reach: its request would hold the missing answer.
    ledger.put_many([stored(second, "zwei")])
    (third,), _ = look_up(stored_in(ledger), [job], SETTINGS)
    ledger.put_many([stored(third, "drei")])
    calling, (done,) = look_up(stored_in(ledger), [job], SETTINGS)
    assert calling == []
    assert [answer.turn_index for answer in done.answers] == [0, 1, 2]
    other_first = replace(stored(job, "uno"), key=job.key)
    ledger.put_many([other_first])
    (again,), _ = look_up(stored_in(ledger), [job], SETTINGS)
    assert len(again.answers) == 1


def test_a_stored_answer_without_a_candidate_ends_the_conversation(ledger) -> None:
    job = job_of(question('{"id": "a", "turns": ["one", "two"]}'))
    ledger.put_many([stored(job, None)])
    calling, (done,) = look_up(stored_in(ledger), [job], SETTINGS)
    assert calling == []
    assert len(done.answers) == 1


def test_a_batch_is_sorted_into_what_calls_and_what_is_over(ledger) -> None:
    jobs = [job_of(question(f'{{"id": "{n}", "question": "Why {n}?"}}')) for n in range(5)]
    ledger.put_many([stored(job, "So.") for job in jobs[1::2]])
    calling, over = look_up(stored_in(ledger), jobs, SETTINGS)
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


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_claim_is_taken_back_by_whoever_holds_it(ledger, in_memory: bool) -> None:
    book = MemoryLedger() if in_memory else ledger
    first, same = question('{"question": "Why?"}', "a:1"), question('{"question": "Why?"}', "a:2")
    assert claimed(book, "run", [first]) == [True]
    release(book, "run", same)
    assert claimed(book, "run", [same]) == [False]
    release(book, "run", first)
    assert claimed(book, "run", [same]) == [True]
    assert claimed(book, "run", [first]) == [False]


# -- what an answer is kept under ------------------------------------------------------------------------


def test_a_stream_has_answers_of_its_own_and_the_transport_has_not() -> None:
    asked = question('{"id": "a", "question": "Why?"}')
    streaming = replace(SETTINGS, stream_answers=True)
    assert job_of(asked).key != job_of(asked, streaming).key
    for settings in (SETTINGS, streaming):
        assert job_of(asked, settings).key == job_of(asked, replace(settings, transport="rest")).key
    stored_answer = stored(job_of(asked), "So.")
    assert not answer_of(job_of(asked), stored_answer, SETTINGS, from_ledger=True).streamed
    assert answer_of(job_of(asked), stored_answer, streaming, from_ledger=True).streamed


def test_a_check_is_no_generation_and_is_never_streamed() -> None:
    check = make_check("Tin melts.")
    checking = replace(SETTINGS, method="check")
    assert job_of(check, checking).key == job_of(check, replace(checking, stream_answers=True)).key
    assert question_key(check) != question_key(replace(check, method="generate"))
    answer = answer_of(
        job_of(check), stored(job_of(check), None), replace(checking, stream_answers=True), from_ledger=True
    )
    assert (answer.method, answer.streamed) == ("check", False)


def test_what_only_rest_carries_is_part_of_what_is_asked() -> None:
    plain = question('{"id": "a", "question": "Why?"}')
    contexts = [None, "", "{}", '{"languageCode":"sv"}']
    asked = [replace(plain, user_context=context) for context in contexts]
    assert len({job_of(one).key for one in asked}) == len(contexts)
    assert len({question_key(one) for one in asked}) == len(contexts)


def test_what_is_told_the_model_turn_by_turn_is_part_of_what_is_asked() -> None:
    plain = question('{"id": "a", "turns": ["one", "two"]}')
    told = [(), (None, None), (None, b"x"), (b"x", None), (b"x", b"x"), (b"xx", None)]
    assert len({question_key(replace(plain, instructions=one)) for one in told}) == len(told)


def test_answers_kept_by_earlier_versions_are_found() -> None:
    # These digests stand in ledgers that exist.
    assert fingerprint(b"request", "v1").hex() == UNARY
    assert fingerprint(b"request", "v1", streamed=True).hex() == STREAM
    others = [
        fingerprint(b"request", "v1", method="check"),
        fingerprint(b"request", "v1beta"),
        fingerprint(b"request", "v1", user_context="{}"),
        fingerprint(b"request", "v1", streamed=True, user_context="{}"),
    ]
    assert len({UNARY, STREAM, *(one.hex() for one in others)}) == 6


UNARY = "7d643636c69ef65c1e0c6225127c5f9e7b40840d6af2040460abea92445e659a"
STREAM = "1985083f119179030a8f8de2eb0353369c8f53724af4e3e87de3c03c229dbb7e"


def test_the_model_is_the_one_that_the_request_names() -> None:
    named = question('{"question": "Why?", "generation_spec": {"model_id": "m"}}')
    assert model_of(job_of(named)) == "m"
    assert model_of(job_of(question('{"question": "Why?"}'))) == ""
    assert model_of(job_of(make_check("Tin melts."), replace(SETTINGS, method="check"))) == ""
