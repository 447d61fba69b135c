import json
import pickle
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groundrows.schemas.defaults import load_defaults
from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.schemas.errors import RecordError
from groundrows.schemas.jsontext import derived_id
from groundrows.schemas.names import camel
from groundrows.schemas.question import Question, RecordSettings, parse_question
from groundrows.schemas.record import Record
from tests.support.request_json import request_json

SERVING_CONFIG = "projects/p/locations/global/collections/c/engines/e/servingConfigs/s"


def ask(fields: object, **given: Any) -> Question:
    body = fields if isinstance(fields, bytes) else json.dumps(fields, ensure_ascii=False).encode()
    return parse_question(Record(body, "a.jsonl:1"), RecordSettings(**given))


def sent(question: Question) -> dict[str, Any]:
    return json.loads(request_json(question.request, question.api_version))


def refused(fields: object, **given: Any) -> RecordError:
    with pytest.raises(RecordError) as caught:
        ask(fields, **given)
    return caught.value


def test_a_plain_question() -> None:
    body = b'{"question": "Why is the sky blue?"}'
    question = ask(body)
    assert question.turns == ("Why is the sky blue?",)
    assert question.record == body
    assert question.origin == "a.jsonl:1"
    assert question.api_version == "v1"
    assert question.metadata is None
    assert question.user_context is None
    assert sent(question) == {"contents": [{"role": "user", "parts": [{"text": "Why is the sky blue?"}]}]}


def test_turns_send_the_first() -> None:
    question = ask({"turns": ["Who?", "When?", "Where?"]})
    assert question.turns == ("Who?", "When?", "Where?")
    assert sent(question)["contents"] == [{"role": "user", "parts": [{"text": "Who?"}]}]


def test_contents_are_sent_as_they_are() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "Who?"}]},
        {"role": "model", "parts": [{"text": ""}]},
        {"role": "user", "parts": [{"text": "When, "}, {"text": "and where?"}]},
    ]
    question = ask({"contents": contents})
    assert question.turns == ("When, and where?",)
    assert sent(question)["contents"] == contents


def test_parts_may_be_an_object_and_one_content_may_leave_its_role() -> None:
    question = ask({"contents": [{"parts": {"text": "Who?"}}]})
    assert sent(question)["contents"] == [{"parts": [{"text": "Who?"}]}]


@pytest.mark.parametrize(
    "text",
    ["مَن؟", "ทำไมท้องฟ้าเป็นสีฟ้า", "a\u0000b", "👩‍👩‍👧", "\ufeffWhy?", "line\nbreak", "{braces} {{}}", "ﬁ\u0301"],
)
def test_text_survives_in_every_script(text: str) -> None:
    for ascii_only in (True, False):
        question = ask(json.dumps({"question": text, "note": text}, ensure_ascii=ascii_only).encode())
        assert sent(question)["contents"][0]["parts"] == [{"text": text}]
        assert json.loads(question.metadata or "") == {"note": text}
        if text.isprintable():
            assert text in (question.metadata or "")


def test_a_byte_order_mark_is_tolerated_and_kept_in_the_record() -> None:
    body = b'\xef\xbb\xbf{"question": "Why?"}'
    assert ask(body).record == body
    assert ask(body).question_id == ask(body[3:]).question_id


def test_a_list_of_one_object_is_the_object() -> None:
    body = b' [ {"question": "Why?", "title": "T"} ]\n'
    question = ask(body)
    assert question.record == body
    assert (question.turns, question.metadata) == (("Why?",), '{"title":"T"}')
    assert question.question_id == ask(b'{"question": "Why?", "title": "T"}').question_id


# -- ids


@pytest.mark.parametrize(
    ("given_id", "text"),
    [("q-1", "q-1"), (17, "17"), (0, "0"), (2**70, str(2**70)), (" a ", " a "), ("x" * 1000, "x" * 1000)],
)
def test_own_ids(given_id: object, text: str) -> None:
    assert ask({"id": given_id, "question": "Why?"}).question_id == text


def test_a_null_id_counts_as_none() -> None:
    assert len(ask({"id": None, "question": "Why?"}).question_id) == 32


def test_derived_ids_never_change() -> None:
    # Fixed: rows of earlier runs hold these ids.
    assert (
        ask(b'{"question":"Why?","n":[1,2.5,"\xc3\xa9"]}').question_id == "87490a7a08d43fd42dbcef51dd4ff97b"
    )
    assert derived_id(b"\xff") == "a8100ae6aa1940d0b663bb31cd466142"


def test_derived_ids_depend_on_all_the_record_says() -> None:
    records = [
        {"question": "Why?"},
        {"question": "Why? "},
        {"question": "Why?", "n": 1},
        {"question": "Why?", "n": "1"},
        {"question": "Why?", "metadata": {"n": 1}},
        {"turns": ["Why?"]},
    ]
    assert len({ask(record).question_id for record in records}) == len(records)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def reordered(value: object) -> object:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1), json_values, max_size=6))
