"""Compressed archives as byte streams that deliver everything before a break, then say where it is."""

from __future__ import annotations

import bz2
import io
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, cast

import zstandard

from groundrows.schemas.errors import BrokenStreamError

Codec = Literal["none", "gzip", "bzip2", "zstd"]

_READ_BYTES = 256 << 10
# A decoder gets this much at a time. A zstd block of 4 bytes can stand for 128 KiB, so this, and not the
# read above, bounds what a hostile file makes of one step: 32 MiB; and a break costs at most one step.
_STEP_BYTES = 1 << 10
_BZIP2_PIECE_BYTES = 1 << 20


def decompressed(source: BinaryIO, codec: Codec) -> BinaryIO:
    """`source` as the bytes it stands for: itself when `codec` is `none`, else a stream that cannot seek.

    All members (frames) of a file are read as one. `read(n)` gives what is there, up to n bytes, and raises
    only when nothing is left before the break.

    Raises:
        BrokenStreamError: while reading, when the data is corrupt, breaks off, or is followed by other data.
    """
    return source if codec == "none" else cast(BinaryIO, Pieces(_decode(source, codec)))


def _new_decoder(codec: Codec) -> Any:
    if codec == "gzip":
        return zlib.decompressobj(wbits=31)
    return bz2.BZ2Decompressor() if codec == "bzip2" else zstandard.ZstdDecompressor().decompressobj()


def _decode(source: BinaryIO, codec: Codec) -> Iterator[bytes]:
    decoder = _new_decoder(codec)
    position = 0
    while block := source.read(_READ_BYTES):
        for start in range(0, len(block), _STEP_BYTES):
            step = block[start : start + _STEP_BYTES]
            position += len(step)
            while step:
                if decoder.eof:
                    # Tapes and some archivers pad gzip with zeros, which gzip itself accepts.
                    step = step.lstrip(b"\0") if codec == "gzip" else step
                    decoder = _new_decoder(codec) if step else decoder
                if step:
                    yield from _pieces_of(decoder, step, codec, position)
                    step = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise BrokenStreamError(f"its {codec} data breaks off after {position} compressed bytes")


def _pieces_of(decoder: Any, step: bytes, codec: Codec, position: int) -> Iterator[bytes]:
    try:
        if codec != "bzip2":
            yield decoder.decompress(step)
            return
        # Here 40 bytes can stand for 45 MB, but the decoder can be asked for less.
        yield decoder.decompress(step, _BZIP2_PIECE_BYTES)
        while not (decoder.needs_input or decoder.eof):
            yield decoder.decompress(b"", _BZIP2_PIECE_BYTES)
    except (zlib.error, OSError, ValueError, zstandard.ZstdError) as error:
        raise BrokenStreamError(
            f"its {codec} data is corrupt within {position} compressed bytes ({error})"
        ) from error


class Pieces(io.RawIOBase):
    """An iterator of byte strings as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what the next piece has; 0 at the end."""
        while not self._ready:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._ready = memoryview(piece)
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size
