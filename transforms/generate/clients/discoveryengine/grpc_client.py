"""Calls the service over gRPC, without the generated client.

The generated client sets no deadline, and its proto-plus messages take a third of the CPU time. It also
decodes the response itself, so that a broken response looks like a broken server. This module adds the
routing header as the generated client does, and also adds it to the streaming method, which lacks it there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from groundrows.schemas.discoveryengine.messages import Pb, response_class
from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.clients.base import Call, Reply
from groundrows.transforms.generate.clients.credentials import SCOPES, no_credentials
from groundrows.transforms.generate.clients.discoveryengine.address import address_of
from groundrows.transforms.generate.clients.discoveryengine.merge import merge
from groundrows.transforms.generate.clients.pieces import Pieces, most_pieces
from groundrows.transforms.generate.clients.status import (
    no_message,
    status_error,
    too_large,
    too_many_pieces,
    undecodable,
)
from groundrows.transforms.generate.settings import CallSettings

# Pings detect dead connections; without them, every call on one would wait for its deadline. Compressed
# responses are refused (1 has only the bit for uncompressed), because some versions of gRPC check the size
# limit only after decompression.
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


_COMPRESSED = re.compile("Compression algorithm '[a-z]+' is disabled")
# The memory that a part of a stream takes besides its bytes. It also limits a stream of empty parts.
_PART_BYTES = 128


class GrpcClient:
    """`GenerateGroundedContent`, streamed or not, or `CheckGrounding`, of v1 or v1beta.

    Raises:
        SetupError: There are no credentials.
    """

    def __init__(self, settings: CallSettings) -> None:
        self._most = settings.max_response_bytes
        self._channel = _open_channel(settings)
        self._response = response_class(settings.api_version, settings.method)
        self._streamed = settings.stream_answers and settings.method == "generate"
        service = f"/google.cloud.discoveryengine.{settings.api_version}.GroundedGenerationService"
        # No (de)serializers: requests are bytes already, and responses are decoded below, where a failure can
        # be reported.
        if self._streamed:
            # The method takes a stream of requests, and we send one. On the wire this is the same as a method
            # with one request, and it needs no task that feeds the stream.
            self._call: Any = self._channel.unary_stream(f"{service}/StreamGenerateGroundedContent")
        else:
            name = "GenerateGroundedContent" if settings.method == "generate" else "CheckGrounding"
            self._call = self._channel.unary_unary(f"{service}/{name}")
        field, resource = address_of(settings)
        self._metadata = (("x-goog-request-params", f"{field}={quote(resource, safe='')}"),)

    async def ask(self, call: Call, deadline: float) -> Reply:
        """See `Client.ask`."""
        try:
            if self._streamed:
                return await self._ask_for_stream(call.request, deadline)
            response: bytes | None = await self._call(call.request, timeout=deadline, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise self._error(error, deadline) from None
        except grpc.aio.UsageError as error:
            raise CallError("UNAVAILABLE", f"the channel is closed: {error}") from None
        if response is None:
            raise CallError("INTERNAL", "the server says OK and sends no response")
        self._decode(response, Pieces(most_pieces(self._most)))
        return Reply(response)

    async def _ask_for_stream(self, request: bytes, deadline: float) -> Reply:
        started = time.monotonic()
        first_part_ms: float | None = None
        parts: list[Pb] = []
        pieces = Pieces(most_pieces(self._most))
        received = 0
        stream = self._call(request, timeout=deadline, metadata=self._metadata)
        try:
            async for part in stream:
                if first_part_ms is None:
                    first_part_ms = (time.monotonic() - started) * 1000
                received += len(part) + _PART_BYTES
                if received > self._most:
                    raise too_large(self._most)
                parts.append(self._decode(part, pieces))
        finally:
            stream.cancel()  # does nothing when it has ended by itself
        return Reply(merge(parts, self._response).SerializeToString(deterministic=True), first_part_ms)

    def _error(self, error: grpc.aio.AioRpcError, deadline: float) -> CallError:
        details = error.details() or ""
        # gRPC uses the same codes for errors that it finds on this side, so its messages are compared.
        if "CLIENT: Received message larger than max" in details:
            return too_large(self._most)
        if _COMPRESSED.search(details):
            return undecodable("the response is compressed, which was not asked for")
        return call_error(error.code().name, details, tuple(error.trailing_metadata() or ()), deadline)

    def _decode(self, data: bytes, pieces: Pieces) -> Pb:
        if pieces.are_too_many(data, self._response.DESCRIPTOR):
            raise too_many_pieces(self._most)
        try:
            return self._response.FromString(data)
        except DecodeError:
            raise no_message(len(data)) from None

    async def close(self) -> None:
        """See `Client.close`."""
        await self._channel.close()


def _open_channel(settings: CallSettings) -> grpc.aio.Channel:
    endpoint = settings.endpoint
    options = (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", settings.max_response_bytes))
    if not settings.secure:
        return grpc.aio.insecure_channel(endpoint, options=options)
    import google.auth.exceptions
    from google.api_core import grpc_helpers_async

    try:
        channel: grpc.aio.Channel = grpc_helpers_async.create_channel(
            endpoint, default_scopes=SCOPES, options=options
        )
    except google.auth.exceptions.GoogleAuthError as error:
        raise no_credentials(endpoint, error) from None
    return channel


def call_error(
    code: str, details: str, trailing: Iterable[tuple[str, str | bytes]], deadline: float
) -> CallError:
    """Turn gRPC's error of a failed call into a `CallError`.

    Args:
        code: The status code's name.
        details: The status message.
        trailing: The trailing metadata, in which Google's services put RetryInfo.
        deadline: The attempt's deadline in seconds, for the message.
    """
    return status_error(code, details, _retry_after(trailing), deadline)


def _retry_after(trailing: Iterable[tuple[str, str | bytes]]) -> float | None:
    for key, value in trailing:
        if key != "grpc-status-details-bin" or not isinstance(value, bytes):
            continue
        try:
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.RetryInfo()
                if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.HasField("retry_delay"):
                    delay: float = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
                    return max(0.0, delay)
        except DecodeError:
            return None
    return None