def test_derived_ids_do_not_depend_on_order_or_spacing(fields: dict[str, object]) -> None:
    spaced = json.dumps(reordered(fields), indent=2, ensure_ascii=False)
    assert derived_id(json.loads(spaced)) == derived_id(fields)


# -- metadata


@pytest.mark.parametrize(
    ("fields", "metadata"),
    [
        ({"title": "T", "n": None}, {"title": "T", "n": None}),
        ({"metadata": {"a": 1}}, {"a": 1}),
        ({"metadata": {"a": 1}, "title": "T"}, {"a": 1, "title": "T"}),
        ({"metadata": [1, 2]}, {"metadata": [1, 2]}),
        ({"metadata": "text", "title": "T"}, {"title": "T", "metadata": "text"}),
        ({"metadata": False}, {"metadata": False}),
        ({"metadata": {"title": 1, "b": 2}, "title": "T"}, {"title": "T", "metadata": {"title": 1, "b": 2}}),
        (
            {"metadata": {"metadata": 1, "title": 2}, "title": 3},
            {"title": 3, "metadata": {"metadata": 1, "title": 2}},
        ),
        ({"n": 12345678901234567890123}, {"n": 12345678901234567890123}),
        ({"location": "Paris", "model_id": "m"}, {"location": "Paris", "model_id": "m"}),
    ],
)
def test_metadata_loses_nothing(fields: dict[str, object], metadata: object) -> None:
    question = ask({"question": "Why?", **fields})
    assert json.loads(question.metadata or "") == metadata


@pytest.mark.parametrize("fields", [{}, {"metadata": None}, {"metadata": {}}])
def test_no_metadata_is_none(fields: dict[str, object]) -> None:
    assert ask({"question": "Why?", **fields}).metadata is None


def test_metadata_is_compact_and_readable() -> None:
    assert ask({"question": "Why?", "ort": "Köln 😀", "z": [1, 2]}).metadata == '{"ort":"Köln 😀","z":[1,2]}'


def test_the_question_is_no_metadata() -> None:
    fields = {"question": "Why?", "id": "1", "facts": ["a"], "generation_spec": {}, "user_labels": {}}
    assert ask(fields).metadata is None


def test_what_came_with_a_message_stands_beside_the_metadata() -> None:
    def metadata(fields: object, attributes: str | None = '{"message_id":"7"}') -> object:
        body = json.dumps(fields).encode()
        found = parse_question(Record(body, "", attributes=attributes), RecordSettings()).metadata
        return None if found is None else json.loads(found)

    message = {"pubsub": {"message_id": "7"}}
    assert metadata({"question": "q"}) == message
    assert metadata({"question": "q"}, None) is None
    assert metadata({"question": "q", "title": "T", "metadata": {"a": 1}}) == {
        "title": "T",
        "a": 1,
        **message,
    }
    for own in ({"pubsub": 1, "a": 2}, {"metadata": {"pubsub": 1, "a": 2}}):
        assert metadata({"question": "q", **own}) == {"metadata": {"pubsub": 1, "a": 2}, **message}


