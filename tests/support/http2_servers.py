"""A gRPC server that says exactly these messages, compressed or not, which no gRPC library would let it say.

It speaks as much of HTTP/2 (RFC 9113) as one answer takes: settings, headers without compression, and data
within the windows that the client grants.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_INITIAL_WINDOW_SIZE = 4
_PREFACE_BYTES = 24
_MOST_IN_A_FRAME = 16_384


@dataclass
class _Connection:
    """What one client has granted, and where its call arrives."""

    writer: asyncio.StreamWriter
    windows: dict[int, int] = field(default_factory=lambda: {0: 65_535})
    initial: int = 65_535
    granted: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        head = struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream)
        self.writer.write(head + payload)

    async def send_data(self, stream: int, data: bytes) -> None:
        at = 0
        while at < len(data):
            room = min(self.windows[0], self.windows[stream], _MOST_IN_A_FRAME)
            if room <= 0:
                self.granted.clear()
                await self.granted.wait()
                continue
            piece = data[at : at + room]
            at += len(piece)
            self.windows[0] -= len(piece)
            self.windows[stream] -= len(piece)
            self.send(_DATA, 0, stream, piece)
            await self.writer.drain()

    def take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """Heed a frame that says how to speak."""
        if kind == _SETTINGS and not flags & _ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at : at + 6])
                if name == _INITIAL_WINDOW_SIZE:
                    for each in self.windows:
                        self.windows[each] += (value - self.initial) if each else 0
                    self.initial = value
            self.send(_SETTINGS, _ACK, 0)
        elif kind == _PING and not flags & _ACK:
            self.send(_PING, _ACK, 0, payload)
        elif kind == _WINDOW_UPDATE:
            self.windows[stream] = self.windows.get(stream, self.initial) + struct.unpack(">I", payload)[0]
            self.granted.set()


@asynccontextmanager
async def answering_grpc(
    messages: Iterable[bytes],
    encoding: str = "identity",
    *,
    head: Mapping[str, bytes] | None = None,
    trailers: Mapping[str, bytes] | None = None,
) -> AsyncIterator[str]:
    """A server that answers every call by these messages; yields `HOST:PORT`.

    Args:
        messages: As they go over the wire, from `framed`.
        encoding: What it says that they are compressed with, whatever the client takes.
        head: Headers beside those that every answer has, or instead of them.
        trailers: What follows the messages; the status OK by default.
    """
    frames = list(messages)
    said = {":status": b"200", "content-type": b"application/grpc", "grpc-encoding": encoding.encode()}
    first = _headers(said | dict(head or {}))
    last = _headers({"grpc-status": b"0"} if trailers is None else trailers)

    async def answer(connection: _Connection, stream: int) -> None:
        connection.windows.setdefault(stream, connection.initial)
        connection.send(_HEADERS, _END_HEADERS, stream, first)
        for frame in frames:
            await connection.send_data(stream, frame)
        connection.send(_HEADERS, _END_HEADERS | _END_STREAM, stream, last)
        await connection.writer.drain()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        answers: set[asyncio.Task[None]] = set()
        try:
            await reader.readexactly(_PREFACE_BYTES)
            connection.send(_SETTINGS, 0, 0)
            while True:
                head = await reader.readexactly(9)
                size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
                stream = int.from_bytes(head[5:], "big")
                connection.take(kind, flags, stream, await reader.readexactly(size))
                if kind == _HEADERS:
                    answers.add(asyncio.create_task(answer(connection, stream)))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            for one in answers:
                one.cancel()
            await asyncio.gather(*answers, return_exceptions=True)
            writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
    finally:
        server.close()


def framed(body: bytes, *, compressed: bool = False) -> bytes:
    """One message of a gRPC answer: a flag, its size on the wire, and its bytes."""
    return struct.pack(">BI", compressed, len(body)) + body


def gzip_of_zeros(size: int) -> bytes:
    """Zeros of this size, in whole MiB, as gzip: a thousandth of it, made without compressing them all.

    A block after a full flush needs nothing that came before, so that the first one is repeated. The checksum
    at the end is that of one MiB: whoever reads as far as that has read too much.
    """
    packer = zlib.compressobj(9, wbits=31)
    head = packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (size >> 20) + packer.flush()


def _headers(fields: Mapping[str, bytes]) -> bytes:
    """Fields as HPACK has them that are neither indexed nor compressed (RFC 7541, 6.2.2)."""
    return b"".join(b"\0" + _text(name.encode()) + _text(value) for name, value in fields.items())


def _text(text: bytes) -> bytes:
    assert len(text) < 127  # what is longer has a length of several bytes
    return bytes((len(text),)) + text
