import sqlite3
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.transforms.generate.calling.answered import AnsweredTurns


@pytest.fixture
def answered(tmp_path):
    answered = AnsweredTurns(str(tmp_path / "answered"))
    yield answered
    answered.close()


def test_the_turns_of_each_question_and_of_no_other(answered):
    answered.add([("a", 0), ("a", 2), ("b", 1)])
    answered.add(iter([("a", 0), ("c", 0)]))
    assert answered.of(["a", "b", "missing"]) == {"a": frozenset({0, 2}), "b": frozenset({1})}
    assert answered.of([]) == {}


@given(ids=st.sets(st.text(max_size=5), max_size=20))
def test_ids_are_told_apart_whatever_they_hold(ids):
    answered = AnsweredTurns(":memory:")
    try:
        kept = sorted(ids)[::2]
        answered.add((one, 0) for one in kept)
        assert set(answered.of(sorted(ids))) == set(kept)
    finally:
        answered.close()


@pytest.mark.parametrize("count", [499, 500, 501, 40_000])
def test_batches_of_any_size_are_looked_up(answered, count):
    answered.add((str(number), 0) for number in range(0, count, 2))
    found = answered.of([str(number) for number in range(count)])
    assert found == {str(number): frozenset({0}) for number in range(0, count, 2)}


def test_another_process_reads_what_was_noted(tmp_path):
    path = str(tmp_path / "answered")
    writer, reader = AnsweredTurns(path), AnsweredTurns(path)
    writer.add([("a", 0)])
    assert reader.of(["a"]) == {"a": frozenset({0})}
    writer.close()
    reader.close()


def test_turns_that_can_not_all_be_read_leave_it_in_order(answered):
    def broken():
        yield "a", 0
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        answered.add(broken())
    assert answered.of(["a"]) == {}
    answered.add([("b", 0)])
    assert answered.of(["b"]) == {"b": frozenset({0})}


def test_threads_may_look_up_at_once(answered):
    answered.add((str(number), number % 3) for number in range(1_000))
    wrong = []

    def look():
        numbers = range(0, 1_000, 7)
        wrong.extend(n for n in numbers if answered.of([str(n)]) != {str(n): frozenset({n % 3})})

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert wrong == []


def test_it_is_closed_when_closed(answered):
    answered.close()
    with pytest.raises(sqlite3.ProgrammingError):
        answered.of(["a"])


def test_what_is_yet_to_be_checked_is_what_quotes_and_is_not_checked(answered):
    answers = [("a", 0, "a0"), ("a", 0, "a1"), ("a", 1, "a2"), ("b", 0, "b0"), ("b", 0, "b0"), ("c", 0, "c0")]
    answered.add_unchecked(answers, ["a0", "a1", "b0", "b0", "c0", "of another"], ["c0", "c0", "of a third"])
    assert answered.unchecked(["a", "b", "c", "d"]) == {
        ("a", 0): frozenset({"a0", "a1"}),
        ("b", 0): frozenset({"b0"}),
    }
    assert answered.of(["a", "b", "c"]) == {}


def test_answers_that_can_not_all_be_read_leave_it_in_order(answered):
    def broken():
        yield "a", 0, "a0"
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        answered.add_unchecked(broken(), ["a0"], [])
    assert answered.unchecked(["a"]) == {}
    answered.add_unchecked([("a", 0, "a0")], ["a0"], [])
    assert answered.unchecked(["a"]) == {("a", 0): frozenset({"a0"})}
