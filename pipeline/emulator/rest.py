"""The REST side: the same calls as JSON over HTTP."""

from __future__ import annotations

import asyncio
import re
from functools import cache, partial
from typing import cast

from aiohttp import web

from groundrows.pipeline.emulator.calls import MethodName, Origin, Reply
from groundrows.pipeline.emulator.jsonanswer import error_json, response_json
from groundrows.pipeline.emulator.jsonbody import read_json
from groundrows.pipeline.emulator.service import Service
from groundrows.pipeline.emulator.status import Refusal, refuse
from groundrows.schemas.discoveryengine.messages import ApiVersion
from groundrows.schemas.errors import PortInUseError

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
METHODS: dict[str, MethodName] = {
    "generateGroundedContent": "GenerateGroundedContent",
    "streamGenerateGroundedContent": "StreamGenerateGroundedContent",
    "check": "CheckGrounding",
}
_PLACE = "projects/[^/]+/locations/[^/]+"
_PATH = re.compile(
    r"/(?P<version>v1|v1beta|v1alpha)/(?:"
    rf"(?P<location>{_PLACE}):(?P<generate>generateGroundedContent|streamGenerateGroundedContent)|"
    rf"(?P<grounding_config>{_PLACE}/groundingConfigs/[^/]+):(?P<check>check))"
)
_NO_METHOD = refuse("NOT_FOUND", "There is no such method here: look the path up in the API's reference.")
_STOPPING = refuse("UNAVAILABLE", "The server is stopping.")
_JSON = "application/json; charset=UTF-8"


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
        self._json = cache(response_json) if canned else response_json
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
        match = _PATH.fullmatch(request.path)
        if match is None or request.method != "POST":
            return _error(_NO_METHOD)
        origin = Origin(
            METHODS[match["generate"] or match["check"]], cast(ApiVersion, match["version"]), "rest"
        )
        bound = {name: match[name] for name in ("location", "grounding_config") if match[name]}
        body = await request.read()
        reply = self._service.take(origin, partial(read_json, origin, body, bound), None)
        if origin.method == "StreamGenerateGroundedContent":
            return await self._stream(request, origin, reply, arrived)
        return await self._answer(request, origin, reply, arrived)

    async def _answer(
        self, request: web.Request, origin: Origin, reply: Reply, arrived: float
    ) -> web.StreamResponse:
        await _sleep_until(arrived + reply.delay_seconds)
        if isinstance(reply.outcome, bytes):
            body = self._json(origin.method, reply.outcome, _wants_numbers(request))
            return web.Response(body=body, headers={"Content-Type": _JSON})
        if isinstance(reply.outcome, Refusal):
            return _error(reply.outcome)
        await self._leave(request, reply)
        return _error(_STOPPING)

    async def _stream(
        self, request: web.Request, origin: Origin, reply: Reply, arrived: float
    ) -> web.StreamResponse:
        """Answer with a JSON array whose elements are sent one by one.

        An error is an element, too. Before any other it also decides on the HTTP status.
        """
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        numbers = _wants_numbers(request)
        for due, part in reply.due():
            await _sleep_until(arrived + due)
            await _write_element(request, response, self._json(origin.method, part, numbers))
        await _sleep_until(arrived + reply.delay_seconds)
        outcome: Refusal | bytes
        if isinstance(reply.outcome, (bytes, Refusal)):
            outcome = reply.outcome
        else:
            await self._leave(request, reply)
            outcome = _STOPPING
        if isinstance(outcome, Refusal):
            if not response.prepared:
                return _error(outcome, in_array=True)
            element = error_json(outcome, HTTP_STATUS[outcome.code])
        else:
            element = self._json(origin.method, outcome, numbers)
        await _write_element(request, response, element)
        await response.write_eof(b"]")
        return response

    async def _leave(self, request: web.Request, reply: Reply) -> None:
        """Cut the connection if the reply says so, and wait for the end of the client or the server."""
        if reply.outcome == "disconnect" and request.transport is not None:
            request.transport.abort()
        await self._stopping.wait()


async def _write_element(request: web.Request, response: web.StreamResponse, element: bytes) -> None:
    if response.prepared:
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


def _wants_numbers(request: web.Request) -> bool:
    """Whether enums are wanted as numbers, as the generated clients do."""
    return "enum-encoding=int" in request.query.get("$alt", "")


async def _sleep_until(when: float) -> None:
    left = when - asyncio.get_running_loop().time()
    if left > 0:
        await asyncio.sleep(left)
