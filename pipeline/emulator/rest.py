"""The REST side: calls of every API as JSON over HTTP, on one port."""

from __future__ import annotations

import asyncio
import json
from functools import partial

from aiohttp import web
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2

from groundrows.pipeline.emulator.calls import Refusal, Reply, RestCall, refuse
from groundrows.pipeline.emulator.discoveryengine.rest import RestPaths
from groundrows.pipeline.emulator.gemini.calls import RestPaths as GeminiPaths
from groundrows.pipeline.emulator.service import Service
from groundrows.schemas.errors import PortInUseError

# Imported for the sake of its messages: an error's details are looked up among those that are loaded.
assert error_details_pb2

# The HTTP status of each code, by google.rpc's own table.
HTTP_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_NO_METHOD = refuse("NOT_FOUND", "There is no such method here: look the path up in the API's reference.")
_STOPPING = refuse("UNAVAILABLE", "The server is stopping.")
_JSON = "application/json; charset=UTF-8"
_EVENTS = "text/event-stream"


class RestServer:
    """The service over HTTP, on the loopback interface.

    Args:
        service: What decides on the calls.
        stopping: Set when hung calls are to be given up.
        grace_seconds: How long `stop` waits for calls under way.
        canned: Whether the service has but a few answers, whose JSON is then made only once.
    """

    def __init__(
        self, service: Service, stopping: asyncio.Event, grace_seconds: float, *, canned: bool
    ) -> None:
        self._service = service
        self._stopping = stopping
        self._apis = (RestPaths(canned=canned), GeminiPaths())
        app = web.Application(client_max_size=0)  # no limit, as on the gRPC side
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A hung call ends with its client, which handler_cancellation is for.
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=grace_seconds
        )

    async def start(self, port: int) -> int:
        """Take calls on `port`, or on a free one when that is 0, and return which one it is.

        Raises:
            PortInUseError: The port cannot be had.
        """
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", port).start()
        except OSError:
            await self._runner.cleanup()
            raise PortInUseError("rest_port", port) from None
        taken: int = self._runner.addresses[0][1]
        return taken

    async def stop(self) -> None:
        """Take no new calls and wait a while for those under way."""
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        arrived = asyncio.get_running_loop().time()
        found = (api.call_of(request.path, request.query, request.headers) for api in self._apis)
        call = next(filter(None, found), None)
        if call is None or request.method != "POST":
            return _error(_NO_METHOD)
        body = await request.read()
        reply = self._service.take(call.origin, partial(call.read, body), None)
        if call.origin.streams:
            return await self._stream(request, call, reply, arrived)
        return await self._answer(request, call, reply, arrived)

    async def _answer(
        self, request: web.Request, call: RestCall, reply: Reply, arrived: float
    ) -> web.StreamResponse:
        await _sleep_until(arrived + reply.delay_seconds)
        if isinstance(reply.outcome, bytes):
            return web.Response(body=call.write(reply.outcome), headers={"Content-Type": _JSON})
        if isinstance(reply.outcome, Refusal):
            return _error(reply.outcome)
        await self._leave(request, reply)
        return _error(_STOPPING)

    async def _stream(
        self, request: web.Request, call: RestCall, reply: Reply, arrived: float
    ) -> web.StreamResponse:
        """Answer with a JSON array whose elements are sent one by one, or with an event for each of them.

        An error is an element, too. Before any other it also decides on the HTTP status.
        """
        response = web.StreamResponse(headers={"Content-Type": _EVENTS if call.is_sse else _JSON})
        for due, part in reply.due():
            await _sleep_until(arrived + due)
            await _write_element(request, response, call.write(part), call.is_sse)
        await _sleep_until(arrived + reply.delay_seconds)
        outcome: Refusal | bytes
        if isinstance(reply.outcome, (bytes, Refusal)):
            outcome = reply.outcome
        else:
            await self._leave(request, reply)
            outcome = _STOPPING
        if isinstance(outcome, Refusal):
            if not response.prepared:
                return _error(outcome, in_array=not call.is_sse)
            element = error_json(outcome, HTTP_STATUS[outcome.code])
        else:
            element = call.write(outcome)
        await _write_element(request, response, element, call.is_sse)
        await response.write_eof(b"" if call.is_sse else b"]")
        return response

    async def _leave(self, request: web.Request, reply: Reply) -> None:
        """Cut the connection if the reply says so, and wait for the end of the client or the server."""
        if reply.outcome == "disconnect" and request.transport is not None:
            request.transport.abort()
        await self._stopping.wait()


async def _write_element(
    request: web.Request, response: web.StreamResponse, element: bytes, is_sse: bool
) -> None:
    if is_sse:
        if not response.prepared:
            await response.prepare(request)
        await response.write(b"data: " + element + b"\r\n\r\n")
    elif response.prepared:
        await response.write(b",\r\n" + element)
    else:
        await response.prepare(request)
        await response.write(b"[" + element)


def _error(refusal: Refusal, in_array: bool = False) -> web.Response:
    status = HTTP_STATUS[refusal.code]
    headers = {"Content-Type": _JSON}
    if refusal.retry_seconds is not None:
        headers["Retry-After"] = str(refusal.retry_seconds)
    body = error_json(refusal, status)
    return web.Response(status=status, body=b"[" + body + b"]" if in_array else body, headers=headers)


def error_json(refusal: Refusal, http_status: int) -> bytes:
    """A refusal as the JSON of Google's APIs: code, message, status and the details with their types."""
    status = json_format.MessageToDict(status_pb2.Status.FromString(refusal.details))
    error = {"code": http_status, "message": refusal.message, "status": refusal.code}
    if "details" in status:
        error["details"] = status["details"]
    return json.dumps({"error": error}).encode()


async def _sleep_until(when: float) -> None:
    left = when - asyncio.get_running_loop().time()
    if left > 0:
        await asyncio.sleep(left)
