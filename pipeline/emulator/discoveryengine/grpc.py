"""The gRPC side's methods, for both API versions."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, NoReturn, get_args

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from groundrows.pipeline.emulator.calls import Received, Refusal, refuse
from groundrows.pipeline.emulator.discoveryengine.messages import GrpcVersion, MethodName, Origin
from groundrows.pipeline.emulator.service import Service


def handlers(service: Service, stopping: asyncio.Event) -> tuple[Any, ...]:
    """A handler of each version's methods.

    Args:
        service: What decides on the calls.
        stopping: Set when hung calls are to be given up.
    """
    found = []
    for version in get_args(GrpcVersion):
        methods = {
            "GenerateGroundedContent": _unary(service, stopping, version, "GenerateGroundedContent"),
            "StreamGenerateGroundedContent": _stream(service, stopping, version),
            "CheckGrounding": _unary(service, stopping, version, "CheckGrounding"),
        }
        name = f"google.cloud.discoveryengine.{version}.GroundedGenerationService"
        found.append(grpc.method_handlers_generic_handler(name, methods))
    return tuple(found)


# Bytes in and out: whether a request is read at all is the service's decision.
def _unary(service: Service, stopping: asyncio.Event, version: GrpcVersion, method: MethodName) -> Any:
    origin = Origin(method, version, "grpc")

    async def answer(body: bytes, context: Any) -> bytes:
        reply = service.take(origin, partial(_read, origin, body), partial(_routing, context))
        if reply.delay_seconds:
            await asyncio.sleep(reply.delay_seconds)
        if isinstance(reply.outcome, bytes):
            return reply.outcome
        await _end(context, reply.outcome, stopping)

    return grpc.unary_unary_rpc_method_handler(answer)


def _stream(service: Service, stopping: asyncio.Event, version: GrpcVersion) -> Any:
    origin = Origin("StreamGenerateGroundedContent", version, "grpc")

    async def answer(bodies: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        # One request is all there is to a stream; what a client sends after it is not waited for.
        body = await anext(aiter(bodies), None)
        if body is None:
            await _end(context, refuse("INVALID_ARGUMENT", "The stream ended without a request."), stopping)
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        reply = service.take(origin, partial(_read, origin, body), partial(_routing, context))
        for due, part in reply.due():
            await asyncio.sleep(arrived + due - loop.time())
            yield part
        await asyncio.sleep(arrived + reply.delay_seconds - loop.time())
        if isinstance(reply.outcome, bytes):
            yield reply.outcome
        else:
            await _end(context, reply.outcome, stopping)

    return grpc.stream_stream_rpc_method_handler(answer)


async def _end(context: Any, outcome: Refusal | str, stopping: asyncio.Event) -> NoReturn:
    """End a call without an answer, or leave it without an end."""
    if isinstance(outcome, Refusal):
        await context.abort(
            grpc.StatusCode[outcome.code],
            outcome.message,
            (("grpc-status-details-bin", outcome.details),),
        )
    if outcome == "disconnect":
        cut_connection(context.peer())
    # A hung call waits until the client gives it up, but does not hold up the end of the server.
    await stopping.wait()
    await context.abort(grpc.StatusCode.UNAVAILABLE, "The server is stopping.")
    raise AssertionError("abort always raises")


def _read(origin: Origin, body: bytes) -> Received | Refusal:
    try:
        return Received(origin.request_class.FromString(body))
    except DecodeError:
        return refuse("INVALID_ARGUMENT", f"The request is no {origin.request_class.DESCRIPTOR.name}.")


def _routing(context: Any) -> str | None:
    for key, value in context.invocation_metadata():
        if key == "x-goog-request-params":
            return value if isinstance(value, str) else value.decode()
    return None


def cut_connection(peer: str) -> bool:
    """Shut down this process's TCP connection to a peer, and with it every call on it.

    gRPC keeps its sockets to itself, so they are looked for among the open files (on Linux only).

    Args:
        peer: The peer as gRPC names it, `ipv4:127.0.0.1:40000`.

    Returns:
        Whether a connection was found and cut.
    """
    port = int(peer.rsplit(":", 1)[1])
    try:
        files = [int(name) for name in os.listdir("/proc/self/fd")]
    except FileNotFoundError:
        return False
    for file in files:
        try:
            with socket.socket(fileno=os.dup(file)) as connection:
                internet = connection.family in (socket.AF_INET, socket.AF_INET6)
                if internet and connection.getpeername()[1] == port:
                    connection.shutdown(socket.SHUT_RDWR)
                    return True
        except OSError:
            continue  # no socket, or one that only listens
    return False
