"""Responses as stored: compressed with zstandard, quick enough to stay out of a profile."""

from __future__ import annotations

import threading

import zstandard

_local = threading.local()


def pack(response: bytes) -> bytes:
    """Compress; zstandard's frame holds the size and a checksum."""
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        # A (de)compressor may not be used by two threads at once.
        compressor = _local.compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
    packed: bytes = compressor.compress(response)
    return packed


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
