import threading
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.schemas.outcome import Outcome
from groundrows.transforms.generate.calling.basket import Backlog, Basket
from tests.support.engines import make_question

OUTCOME = Outcome(make_question("q"), (), None, "duplicate", (), 0)
SECONDS = 20


def finish(threads):
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)


def start(target, *args):
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def test_an_empty_basket_drains_at_once():
    assert list(Basket().drain()) == []


def test_taking_does_not_wait_and_takes_each_once():
    basket = Basket()
    basket.expect(2)
    assert basket.take() == []
    basket.put("a", OUTCOME)
    assert basket.take() == [("a", OUTCOME)]
    assert basket.take() == []
    basket.put("b", OUTCOME)
    assert list(basket.drain()) == [[("b", OUTCOME)]]
    assert list(basket.drain()) == []


def test_draining_hands_out_what_is_there_before_waiting_for_the_rest():
    basket = Basket()
    basket.expect(2)
    basket.put("early", OUTCOME)
    drained = basket.drain()
    assert next(drained) == [("early", OUTCOME)]
    threads = [start(basket.put, "late", OUTCOME)]
    assert next(drained) == [("late", OUTCOME)]
    assert list(drained) == []
    finish(threads)


def test_many_threads_fill_a_basket_and_nothing_is_lost_or_doubled():
    basket = Basket()
    basket.expect(4 * 500)

    def fill(name):
        for number in range(500):
            basket.put((name, number), OUTCOME)

    threads = [start(fill, name) for name in range(4)]
    seen = Counter(ticket for ticket, _ in basket.take())
    for finished in basket.drain():
        seen.update(ticket for ticket, _ in finished)
    finish(threads)
    assert seen == Counter((name, number) for name in range(4) for number in range(500))


@given(
    room=st.integers(1, 20),
    batches=st.lists(st.lists(st.integers(1, 25), max_size=15), min_size=1, max_size=5),
)
@settings(max_examples=30, deadline=None)
def test_a_backlog_is_never_over_full_and_never_stuck(room, batches):
    backlog = Backlog(room)
    lock = threading.Lock()
    in_air = 0
    over = []
    todo = []
    done = threading.Event()

    def bring(counts):
        nonlocal in_air
        for count in counts:
            backlog.add(count)
            with lock:
                in_air += count
                # More than the whole room may go in alone.
                if in_air > max(room, count):
                    over.append((in_air, count))
                todo.extend([None] * count)

    def finish_calls():
        nonlocal in_air
        while True:
            with lock:
                found = bool(todo)
                if found:
                    todo.pop()
                    in_air -= 1
            if found:
                backlog.remove_one()
            elif done.is_set():
                return
            else:
                time.sleep(0.0002)

    workers = [start(finish_calls) for _ in range(2)]
    bringers = [start(bring, counts) for counts in batches]
    finish(bringers)
    done.set()
    finish(workers)
    assert over == []
    assert backlog.taken == 0


def test_a_batch_waits_until_there_is_room_for_all_of_it():
    backlog = Backlog(4)
    backlog.add(3)
    entered = threading.Event()

    def bring():
        backlog.add(3)
        entered.set()

    thread = start(bring)
    assert not entered.wait(0.05)
    backlog.remove_one()
    assert not entered.wait(0.05)
    backlog.remove_one()
    assert entered.wait(SECONDS)
    finish([thread])
    assert backlog.taken == 4


@pytest.mark.parametrize("first", [1, 4])
def test_a_small_batch_is_not_stuck_behind_a_large_one(first):
    backlog = Backlog(4)
    backlog.add(4)
    threads = [start(backlog.add, first), start(backlog.add, 5 - first)]
    for _ in range(4):
        backlog.remove_one()
    for _ in range(SECONDS * 100):
        if any(not thread.is_alive() for thread in threads):
            break
        time.sleep(0.01)
    while backlog.taken:
        backlog.remove_one()
    finish(threads)
