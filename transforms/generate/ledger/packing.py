"""Compresses stored responses with zstandard, which takes little CPU time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import zstandard

_local = threading.local()


def pack(response: bytes) -> bytes:
    """Compress a response. The compressed form holds its size and a checksum."""
    packed: bytes = _compressor().compress(response)
    return packed


def pack_many(responses: Sequence[bytes]) -> list[bytes]:
    """Compress several responses, and release the interpreter's lock only once.

    When another thread is busy, getting the lock back takes up to a switch interval. With one release per
    response, ten responses waited longer for the lock than their compression and writing took.
    """
    if len(responses) < 2 or not all(responses):
        return [pack(response) for response in responses]  # zstandard's function refuses empty responses
    together: Any = _compressor().multi_compress_to_buffer(list(responses))
    return [bytes(packed) for packed in together]


def _compressor() -> zstandard.ZstdCompressor:
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        # Two threads may not use one (de)compressor at the same time.
        compressor = _local.compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
    return compressor


def unpack(packed: bytes) -> bytes:
    """Undo `pack`.

    Raises:
        zstandard.ZstdError: The bytes are damaged.
    """
    decompressor = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    response: bytes = decompressor.decompress(packed)
    if not response and packed != pack(b""):
        # zstandard does not check a frame that declares a size of zero, so it is refused here.
        raise zstandard.ZstdError("the frame claims to be empty")
    return response
