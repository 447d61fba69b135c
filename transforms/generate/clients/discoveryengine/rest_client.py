"""The service over REST: what gRPC carries, as JSON over HTTP/1.1.

aiohttp parses HTTP in C and keeps connections; httpx, asyncio's other client, takes several times the CPU.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import aiohttp
from google.protobuf import json_format
from yarl import URL

from groundrows.schemas.discoveryengine.messages import request_class, response_class
from groundrows.schemas.errors import CallError, NotReadableError
from groundrows.schemas.jsontext import compact_json
from groundrows.transforms.generate.clients.base import Call, Reply
from groundrows.transforms.generate.clients.credentials import AuthHeaders
from groundrows.transforms.generate.clients.discoveryengine.address import address_of
from groundrows.transforms.generate.clients.discoveryengine.json_messages import read_json, read_message
from groundrows.transforms.generate.clients.discoveryengine.merge import merge
from groundrows.transforms.generate.clients.first_element import FirstElement
from groundrows.transforms.generate.clients.http_errors import error_in, http_error
from groundrows.transforms.generate.clients.status import status_error, undecodable
from groundrows.transforms.generate.settings import CallSettings

_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "gzip", "User-Agent": "groundrows (gzip)"}


class RestClient:
    """`generateGroundedContent`, streamed or not, or `check`, of v1, v1beta or v1alpha. Made on its loop.

    Raises:
        SetupError: There are no credentials.
    """

    def __init__(self, settings: CallSettings) -> None:
        method, version = settings.method, settings.api_version
        self._request = request_class(version, method)
        self._response = response_class(version, method)
        self._address_field, resource = address_of(settings)
        self._streamed = settings.stream_answers and method == "generate"
        scheme = "https" if settings.secure else "http"
        path = quote(resource, safe="/:")
        verb = "check" if method == "check" else "generateGroundedContent"
        if self._streamed:
            verb = "streamGenerateGroundedContent"
        self._url = URL(f"{scheme}://{settings.endpoint}/{version}/{path}:{verb}", encoded=True)
        self._auth = AuthHeaders(settings.endpoint) if settings.secure else None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=settings.max_in_flight,
                ssl=ssl.create_default_context() if settings.secure else True,
                ttl_dns_cache=60,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            # The attempt's own deadline covers all of it, the wait for a token included.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            proxy=_proxy_for(settings.endpoint) if settings.secure else None,
        )

    async def ask(self, call: Call, deadline: float) -> Reply:
        """See `Client.ask`."""
        try:
            async with asyncio.timeout(deadline):
                return await self._ask(call, deadline)
        except TimeoutError:
            raise status_error("DEADLINE_EXCEEDED", "the call was cut", None, deadline) from None
        except aiohttp.ClientPayloadError as error:
            if isinstance(error.__cause__, aiohttp.http_exceptions.ContentEncodingError):
                raise undecodable(0) from None
            raise CallError("UNAVAILABLE", f"the connection broke within the response: {error}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallError("UNAVAILABLE", str(error) or type(error).__name__) from None

    async def _ask(self, call: Call, deadline: float) -> Reply:
        if self._session.closed:
            raise CallError("UNAVAILABLE", "the client is closed")
        headers: Mapping[str, str] | None = None if self._auth is None else await self._auth.get()
        first_part_ms: float | None = None
        started = time.monotonic()
        request = self._session.post(self._url, data=self._body(call), headers=headers, allow_redirects=False)
        async with request as response:
            if self._streamed and response.status == 200:
                pieces: list[bytes] = []
                first = FirstElement()
                async for piece in response.content.iter_any():
                    pieces.append(piece)
                    if first_part_ms is None and first.feed(piece):
                        first_part_ms = (time.monotonic() - started) * 1000
                body = b"".join(pieces)
            else:
                body = await response.read()
        if response.status != 200:
            raise http_error(response.status, response.reason, response.headers, body, deadline)
        return self._reply(body, first_part_ms, deadline)

    def _body(self, call: Call) -> bytes:
        message = self._request.FromString(call.request)
        message.ClearField(self._address_field)  # it is in the path
        body = compact_json(json_format.MessageToDict(message))
        if call.user_context is not None:
            # Of which no message has a field.
            body = f'{body[:-1]}{"," if len(body) > 2 else ""}"userContext":{call.user_context}}}'
        # Streaming goes both ways: requests come as a list, too.
        return f"[{body}]".encode() if self._streamed else body.encode()

    def _reply(self, body: bytes, first_part_ms: float | None, deadline: float) -> Reply:
        try:
            read = read_json(body)
            error = error_in(read, deadline)
            if error is not None:
                raise error
            message, whole = self._merged(read) if self._streamed else read_message(read, self._response)
        except NotReadableError:
            if self._streamed and _is_cut(body):
                raise CallError("UNAVAILABLE", "the stream ended before its last part") from None
            raise undecodable(len(body)) from None
        return Reply(
            message.SerializeToString(deterministic=True), first_part_ms, None if whole else body.decode()
        )

    def _merged(self, read: object) -> tuple[Any, bool]:
        if not isinstance(read, list):
            raise NotReadableError
        parts = [read_message(part, self._response) for part in read]
        return merge((part for part, _ in parts), self._response), all(whole for _, whole in parts)

    async def close(self) -> None:
        """See `Client.close`."""
        if self._auth is not None:
            self._auth.close()
        await self._session.close()


def _proxy_for(endpoint: str) -> str | None:
    """The proxy that the environment names, which gRPC heeds as well.

    aiohttp would look for itself if told to, but also for passwords in a .netrc, to send in place of ours.
    """
    host = endpoint.rpartition(":")[0].strip("[]")
    return None if proxy_bypass(host) else getproxies().get("https")


def _is_cut(body: bytes) -> bool:
    """Whether an array that can't be read lacks its end: as when a proxy lost the server and says nothing."""
    return body.lstrip()[:1] == b"[" and body.rstrip()[-1:] != b"]"
