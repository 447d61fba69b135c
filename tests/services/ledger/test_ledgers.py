"""What every ledger promises, asked of each of them."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.transforms.generate.ledger.base import Entry, Ledger, entry_key
from groundrows.transforms.generate.ledger.memory import MemoryLedger
from groundrows.transforms.generate.ledger.redis import RedisLedger
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from groundrows.transforms.generate.ledger.uri import open_ledger

Open = Callable[[], Ledger]
KEYS = [entry_key("question", turn, b"") for turn in range(8)]


@pytest.fixture
def stored(open_again: Open) -> Ledger:
    """A ledger that keeps responses."""
    return open_again()


@pytest.fixture(params=["none", "sqlite", "redis"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """Any ledger at all."""
    uris = {"none": "none", "sqlite": f"sqlite://{tmp_path}/ledger.sqlite"}
    uri = uris.get(request.param) or str(request.getfixturevalue("redis_uri"))
    with closing(open_ledger(uri)) as opened:
        yield opened


def an_entry(number: int, model_id: str = "gemini", response: bytes = b"response") -> Entry:
    asked_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    return Entry(
        key=entry_key(f"q{number}", 0, b"fingerprint"),
        question_id=f"q{number}",
        turn_index=0,
        model_id=model_id,
        response=response,
        attempts=1,
        latency_ms=12.5,
        asked_at=asked_at,
        answered_at=asked_at + timedelta(milliseconds=12),
    )


def test_the_uri_chooses_the_ledger(redis_uri: str, tmp_path: Path) -> None:
    uris = {
        "none": MemoryLedger,
        redis_uri: RedisLedger,
        f"sqlite://{tmp_path}/ledger.sqlite": SqliteLedger,
    }
    for uri, kind in uris.items():
        with closing(open_ledger(uri)) as opened:
            assert isinstance(opened, kind)


# -- claims ---------------------------------------------------------------------------------------------


def test_the_first_origin_holds_a_claim_and_finds_it_again(ledger: Ledger) -> None:
    first = {KEYS[0]: "archive:1", KEYS[1]: "archive:2"}
    assert ledger.claim("run", first) == first
    assert ledger.claim("run", first) == first
    later = ledger.claim("run", {KEYS[1]: "archive:9", KEYS[2]: "archive:10"})
    assert later[KEYS[1]] != "archive:9"
    assert later[KEYS[2]] == "archive:10"
    assert ledger.claim("run", first) == first
    assert ledger.claim("run", {}) == {}


def test_claims_belong_to_a_run_and_can_be_forgotten(ledger: Ledger) -> None:
    ledger.claim("run", {KEYS[0]: "archive:1"})
    ledger.claim("another", {KEYS[0]: "archive:5"})
    ledger.forget_claims("run")
    assert ledger.claim("run", {KEYS[0]: "archive:7"}) == {KEYS[0]: "archive:7"}


def test_a_claim_that_is_released_is_anybodys(ledger: Ledger) -> None:
    ledger.claim("run", {KEYS[0]: "archive:1", KEYS[1]: "archive:2"})
    ledger.release("run", {KEYS[0]: "archive:1", KEYS[2]: "archive:1"})
    assert ledger.claim("run", {KEYS[0]: "archive:9"}) == {KEYS[0]: "archive:9"}
    assert ledger.claim("run", {KEYS[1]: "archive:9"})[KEYS[1]] != "archive:9"
    ledger.release("run", {})
    ledger.release("never heard of", {KEYS[0]: "archive:9"})
    assert ledger.claim("run", {KEYS[0]: "archive:9"}) == {KEYS[0]: "archive:9"}


def test_nobody_releases_what_another_holds(ledger: Ledger) -> None:
    ledger.claim("run", {KEYS[0]: "archive:1"})
    ledger.claim("another", {KEYS[0]: "archive:2"})
    ledger.release("run", {KEYS[0]: "archive:2"})
    ledger.release("another", {KEYS[0]: "archive:1"})
    for run_id, origin in (("run", "archive:1"), ("another", "archive:2")):
        assert ledger.claim(run_id, {KEYS[0]: "archive:3"})[KEYS[0]] != "archive:3"
        assert ledger.claim(run_id, {KEYS[0]: origin}) == {KEYS[0]: origin}


def test_thousands_are_released_at_once(stored: Ledger) -> None:
    claims = {entry_key(f"q{number}", 0, b""): f"archive:{number}" for number in range(1300)}
    stored.claim("run", claims)
    stored.release("run", claims)
    later = dict.fromkeys(claims, "archive:later")
    assert stored.claim("run", later) == later


def test_each_claim_has_its_holder_while_others_are_released(ledger: Ledger) -> None:
    keys = [entry_key("question", turn, b"") for turn in range(400)]
    held: set[bytes] = set()

    def claim_and_release(thread: int) -> None:
        me = f"thread {thread}"
        for _ in range(10):
            holders = ledger.claim("run", dict.fromkeys(keys, me))
            assert holders.keys() == set(keys)
            won = [key for key, holder in holders.items() if holder == me]
            held.update(won)
            ledger.release("run", dict.fromkeys(won, me))

    in_threads(claim_and_release)
    assert held == set(keys)


def test_one_of_many_threads_gets_each_claim(ledger: Ledger) -> None:
    won: list[bytes] = []

    def claim(thread: int) -> None:
        wanted = dict.fromkeys(random.Random(thread).sample(KEYS, len(KEYS)), f"thread {thread}")
        holders = ledger.claim("run", wanted)
        won.extend(key for key, holder in holders.items() if holder == f"thread {thread}")

    in_threads(claim)
    assert sorted(won) == sorted(KEYS)


def test_processes_share_claims(open_again: Open) -> None:
    one, other = open_again(), open_again()
    one.claim("run", {KEYS[0]: "archive:1"})
    assert other.claim("run", {KEYS[0]: "archive:2", KEYS[1]: "archive:3"}) == {
        KEYS[0]: "archive:1",
        KEYS[1]: "archive:3",
    }


# -- budgets --------------------------------------------------------------------------------------------


def test_a_budget_grants_what_is_left_and_no_more(ledger: Ledger) -> None:
    assert ledger.reserve("run", 10, 8) == 8
    assert ledger.reserve("run", 10, 8) == 2
    assert ledger.reserve("run", 10, 1) == 0
    assert ledger.reserve("another", 3, 8) == 3
    assert ledger.reserve("run", 5, 1) == 0  # a budget made smaller takes nothing back
    ledger.give_back("run", 4)
    assert ledger.reserve("run", 10, 8) == 4


def test_giving_back_more_than_was_taken_does_not_enlarge_a_budget(ledger: Ledger) -> None:
    ledger.reserve("run", 10, 2)
    ledger.give_back("run", 100)
    ledger.give_back("never heard of", 100)
    assert ledger.reserve("run", 10, 100) == 10
    assert ledger.reserve("never heard of", 10, 100) == 10


def test_a_budget_is_exact_under_eight_threads(ledger: Ledger) -> None:
    kept: list[int] = []

    def spend(thread: int) -> None:
        chance = random.Random(thread)
        while granted := ledger.reserve("run", 300, chance.randint(1, 9)):
            unused = chance.choice([0, 0, 0, chance.randint(0, granted)])
            if unused:
                ledger.give_back("run", unused)
            kept.append(granted - unused)

    in_threads(spend)
    # Whoever gave calls back may have been the last; what they left is still there.
    assert sum(kept) + ledger.reserve("run", 300, 300) == 300


def test_processes_share_a_budget_and_it_outlives_them(uri: str) -> None:
    with closing(open_ledger(uri)) as one, closing(open_ledger(uri)) as other:
        assert one.reserve("run", 10, 6) == 6
        assert other.reserve("run", 10, 6) == 4
    with closing(open_ledger(uri)) as later:
        assert later.reserve("run", 10, 6) == 0


# -- entries --------------------------------------------------------------------------------------------

moments = st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))


def test_a_count_is_shared_kept_and_never_below_nothing(ledger: Ledger) -> None:
    assert ledger.count("run max_tokens", 0) == 0
    assert ledger.count("run max_tokens", 700) == 700
    assert ledger.count("run max_tokens", -200) == 500
    assert ledger.count("run max_tokens", 10_000_000_000) == 10_000_000_500
    assert ledger.count("run max_searches", 3) == 3
    assert ledger.count("run max_searches", -5) == 0
    assert ledger.reserve("run", 10, 4) == 4  # a budget of calls is counted by itself
    assert ledger.count("run max_tokens", 0) == 10_000_000_500


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
any_entry = st.builds(
    Entry,
    key=st.binary(min_size=16, max_size=16),
    question_id=texts,
    turn_index=st.integers(0, 1000),
    model_id=texts,
    response=st.binary(max_size=300),
    attempts=st.integers(0, 100),
    latency_ms=st.floats(0, 1e9),
    asked_at=moments,
    answered_at=moments,
    first_part_ms=st.none() | st.floats(0, 1e9),
    unread_json=st.none() | texts,
)


def test_what_is_put_comes_out_again(stored: Ledger) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(any_entry, max_size=5, unique_by=lambda entry: entry.key))
    def check(entries: list[Entry]) -> None:
        stored.put_many(entries)
        assert stored.get_many([entry.key for entry in entries]) == {entry.key: entry for entry in entries}

    check()


def test_a_large_response_is_kept_compressed(stored: Ledger) -> None:
    entry = an_entry(1, response=b"The same sentence once more. " * 100_000)
    stored.put_many([entry])
    assert stored.get_many([entry.key]) == {entry.key: entry}
    (summary,) = stored.summary()
    assert 0 < summary.stored_bytes < len(entry.response) / 10


def test_only_what_is_there_is_found(stored: Ledger) -> None:
    stored.put_many([an_entry(1), an_entry(2)])
    asked = [an_entry(number).key for number in (2, 3, 2, 4)]
    assert stored.get_many(asked) == {an_entry(2).key: an_entry(2)}
    assert stored.get_many([]) == {}
    stored.put_many([])


def test_a_second_response_replaces_the_first(stored: Ledger) -> None:
    stored.put_many([an_entry(1, response=b"first"), an_entry(2)])
    stored.put_many([an_entry(1, response=b"second"), an_entry(3)])
    assert stored.get_many([an_entry(1).key])[an_entry(1).key].response == b"second"
    assert sum(summary.entries for summary in stored.summary()) == 3


def test_entries_are_kept_when_the_ledger_is_closed(uri: str) -> None:
    with closing(open_ledger(uri)) as one:
        one.put_many([an_entry(1)])
    with closing(open_ledger(uri)) as later:
        assert list(later.entries()) == [an_entry(1)]


def test_everything_comes_out_once_and_is_counted(stored: Ledger) -> None:
    """More than any page or statement holds at once."""
    entries = [an_entry(number, model_id=("pro", "flash", "")[number % 3]) for number in range(1300)]
    stored.put_many(entries)
    assert len(stored.get_many([entry.key for entry in entries])) == 1300
    by_id = {entry.question_id: entry for entry in stored.entries()}
    assert sorted(by_id.values(), key=lambda entry: entry.asked_at) == entries
    assert len(list(stored.entries())) == 1300
    summaries = stored.summary()
    assert [(one.model_id, one.entries) for one in summaries] == [("", 433), ("flash", 433), ("pro", 434)]
    assert summaries[2].oldest == entries[0].asked_at
    assert summaries[2].newest == entries[1299].asked_at


def test_an_empty_ledger_has_nothing_to_show(ledger: Ledger) -> None:
    assert ledger.summary() == []
    assert list(ledger.entries()) == []
    assert ledger.get_many(KEYS) == {}


def test_threads_may_write_and_read_at_once(stored: Ledger) -> None:
    def work(thread: int) -> None:
        for number in range(10):
            entry = an_entry(thread * 10 + number)
            stored.put_many([entry])
            assert stored.get_many([entry.key]) == {entry.key: entry}

    in_threads(work)
    assert sum(summary.entries for summary in stored.summary()) == 80


def test_responses_are_rewritten_and_still_count_as_answered(stored: Ledger, open_again: Open) -> None:
    entries = [an_entry(number, response=b"long " * 100) for number in range(700)]
    entries[3] = replace(entries[3], unread_json='{"a": "b"}', first_part_ms=4.5)
    stored.put_many(entries)
    other = open_again()

    def changed(entry: Entry) -> Entry | None:
        if entry.question_id in ("q1", "q699"):
            return replace(entry, response=b"short")
        return replace(entry, unread_json="{}") if entry.question_id == "q3" else None

    assert stored.rewrite(changed) == 3
    left = {entry.question_id: entry for entry in other.entries()}
    assert len(left) == 700
    assert left["q1"] == replace(entries[1], response=b"short")
    assert left["q3"] == replace(entries[3], unread_json="{}")
    assert left["q2"] == entries[2]
    assert other.lease("another/process", [entries[1].key], 5).stored == {entries[1].key: left["q1"]}
    assert stored.rewrite(lambda entry: None) == 0


def test_what_is_answered_anew_while_it_is_rewritten_stays_new(stored: Ledger, open_again: Open) -> None:
    stored.put_many([an_entry(1), an_entry(2)])
    newer = replace(an_entry(1, response=b"newer"), answered_at=datetime(2027, 1, 1, tzinfo=UTC))
    other = open_again()

    def changed(entry: Entry) -> Entry | None:
        if entry == newer:
            return None
        if entry.question_id == "q1":
            other.put_many([newer])
        return replace(entry, response=b"rewritten")

    assert stored.rewrite(changed) == 1
    assert other.get_many([newer.key]) == {newer.key: newer}


def test_a_rewriting_that_fails_leaves_all_of_a_sqlite_ledger_as_it_was(tmp_path: Path) -> None:
    with closing(open_ledger(f"sqlite://{tmp_path}/ledger.sqlite")) as ledger:
        ledger.put_many([an_entry(1), an_entry(2)])

        def changed(entry: Entry) -> Entry:
            if entry.question_id == "q2":
                raise KeyboardInterrupt
            return replace(entry, response=b"rewritten")

        with pytest.raises(KeyboardInterrupt):
            ledger.rewrite(changed)
        assert {entry.response for entry in ledger.entries()} == {b"response"}
        assert ledger.rewrite(lambda entry: replace(entry, response=b"rewritten")) == 2


def in_threads(work: Callable[[int], None], count: int = 8) -> None:
    errors: list[BaseException] = []

    def run(thread: int) -> None:
        try:
            work(thread)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[thread]) for thread in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
