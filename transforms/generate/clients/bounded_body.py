"""Reads the body of an HTTP response with a limit on its size, before and after decompression.

aiohttp would decompress without a limit, and a megabyte of gzip can contain a gigabyte.
"""

from __future__ import annotations

import zlib

from groundrows.transforms.generate.clients.status import too_large, undecodable

ACCEPTED_ENCODING = "gzip"
"""The value of Accept-Encoding. Only this encoding can be decompressed here."""

_GZIP = 16 + zlib.MAX_WBITS
# Compressed data may consist of several gzip members. Each takes time, even when it is empty.
_MOST_MEMBERS = 1_000


class BoundedBody:
    """Collects a body from pieces, as they come from the network.

    Args:
        encoding: The response's Content-Encoding; empty for none.
        most: Maximum number of bytes, both compressed and decompressed.

    Raises:
        CallError: The encoding was not asked for.
    """

    def __init__(self, encoding: str, most: int) -> None:
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise undecodable(f"the response is encoded as {encoding[:40]!r}, which was not asked for")
        self._unpacker = zlib.decompressobj(_GZIP) if encoding.endswith("gzip") else None
        self._most = most
        self._received = 0
        self._members = 0
        self._body = bytearray()

    def feed(self, piece: bytes) -> bytes:
        """Add the next piece, and return its decompressed bytes.

        Raises:
            CallError: The body is too large, or can't be decompressed.
        """
        self._received += len(piece)
        self._check(self._received)  # limits also compressed data that decompresses to nothing
        if self._unpacker is not None:
            try:
                piece = self._unpack(piece)
            except zlib.error:
                raise undecodable("the response is not gzip, although its header says so") from None
        self._check(len(self._body) + len(piece))
        self._body += piece
        return piece

    def whole(self) -> bytes:
        """Return the whole body, after the last piece was added.

        Raises:
            CallError: The compressed data is cut off.
        """
        if self._unpacker is not None and self._received and not self._unpacker.eof:
            raise undecodable("the compressed response is cut off")
        return bytes(self._body)

    def _unpack(self, piece: bytes) -> bytes:
        assert self._unpacker is not None
        unpacked = bytearray()
        while piece:
            if self._unpacker.eof:
                self._members += 1
                if self._members >= _MOST_MEMBERS:
                    raise zlib.error
                self._unpacker = zlib.decompressobj(_GZIP)
            room = self._most - len(self._body) - len(unpacked)
            unpacked += self._unpacker.decompress(piece, room + 1)
            self._check(len(self._body) + len(unpacked))
            piece = self._unpacker.unconsumed_tail or self._unpacker.unused_data
        return bytes(unpacked)

    def _check(self, size: int) -> None:
        if size > self._most:
            raise too_large(self._most)
