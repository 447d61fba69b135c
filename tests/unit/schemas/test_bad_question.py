import json
import os
import pickle
import re

import pytest

from groundrows.schemas.errors import RecordError
from groundrows.schemas.question import RecordSettings, parse_question
from groundrows.schemas.record import Record
from tests.support.bad_records import BAD_RECORDS, PARSE_CODES


def failure(body: bytes, **settings: object) -> RecordError:
    with pytest.raises(RecordError) as caught:
        parse_question(Record(body, "a.jsonl:1"), RecordSettings(**settings))
    return caught.value


@pytest.mark.parametrize(("body", "code"), [pytest.param(b, c, id=n) for n, b, c in BAD_RECORDS])
def test_a_bad_record_fails_by_its_code(body: bytes, code: str) -> None:
    error = failure(body)
    assert error.code == code
    assert error.stage == ("parse" if code in PARSE_CODES else "validate")
    assert len(error.message) < 400
    assert "\n" not in error.message
    error.message.encode()
    error.question_id.encode()
    assert 0 < len(error.question_id) <= 1000
    again = failure(body)
    assert (again.question_id, again.message) == (error.question_id, error.message)


def test_names_are_used_once() -> None:
    names = [name for name, _, _ in BAD_RECORDS]
    assert len(set(names)) == len(names) >= 60


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'\xef\xbb\xbf{"question": "\xff"}', r"byte offset 17\b"),
        (b'{"question": nope}', r"character 14\b"),
        (rb'{"question": "Why?", "facts": ["a", {"fact_text": "\ud800"}]}', r"`facts\[1\]\.fact_text`"),
        (b'{"qestion": "Why?"}', "`qestion`.*`question`"),
        (
            b'{"question": "Why?", "generationSpec": {"modelld": "m"}}',
            "generation_spec .*`modelld`.*model_id",
        ),
        (
            b'{"question": "Why?", "groundingSources": [{"searchSource": {"servingConfig": "s", "maxResultCount": 12}}]}',
            r"grounding_sources\[0\]\.search_source\.max_result_count is 12: .* 1 to 10",
        ),
        (
            b'{"question": "Why?", "grounding_spec": {"groundingSources": [{"inlineSource": {"groundingFacts": [{}]}}]}}',
            r"grounding_spec\.grounding_sources\[0\]\.inline_source\.grounding_facts\[0\]\.fact_text",
        ),
        (b'{"question": "Why?", "facts": ["a", ""]}', r"facts\[1\] is empty"),
        (
            b'{"question": "Why?", "generation_spec": {"provisioned_throughput_setting": 1}}',
            r"generation_spec\.provisioned_throughput_setting .*v1beta",
        ),
        (b'{"question": "Why?", "user_context": {}}', "--transport=rest"),
        (b'{"question": "Why?", "user_labels": {"a b": ""}}', r"user_labels\[`a b`\]"),
    ],
)
def test_messages_say_where_and_what(body: bytes, message: str) -> None:
    assert re.search(message, failure(body).message)


def test_source_paths_do_not_count_the_facts() -> None:
    body = json.dumps({"question": "Why?", "facts": ["a"], "grounding_sources": [{}]}).encode()
    assert failure(body).message.startswith("grounding_sources[0] ")


def test_messages_hold_no_prompt() -> None:
    secret = "the-secret-prompt"
    bodies = [
        {"question": secret, "turns": [secret]},
        {"question": [secret]},
        {"question": "q", "facts": [secret * 1000]},
        {"question": "q", "system_instruction": [secret]},
        {"contents": [{"role": secret, "parts": {"text": secret}}]},
    ]
    for body in bodies:
        assert secret not in failure(json.dumps(body).encode()).message


def test_a_failure_keeps_the_records_own_id_and_metadata() -> None:
    error = failure(b'{"id": 17, "question": "", "metadata": {"a": 1}, "title": "T"}')
    assert error.question_id == "17"
    assert error.metadata == '{"a":1,"title":"T"}'


def test_a_lone_surrogate_elsewhere_leaves_the_id_readable() -> None:
    assert failure(rb'{"id": "q-1", "question": "\ud83d"}').question_id == "q-1"


def test_an_id_that_cannot_be_used_gives_way_to_a_derived_one() -> None:
    for body in (rb'{"id": "\ud83d", "question": "Why?"}', b'{"id": true, "question": "Why?"}', b"{nope"):
        assert re.fullmatch("[0-9a-f]{32}", failure(body).question_id)


def test_errors_travel_between_processes() -> None:
    error = failure(b'{"id": "a", "title": "T"}')
    copy = pickle.loads(pickle.dumps(error))
    assert vars(copy) == vars(error)
    assert str(copy) == f"NO_QUESTION: {error.message}"


def test_names_a_page_long_are_shortened() -> None:
    error = failure(json.dumps({"question": "q", "generation_spec": {"x" * 10**6: 1}}).encode())
    assert error.code == "UNKNOWN_FIELD"
    assert len(error.message) < 400


def test_deep_inside_a_stack_nesting_still_fails_as_such() -> None:
    body = b'{"question": "Why?", "a": ' + b"[" * 90 + b"]" * 90 + b"}"

    def deeper(levels: int) -> str:
        if levels:
            return deeper(levels - 1)
        try:
            return parse_question(Record(body, ""), RecordSettings()).question_id
        except RecordError as error:
            return error.code

    assert re.fullmatch("[0-9a-f]{32}", deeper(100))


def test_random_bytes_fail_as_records() -> None:
    for _ in range(200):
        assert failure(os.urandom(40)).stage == "parse"
