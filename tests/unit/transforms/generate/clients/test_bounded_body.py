import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundrows.schemas.codes import RESPONSE_TOO_LARGE, UNDECODABLE_RESPONSE
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.clients.bounded_body import BoundedBody
from tests.support.http2_servers import gzip_of_zeros


def read(encoding: str, most: int, *pieces: bytes) -> bytes:
    body = BoundedBody(encoding, most)
    given = [body.feed(piece) for piece in pieces]
    assert b"".join(given) == body.whole()
    return body.whole()


def refused(encoding: str, most: int, *pieces: bytes) -> str:
    """The code of the error that reading ends in."""
    with pytest.raises(CallError) as caught:
        read(encoding, most, *pieces)
    assert not caught.value.retryable
    return caught.value.code


@given(st.binary(max_size=300), st.lists(st.integers(0, 400)), st.booleans(), st.integers(0, 3))
def test_a_body_cut_anywhere_is_read_whole(body: bytes, cuts: list[int], packed: bool, more: int) -> None:
    sent = gzip.compress(body) if packed else body
    for _ in range(more):  # files of gzip in a row are one
        sent += gzip.compress(b"more") if packed else b"more"
    at = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    pieces = [sent[start:end] for start, end in pairwise(at)]
    whole = body + b"more" * more
    encoding = "gzip" if packed else "identity"
    assert read(encoding, max(len(whole), len(sent)), *pieces) == whole
    if whole:
        assert refused(encoding, len(whole) - 1, *pieces) == RESPONSE_TOO_LARGE


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_what_is_not_packed_is_taken_as_it_is(encoding: str) -> None:
    assert read(encoding, 10, b"0123", b"456789") == b"0123456789"
    assert refused(encoding, 9, b"0123", b"456789") == RESPONSE_TOO_LARGE


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP"])
def test_gzip_goes_by_two_names(encoding: str) -> None:
    assert read(encoding, 100, gzip.compress(b"body")) == b"body"


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip", "aws-chunked"])
def test_what_was_not_asked_for_is_not_unpacked(encoding: str) -> None:
    assert refused(encoding, 100, b"") == UNDECODABLE_RESPONSE


def test_a_gigabyte_in_a_megabyte_is_not_unpacked_past_the_bound() -> None:
    assert refused("gzip", 1 << 20, gzip_of_zeros(1 << 30)) == RESPONSE_TOO_LARGE


def test_what_unpacks_to_nothing_has_an_end_too() -> None:
    empty_block = b"\0\0\0\xff\xff"
    assert refused("gzip", 1000, gzip.compress(b"")[:10], *[empty_block] * 1000) == RESPONSE_TOO_LARGE
    assert refused("gzip", 10**6, gzip.compress(b"") * 2000) == UNDECODABLE_RESPONSE


@pytest.mark.parametrize(
    "body", [b"no gzip", gzip.compress(b"body" * 99)[:-9], gzip.compress(b"x") + b"junk"]
)
def test_what_does_not_unpack_is_undecodable(body: bytes) -> None:
    assert refused("gzip", 1000, body) == UNDECODABLE_RESPONSE


def test_an_empty_body_is_empty_whatever_it_says_it_is() -> None:
    assert read("gzip", 10) == b""
