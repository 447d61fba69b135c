"""The body of an HTTP response, unpacked by us, so that its size and what it unpacks to have a bound.

aiohttp would unpack by itself, and a megabyte of gzip can hold a gigabyte.
"""

from __future__ import annotations

import zlib

from groundrows.transforms.generate.clients.status import too_large, undecodable

ACCEPTED_ENCODING = "gzip"
"""What to ask for in Accept-Encoding: nothing else is unpacked here."""

_GZIP = 16 + zlib.MAX_WBITS
# Compressed data may be several files of gzip in a row. Each takes time to begin, however short it is.
_MOST_MEMBERS = 1_000


class BoundedBody:
    """Collects a body piece by piece, cut wherever the network cuts it.

    Args:
        encoding: The response's Content-Encoding; empty for none.
        most: Maximum number of bytes, both as sent and as unpacked.

    Raises:
        CallError: The encoding is none that was asked for.
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
        """Take the next piece, and return what it unpacks to.

        Raises:
            CallError: It is too much, or can't be unpacked.
        """
        self._received += len(piece)
        self._check(self._received)  # what unpacks to nothing has an end, too
        if self._unpacker is not None:
            try:
                piece = self._unpack(piece)
            except zlib.error:
                raise undecodable("the response is no gzip, though it says so") from None
        self._check(len(self._body) + len(piece))
        self._body += piece
        return piece

    def whole(self) -> bytes:
        """The whole body, once the last piece has been taken.

        Raises:
            CallError: Compressed data ends in the middle.
        """
        if self._unpacker is not None and self._received and not self._unpacker.eof:
            raise undecodable("the compressed response ends in the middle")
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
