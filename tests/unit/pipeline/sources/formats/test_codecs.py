import bz2
import gzip
import io

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from groundrows.pipeline.sources.formats.codecs import Codec, decompressed
from groundrows.schemas.errors import BrokenStreamError

COMPRESS = {"gzip": gzip.compress, "bzip2": bz2.compress, "zstd": zstandard.compress}
CODECS: list[Codec] = ["gzip", "bzip2", "zstd"]

codecs = pytest.mark.parametrize("codec", CODECS)


def until_break(data: bytes, codec: Codec) -> tuple[bytes, BrokenStreamError | None]:
    stream = decompressed(io.BytesIO(data), codec)
    got = b""
    try:
        while piece := stream.read(10_000):
            got += piece
    except BrokenStreamError as error:
        return got, error
    return got, None


def incompressible(size: int) -> bytes:
    return b"".join(hash((size, i)).to_bytes(8, "little", signed=True) for i in range(size // 8))


def test_no_codec_is_the_source_itself() -> None:
    source = io.BytesIO(b"abc")
    assert decompressed(source, "none") is source


@codecs
@given(members=st.lists(st.binary(max_size=3000), min_size=1, max_size=5))
def test_all_members_are_read_as_one(codec: Codec, members: list[bytes]) -> None:
    data = b"".join(COMPRESS[codec](member) for member in members)
    assert until_break(data, codec) == (b"".join(members), None)


@codecs
def test_sizes_beyond_every_buffer(codec: Codec) -> None:
    content = incompressible(900_000) + bytes(5_000_000) + incompressible(80_000)
    assert until_break(COMPRESS[codec](content), codec) == (content, None)


@codecs
def test_a_cut_at_any_byte_is_a_break_that_loses_nothing_decoded(codec: Codec) -> None:
    data = COMPRESS[codec](b"the first member ") + COMPRESS[codec](b"and the second")
    boundary = len(COMPRESS[codec](b"the first member "))
    for size in range(len(data)):
        got, error = until_break(data[:size], codec)
        assert b"the first member and the second".startswith(got)
        if size == boundary:
            assert (got, error) == (b"the first member ", None)
        else:
            assert f"breaks off after {size} compressed bytes" in str(error)
            assert size < boundary or got.startswith(b"the first member ")


@codecs
def test_what_comes_before_a_cut_is_delivered(codec: Codec) -> None:
    content = incompressible(3_000_000)
    data = COMPRESS[codec](content)
    got, error = until_break(data[: len(data) // 2], codec)
    assert error is not None
    assert content.startswith(got)
    assert len(got) > 890_000  # bzip2's blocks hold 900,000 bytes


@codecs
def test_other_data_behind_the_last_member_is_an_error(codec: Codec) -> None:
    got, error = until_break(COMPRESS[codec](b"content") + b"rubbish", codec)
    assert got == b"content"
    assert error is not None


@codecs
def test_other_data_from_the_start_is_an_error(codec: Codec) -> None:
    got, error = until_break(b'{"question": "not compressed at all"}\n', codec)
    assert got == b""
    assert "corrupt" in str(error)


def test_gzip_may_be_padded_with_zeros() -> None:
    data = gzip.compress(b"one ") + bytes(1500) + gzip.compress(b"two") + bytes(3000)
    assert until_break(data, "gzip") == (b"one two", None)


def test_a_wrong_gzip_checksum_is_an_error() -> None:
    data = bytearray(gzip.compress(b"content"))
    data[-8] ^= 1
    assert "corrupt" in str(until_break(bytes(data), "gzip")[1])


def test_zstd_skippable_frames_are_skipped() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    data = skippable + zstandard.compress(b"one ") + skippable + zstandard.compress(b"two") + skippable
    assert until_break(data, "zstd") == (b"one two", None)


@codecs
def test_a_bomb_is_delivered_in_pieces(codec: Codec) -> None:
    stream = decompressed(io.BytesIO(COMPRESS[codec](bytes(100_000_000))), codec)
    total = 0
    while piece := stream.read(1 << 30):
        assert len(piece) <= 64 << 20
        total += len(piece)
    assert total == 100_000_000
