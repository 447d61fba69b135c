import os
import threading
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from groundrows.transforms.generate.ledger.packing import pack, pack_many, unpack


@given(st.binary(max_size=2_000))
def test_what_is_packed_comes_out_again(response):
    assert unpack(pack(response)) == response


@given(st.lists(st.binary(max_size=2_000), max_size=40))
def test_many_at_once_are_packed_as_each_by_itself(responses):
    assert pack_many(responses) == [pack(response) for response in responses]


def test_large_responses_come_out_again_and_text_becomes_smaller():
    text = b"The same sentence in a response. " * 100_000
    assert unpack(pack(text)) == text
    assert len(pack(text)) < len(text) / 100
    noise = os.urandom(3_000_000)
    assert unpack(pack(noise)) == noise


@settings(max_examples=150)
@given(response=st.binary(min_size=1, max_size=300), where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_never_taken_for_a_response(response, where, bit):
    packed = bytearray(pack(response))
    packed[where % len(packed)] ^= 1 << bit
    with suppress(zstandard.ZstdError):
        assert unpack(bytes(packed)) == response  # some bits of the frame's head say nothing


@pytest.mark.parametrize("cut", [0, 1, 5, -1])
def test_a_cut_is_noticed(cut):
    with pytest.raises(zstandard.ZstdError):
        unpack(pack(b"a response" * 50)[:cut])


def test_threads_do_not_disturb_each_other():
    wrong = []

    def work(seed):
        for number in range(300):
            response = f"{seed} {number} ".encode() * 200
            if unpack(pack(response)) != response:
                wrong.append((seed, number))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
