"""Nothing is in hand twice, and every delivery that was taken is let go."""

from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.worker.hand import MARGIN_SECONDS, REMEMBERED_SECONDS, Hand
from groundrows.pipeline.worker.subscription import Received
from groundrows.schemas.record import Record


def received(origin: str, message_id: str, ack_id: str, size: int = 1) -> Received:
    return Received(Record(b"", origin), message_id, ack_id, size)


def test_a_second_delivery_shares_the_fate_of_the_first():
    hand = Hand()
    first = hand.take(received("sub:1", "1", "a"), 0)
    assert first is not None
    assert hand.take(received("sub:1", "1", "b"), 1) is None
    assert (hand.count, hand.repeated) == (1, 0)
    assert sorted(hand.ack_ids()) == ["a", "b"]
    assert sorted(hand.let_go([first], done=True, now=2)) == ["a", "b"]
    assert (hand.count, hand.size, list(hand.ack_ids())) == (0, 0, [])


def test_another_message_of_the_same_origin_is_counted_once():
    hand = Hand()
    first = hand.take(received("sub:own", "1", "a"), 0)
    assert first is not None
    for ack_id in "bc":
        assert hand.take(received("sub:own", "2", ack_id), 0) is None
    assert hand.repeated == 1
    hand.let_go([first], done=True, now=0)
    assert hand.is_done(received("sub:own", "2", "d"), 1)
    assert hand.repeated == 1
    assert hand.is_done(received("sub:own", "3", "e"), 1)
    assert hand.repeated == 2


def test_what_was_done_is_remembered_for_a_while():
    hand = Hand()
    message = received("sub:1", "1", "a")
    assert not hand.is_done(message, 0)
    held = hand.take(message, 0)
    assert held is not None
    assert not hand.is_done(message, 1)
    hand.let_go([held], done=True, now=100)
    assert hand.is_done(message, 100 + REMEMBERED_SECONDS)
    assert not hand.is_done(message, 101 + REMEMBERED_SECONDS)


def test_what_was_given_back_or_failed_is_taken_up_again():
    hand = Hand()
    message = received("sub:1", "1", "a")
    held = hand.take(message, 0)
    assert held is not None
    hand.let_go([held], done=False, now=0)
    assert not hand.is_done(message, 1)
    assert hand.take(message, 1) is not None


def test_letting_go_twice_does_not_touch_the_next_of_the_same_origin():
    hand = Hand()
    first = hand.take(received("sub:1", "1", "a"), 0)
    assert first is not None
    hand.let_go([first], done=False, now=0)
    assert hand.take(received("sub:1", "1", "b"), 1) is not None
    assert hand.let_go([first], done=False, now=2) == []
    assert list(hand.ack_ids()) == ["b"]


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40))
def test_whatever_comes_every_delivery_is_let_go_exactly_once(steps):
    hand, held, let_go, taken = Hand(), {}, [], []
    for number, (origin, is_delivery) in enumerate(steps):
        if is_delivery:
            taken.append(f"ack{number}")
            new = hand.take(received(f"sub:{origin}", str(origin), f"ack{number}", size=origin), number)
            assert (new is None) == (origin in held)
            held.setdefault(origin, new)
        elif origin in held:
            let_go += hand.let_go([held.pop(origin)], done=False, now=number)
        assert hand.count == len(held)
        assert hand.size == sum(held)
    let_go += hand.let_go(held.values(), done=False, now=99)
    assert sorted(let_go) == sorted(taken)
    assert (hand.count, hand.size) == (0, 0)


def test_a_message_is_this_worker_s_until_its_deadline_has_surely_not_passed():
    now = [100.0]
    hand = Hand(lambda: now[0])
    hand.take(received("sub:1", "1", "a"), 0, until=110.0)
    assert hand.is_ours("sub:1")
    now[0] = 110.0 - MARGIN_SECONDS
    assert not hand.is_ours("sub:1")
    assert hand.is_ours("sub:never heard of")


def test_what_is_kept_in_time_stays_and_what_is_not_does_not_come_back_by_itself():
    now = [100.0]
    hand = Hand(lambda: now[0])
    for number in "12":
        hand.take(received(f"sub:{number}", number, f"ack{number}"), 0, until=110.0)
    hand.kept(["ack1"], began=105.0, until=115.0)
    now[0] = 112.0
    assert [hand.is_ours("sub:1"), hand.is_ours("sub:2")] == [True, False]
    # The server takes it, and another worker may have the message all the same.
    hand.kept(["ack1", "ack2"], began=112.0, until=122.0)
    assert [hand.is_ours("sub:1"), hand.is_ours("sub:2")] == [True, False]
    # A request that was on its way for a minute promises nothing for now.
    now[0] = 180.0
    hand.kept(["ack1"], began=113.0, until=123.0)
    assert not hand.is_ours("sub:1")


def test_a_message_that_is_delivered_here_anew_is_this_worker_s_again():
    now = [100.0]
    hand = Hand(lambda: now[0])
    first = hand.take(received("sub:1", "1", "a"), 0, until=110.0)
    now[0] = 160.0
    assert not hand.is_ours("sub:1")
    assert hand.take(received("sub:1", "1", "b"), 60, until=170.0) is None
    assert hand.is_ours("sub:1")
    assert sorted(hand.let_go([first], done=True, now=61)) == ["a", "b"]