@pytest.mark.parametrize(
    "body", [b"{nope", b"[]", rb'{"id": "a", "question": "\ud83d"}', b'{"question": ""}']
)
def test_what_came_with_a_message_stays_with_a_record_that_fails(body: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        parse_question(Record(body, "", attributes='{"message_id":"7"}'), RecordSettings())
    assert caught.value.metadata == '{"pubsub":{"message_id":"7"}}'


# -- renamed fields


def test_renamed_fields_take_the_places() -> None:
    fields = {"prompt": "Why?", "key": 7, "question": "kept", "id": "kept too"}
    question = ask(fields, question_field="prompt", id_field="key")
    assert question.turns == ("Why?",)
    assert question.question_id == "7"
    assert json.loads(question.metadata or "") == {"question": "kept", "id": "kept too"}


def test_near_misses_follow_the_renaming() -> None:
    assert refused({"promt": "Why?"}, question_field="prompt").code == "NEAR_MISS"
    assert refused({"qestion": "Why?"}, question_field="prompt").code == "NO_QUESTION"
    assert "`prompt`" in refused({"x": 1}, question_field="prompt").message


@pytest.mark.parametrize(
    "given",
    [
        {"question_field": "turns"},
        {"id_field": "metadata"},
        {"question_field": "generationSpec"},
        {"question_field": "q", "id_field": "q"},
        {"id_field": "question"},
    ],
)
def test_fields_cannot_be_renamed_onto_each_other(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="name others"):
        RecordSettings(**given)


def test_settings_of_another_version_are_refused() -> None:
    with pytest.raises(ValueError, match="checked for v1beta"):
        RecordSettings(defaults=load_defaults("{}", "v1beta"))
    assert RecordSettings(defaults=load_defaults("{}", "v1alpha"), api_version="v1alpha", transport="rest")
    with pytest.raises(ValueError, match="v2"):
        RecordSettings(api_version="v2")


# -- user context


def test_a_user_context_goes_out_over_rest() -> None:
    fields = {"question": "Où?", "userContext": {"languageCode": "fr", "latLng": {"latitude": 48.8}}}
    question = ask(fields, transport="rest")
    assert question.user_context == '{"languageCode":"fr","latLng":{"latitude":48.8}}'
    assert "userContext" not in sent(question)


# -- properties

names = st.sampled_from(
    ["question", "turns", "contents", "id", "facts", "system_instruction", "groundingSpec", "grounding_sources",
     "generationSpec", "user_labels", "user_context", "metadata", "role", "parts", "text", "temperature", "topK",
     "inline_source", "groundingFacts", "factText", "attributes", "google_search_source", "dynamicRetrievalConfig",
     "predictor", "threshold", "version", "search_source", "servingConfig", "max_result_count", "qestion"]
)  # fmt: skip
any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.sampled_from(["user", "model", "V1_INDEPENDENT"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(), inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=150, deadline=None)
@given(any_json, st.sampled_from(["v1", "v1beta"]), st.sampled_from(["grpc", "rest"]))
@example({"contents": [{"role": "user", "parts": [{"text": "Why?"}]}], "facts": ["a"]}, "v1", "grpc")
def test_any_json_is_a_question_or_a_record_error(value: object, api_version: Any, transport: Any) -> None:
    record = Record(json.dumps(value).encode(), "x")
    settings_ = RecordSettings(api_version=api_version, transport=transport)
    try:
        question = parse_question(record, settings_)
    except RecordError as error:
        for text in (error.message, error.question_id, error.metadata or ""):
            text.encode()
        return
    message = request_class(api_version).FromString(question.request)
    assert message.SerializeToString(deterministic=True) == question.request
    assert message.contents[-1].parts[0].text
    for text in (*question.turns, question.question_id, question.metadata or "", question.user_context or ""):
        text.encode()
    assert parse_question(record, settings_) == question


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
@example(b'{"question":"\xf0\x9f\x98\x80"}')
def test_any_bytes_are_a_question_or_a_record_error(body: bytes) -> None:
    try:
        parse_question(Record(body, ""), RecordSettings())
    except RecordError as error:
        error.message.encode()


floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
words = st.text(min_size=1).filter(str.strip)
specs = st.fixed_dictionaries(
    {},
    optional={
        "model_id": st.text(),
        "temperature": floats32 | st.integers(0, 2),
        "top_p": floats32,
        "top_k": st.integers(-(2**31), 2**31 - 1),
        "seed": st.integers(-(2**31), 2**31 - 1),
        "max_output_tokens": st.none() | st.integers(1, 8192),
    },
)
facts = st.fixed_dictionaries(
    {"fact_text": words}, optional={"attributes": st.dictionaries(st.text(), st.text())}
)
searches = st.fixed_dictionaries(
    {"serving_config": st.just(SERVING_CONFIG)},
    optional={"max_result_count": st.integers(1, 10), "filter": st.text(), "safe_search": st.booleans()},
)
inlines = st.fixed_dictionaries(
    {"grounding_facts": st.lists(facts, min_size=1, max_size=3)},
    optional={"attributes": st.dictionaries(words, words)},
)
good_records = st.fixed_dictionaries(
    {"question": words},
    optional={
        "generation_spec": specs,
        "grounding_spec": st.fixed_dictionaries(
            {},
            optional={
                "grounding_sources": st.lists(
                    st.fixed_dictionaries({"search_source": searches})
                    | st.fixed_dictionaries({"inline_source": inlines})
                    | st.just({"enterprise_web_retrieval_source": {}}),
                    max_size=5,
                )
            },
        ),
        "facts": st.lists(words | facts, min_size=1, max_size=3),
        "system_instruction": words
        | st.fixed_dictionaries({"parts": st.lists(st.builds(lambda t: {"text": t}, words), min_size=1)}),
        "user_labels": st.dictionaries(
            st.from_regex(r"[a-zé][a-z0-9_-]{0,9}", fullmatch=True), st.just("ж-1")
        ),
    },
)


def in_camel_case(value: object, keep_keys: bool = False) -> object:
    """Every API field renamed; the keys of `attributes` and `user_labels` are data."""
    if isinstance(value, dict):
        return {
            key if keep_keys else camel(key): in_camel_case(item, key in ("attributes", "user_labels"))
            for key, item in value.items()
        }
    return [in_camel_case(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(good_records)
def test_camel_case_and_snake_case_ask_the_same(fields: dict[str, object]) -> None:
    assert ask(in_camel_case(fields)).request == ask(fields).request


@settings(deadline=None)
@given(good_records)
def test_requests_go_round(fields: dict[str, object]) -> None:
    """A request shown as JSON is itself a record that asks the same."""
    question = ask(fields)
    assert ask(request_json(question.request, "v1").encode()).request == question.request


def test_settings_travel_to_workers() -> None:
    given_ = RecordSettings(
        question_templates=("{a}?",),
        defaults=load_defaults('{"user_labels": {"a": "b"}}', "v1beta"),
        api_version="v1beta",
    )
    copy = pickle.loads(pickle.dumps(given_))
    assert copy == given_
    assert parse_question(Record(b'{"a": 1}', ""), copy) == parse_question(Record(b'{"a": 1}', ""), given_)
