"""The server on the loopback interface: gRPC and, on a port of its own, REST."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable

import grpc
import grpc.aio

from groundrows.pipeline.emulator.discoveryengine.grpc import handlers
from groundrows.pipeline.emulator.options import EmulatorOptions
from groundrows.pipeline.emulator.service import Service
from groundrows.schemas.errors import PortInUseError

GRACE_SECONDS = 2.0
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # a thousand facts of 10 000 characters are a valid request
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # else a second server on the same port would take half of the calls
)


async def serve(options: EmulatorOptions, service: Service) -> None:
    """Serve until SIGTERM, SIGINT or, with `exit_with_parent`, the end of stdin.

    Prints `ready on HOST:PORT`, the gRPC side's address, once calls are taken, and before that
    `REST on HOST:PORT` if there is REST. On stopping no new calls are taken and those under way get
    `GRACE_SECONDS`.

    Raises:
        PortInUseError: A port cannot be had.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, service.reload_limits)

    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers(handlers(service, stopping))
    try:
        port = server.add_insecure_port(f"127.0.0.1:{options.port}")
    except RuntimeError:
        raise PortInUseError("port", options.port) from None
    stops: list[Callable[[], Awaitable[None]]] = [lambda: server.stop(GRACE_SECONDS)]
    if options.rest_port is not None:
        # As much as a start takes without it, so it is imported only where it is wanted.
        from groundrows.pipeline.emulator.rest import RestServer

        rest = RestServer(service, stopping, GRACE_SECONDS, canned=options.answers == "canned")
        rest_port = await rest.start(options.rest_port)
        stops.append(rest.stop)
        print(f"REST on 127.0.0.1:{rest_port}", flush=True)
    await server.start()
    if options.exit_with_parent:
        threading.Thread(target=_wait_for_stdin, args=(loop, stopping), daemon=True).start()
    print(f"ready on 127.0.0.1:{port}", flush=True)
    await stopping.wait()
    await asyncio.gather(*(stop() for stop in stops))


def _wait_for_stdin(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    # A thread, because an event loop cannot watch every kind of stdin (a file, /dev/null).
    with contextlib.suppress(OSError):  # closed: it has ended all the more
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop has ended before stdin has
        loop.call_soon_threadsafe(stopping.set)
