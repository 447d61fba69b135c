"""Responses as stored: compressed with zstandard, quick enough to stay out of a profile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import zstandard

_local = threading.local()


def pack(response: bytes) -> bytes:
    """Compress; zstandard's frame holds the size and a checksum."""
    packed: bytes = _compressor().compress(response)
    return packed


def pack_many(responses: Sequence[bytes]) -> list[bytes]:
    """As `pack` for each, letting go of the interpreter's lock once and not once for each.

    Where another thread is busy, the lock comes back after up to a switch interval: a group of ten responses
    waited longer for it than their compression and their write took.
    """
    if len(responses) < 2 or not all(responses):
        return [pack(response) for response in responses]  # it takes no empty ones
    together: Any = _compressor().multi_compress_to_buffer(list(responses))
    return [bytes(packed) for packed in together]


def _compressor() -> zstandard.ZstdCompressor:
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        # A (de)compressor may not be used by two threads at once.
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
        # A frame that claims to hold nothing is not looked into, whatever follows its head.
        raise zstandard.ZstdError("the frame claims to be empty")
    return response
