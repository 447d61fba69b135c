"""The gRPC side: both API versions on one port of the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from pipeline.emulator.disconnect import cut_connection
from pipeline.emulator.options import EmulatorOptions
from pipeline.emulator.service import Service
from pipeline.emulator.status import Refusal

SERVICES = tuple(
    f"google.cloud.discoveryengine.{version}.GroundedGenerationService" for version in ("v1", "v1beta")
)
GRACE_SECONDS = 2.0
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # a thousand facts of 10 000 characters are a valid request
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # else a second server on the same port would take half of the calls
)


class PortInUseError(Exception):
    """The port cannot be had; the message is one sentence."""


async def serve(options: EmulatorOptions, service: Service) -> None:
    """Serve until SIGTERM, SIGINT or, with `exit_with_parent`, the end of stdin.

    Prints `ready on HOST:PORT` once calls are taken. On stopping no new calls are taken and those under
    way get `GRACE_SECONDS`.

    Raises:
        PortInUseError: The port cannot be had.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, service.reload_limits)

    server = grpc.aio.server(options=_OPTIONS)
    handlers = {"GenerateGroundedContent": _generate(service, stopping)}
    server.add_generic_rpc_handlers(
        tuple(grpc.method_handlers_generic_handler(name, handlers) for name in SERVICES)
    )
    try:
        port = server.add_insecure_port(f"127.0.0.1:{options.port}")
    except RuntimeError:
        raise PortInUseError(
            f"--port={options.port} cannot be opened on 127.0.0.1: free it, or use 0 for a free one."
        ) from None
    await server.start()
    if options.exit_with_parent:
        threading.Thread(target=_wait_for_stdin, args=(loop, stopping), daemon=True).start()
    print(f"ready on 127.0.0.1:{port}", flush=True)
    await stopping.wait()
    await server.stop(GRACE_SECONDS)


def _generate(service: Service, stopping: asyncio.Event) -> Any:
    async def generate(body: bytes, context: Any) -> bytes:
        reply = service.generate(body, _routing_of(context))
        if reply.delay_seconds:
            await asyncio.sleep(reply.delay_seconds)
        if isinstance(reply.outcome, bytes):
            return reply.outcome
        if isinstance(reply.outcome, Refusal):
            refusal = reply.outcome
            await context.abort(
                grpc.StatusCode[refusal.code],
                refusal.message,
                (("grpc-status-details-bin", refusal.details),),
            )
        if reply.outcome == "disconnect":
            cut_connection(context.peer())
        # A hung call waits until the client gives it up, but does not hold up the end of the server.
        await stopping.wait()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "The server is stopping.")
        raise AssertionError("abort always raises")

    # Bytes in and out: whether a request is read at all is the service's decision.
    return grpc.unary_unary_rpc_method_handler(generate)


def _routing_of(context: Any) -> Callable[[], str | None]:
    def routing() -> str | None:
        for key, value in context.invocation_metadata():
            if key == "x-goog-request-params":
                return value if isinstance(value, str) else value.decode()
        return None

    return routing


def _wait_for_stdin(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    # A thread, because an event loop cannot watch every kind of stdin (a file, /dev/null).
    with contextlib.suppress(OSError):  # closed: it has ended all the more
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop has ended before stdin has
        loop.call_soon_threadsafe(stopping.set)
