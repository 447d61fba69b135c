from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groundrows.schemas.ids import answer_id, check_id, failure_id, hashed_id

PARTS = st.lists(st.one_of(st.none(), st.integers(), st.binary(max_size=9), st.text(max_size=9)), max_size=4)


@given(PARTS)
def test_an_id_is_128_bits_in_hexadecimal(parts: list[str | bytes | int | None]) -> None:
    made = hashed_id("thing", *parts)
    assert len(bytes.fromhex(made)) == 16
    assert made == hashed_id("thing", *parts)


@given(PARTS, PARTS)
def test_other_parts_give_another_id(
    one: list[str | bytes | int | None], other: list[str | bytes | int | None]
) -> None:
    assert (hashed_id("thing", *one) == hashed_id("thing", *other)) == (one == other)


def test_parts_do_not_run_into_each_other() -> None:
    lists = [
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        ("abc", ""),
        ("abc", None),
        (b"abc",),
        ("1",),
        (1,),
        ("", "abc"),
        ("asb",),
        ("a", "b"),
    ]
    assert len({hashed_id("thing", *parts) for parts in lists}) == len(lists)
    assert hashed_id("thing", "a") != hashed_id("other", "a")


def test_a_lone_surrogate_has_an_id() -> None:
    assert hashed_id("thing", "\ud83d") != hashed_id("thing", "\ud83e")


def test_every_part_of_how_a_question_was_asked_tells_answers_apart() -> None:
    ids = [
        answer_id("q", b"request", "v1", 0, 0),
        answer_id("r", b"request", "v1", 0, 0),
        answer_id("q", b"Request", "v1", 0, 0),
        answer_id("q", b"request", "v1beta", 0, 0),
        answer_id("q", b"request", "v1", 1, 0),
        answer_id("q", b"request", "v1", 0, 1),
        answer_id("q", b"request", "v1", 0, 0, '{"languageCode": "en"}'),
    ]
    assert len(set(ids)) == len(ids)


def test_ids_are_what_they_were_in_earlier_releases() -> None:
    assert answer_id("q", b"request", "v1", 0, 0) == "57497790bc0b781cd9cb0ca7dc72ce08"
    assert answer_id("Wo?", b"\x00", "v1beta", 2, 1, "{}") == "0dafc7acf482c7f849679438d29477fe"
    assert failure_id("q", 0, "parse", "INVALID_JSON", "a.jsonl:1") == "cfda81c71f28a5eb5c9881e5ccaad853"


def test_every_part_of_a_check_tells_checks_apart() -> None:
    ids = [
        check_id("a", b"request", "v1"),
        check_id("b", b"request", "v1"),
        check_id("a", b"Request", "v1"),
        check_id("a", b"request", "v1beta"),
        answer_id("a", b"request", "v1", 0, 0),
    ]
    assert len(set(ids)) == len(ids)


def test_every_part_of_a_failure_tells_failures_apart() -> None:
    ids = [
        failure_id("q", 0, "generate", "UNAVAILABLE", "a.jsonl:1"),
        failure_id("r", 0, "generate", "UNAVAILABLE", "a.jsonl:1"),
        failure_id("q", 1, "generate", "UNAVAILABLE", "a.jsonl:1"),
        failure_id("q", 0, "flatten", "UNAVAILABLE", "a.jsonl:1"),
        failure_id("q", 0, "generate", "INTERNAL", "a.jsonl:1"),
        failure_id("q", 0, "generate", "UNAVAILABLE", "a.jsonl:2"),
    ]
    assert len(set(ids)) == len(ids)
