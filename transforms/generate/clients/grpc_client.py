"""The service over gRPC, by a raw stub.

The generated client is not used for calls: it sets no deadline, sends proto-plus messages that cost a third
of the CPU, and would decode before we can tell a broken response from a broken server. What it adds on the
wire, the routing header, is added here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from schemas.messages import response_class
from transforms.generate.clients.base import Call, Reply
from transforms.generate.errors import MESSAGE_TOO_LARGE, UNDECODABLE_RESPONSE, CallError, SetupError
from transforms.generate.settings import CallSettings

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)

# -1 lifts gRPC's receive limit of 4 MiB, past which an answer would end as RESOURCE_EXHAUSTED. The pings
# find dead connections: without them every call on one would wait for its own deadline.
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


class GrpcClient:
    """`GenerateGroundedContent` of v1 or v1beta, unary."""

    def __init__(self, settings: CallSettings) -> None:
        self._channel = _open_channel(settings.endpoint, settings.secure)
        self._decode = response_class(settings.api_version).FromString
        method = (
            f"/google.cloud.discoveryengine.{settings.api_version}"
            ".GroundedGenerationService/GenerateGroundedContent"
        )
        # No (de)serializers: requests are bytes already, and a response is decoded where a failure to do
        # so can be named.
        self._call: Any = self._channel.unary_unary(
            method, request_serializer=None, response_deserializer=None
        )
        self._metadata = (("x-goog-request-params", "location=" + quote(settings.location, safe="")),)

    async def ask(self, call: Call, deadline: float) -> Reply:
        """See `Client.ask`."""
        try:
            response: bytes = await self._call(call.request, timeout=deadline, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise call_error(
                error.code().name, error.details() or "", tuple(error.trailing_metadata() or ()), deadline
            ) from None
        except grpc.aio.UsageError as error:
            raise CallError("UNAVAILABLE", f"the channel is closed: {error}") from None
        try:
            self._decode(response)
        except DecodeError:
            raise CallError(
                UNDECODABLE_RESPONSE, f"the response of {len(response)} bytes is no valid message"
            ) from None
        return Reply(response)

    async def close(self) -> None:
        """See `Client.close`."""
        await self._channel.close()


def _open_channel(endpoint: str, secure: bool) -> grpc.aio.Channel:
    if not secure:
        return grpc.aio.insecure_channel(endpoint, options=CHANNEL_OPTIONS)
    import google.auth.exceptions
    from google.api_core import grpc_helpers_async

    try:
        channel: grpc.aio.Channel = grpc_helpers_async.create_channel(
            endpoint, default_scopes=SCOPES, options=CHANNEL_OPTIONS
        )
    except google.auth.exceptions.GoogleAuthError as error:
        raise SetupError(
            f"No credentials for {endpoint}: {error}. Run `gcloud auth application-default login` "
            "or set GOOGLE_APPLICATION_CREDENTIALS."
        ) from None
    return channel


def call_error(
    code: str, details: str, trailing: Iterable[tuple[str, str | bytes]], deadline: float
) -> CallError:
    """Turn gRPC's account of a failed call into ours.

    Args:
        code: The status code's name.
        details: The status message.
        trailing: The trailing metadata, in which Google's services put RetryInfo.
        deadline: The attempt's deadline in seconds, for the message.
    """
    if code == "RESOURCE_EXHAUSTED" and "larger than max" in details:
        return CallError(MESSAGE_TOO_LARGE, details)
    if code == "INTERNAL" and "deserializing response" in details:
        return CallError(UNDECODABLE_RESPONSE, details)
    if code == "DEADLINE_EXCEEDED":
        details = f"no answer within {deadline:g} s: {details}"
    return CallError(code, details, _retry_after(trailing))


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
