"""Sends JSON to one server by HTTP POST. All services over HTTP/1.1 use this.

aiohttp is used because it parses HTTP in C. httpx takes several times as much CPU time.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from groundrows.schemas.errors import CallError
from groundrows.transforms.generate.clients.bounded_body import ACCEPTED_ENCODING, BoundedBody
from groundrows.transforms.generate.clients.first_element import FirstElement
from groundrows.transforms.generate.clients.http_errors import http_error
from groundrows.transforms.generate.clients.pieces import json_has_more, most_pieces
from groundrows.transforms.generate.clients.status import status_error, too_many_pieces
from groundrows.transforms.generate.settings import MEGABYTE, CallSettings

_NONE: Mapping[str, str] = MappingProxyType({})
_HEADERS = {
    "Content-Type": "application/json",
    "Accept-Encoding": ACCEPTED_ENCODING,
    "User-Agent": "groundrows (gzip)",
}
# The body of an error is only read for its message, so at most this much of it is read.
_MOST_OF_AN_ERROR = MEGABYTE


class Auth(Protocol):
    """Makes the headers with the credentials of a request."""

    async def get(self) -> Mapping[str, str]:
        """Return the headers for a request that starts now.

        Raises:
            CallError: There are no credentials.
        """
        ...

    def close(self) -> None:
        """Stop refreshing tokens."""
        ...


class HttpPost:
    """The connections to the endpoint of the settings. Created and used on one event loop.

    Args:
        settings: The settings of the calls.
        auth: Makes the headers with the credentials, or None.
    """

    def __init__(self, settings: CallSettings, auth: Auth | None) -> None:
        self._auth = auth
        self._most = settings.max_response_bytes
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=settings.max_in_flight,
                ssl=ssl.create_default_context() if settings.secure else True,
                ttl_dns_cache=60,
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            # The attempt's deadline covers everything, including the wait for a token.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            proxy=_proxy_for(settings.endpoint) if settings.secure else None,
        )

    async def post(
        self,
        url: URL,
        body: bytes,
        deadline: float,
        *,
        is_array: bool = False,
        headers: Mapping[str, str] = _NONE,
    ) -> tuple[bytes, float | None]:
        """Send one request.

        Args:
            url: The address.
            body: The request as JSON.
            deadline: Seconds after which the attempt is cancelled.
            is_array: Whether the response is a stream, which is an array.
            headers: Further headers of this request.

        Returns:
            The response's body; and for a stream, the milliseconds until its first element arrived.

        Raises:
            CallError: There is no response, or one with an error status.
            Exception: The HTTP library failed because of a bug.
        """
        try:
            async with asyncio.timeout(deadline):
                return await self._post(url, body, deadline, is_array, headers)
        except TimeoutError:
            raise status_error("DEADLINE_EXCEEDED", "the call was cancelled", None, deadline) from None
        except aiohttp.ClientPayloadError as error:
            raise CallError("UNAVAILABLE", f"the connection broke within the response: {error}") from None
        except aiohttp.ClientResponseError as error:
            raise _no_http(error) from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallError("UNAVAILABLE", str(error) or type(error).__name__) from None

    async def _post(
        self, url: URL, body: bytes, deadline: float, is_array: bool, headers: Mapping[str, str]
    ) -> tuple[bytes, float | None]:
        if self._session.closed:
            raise CallError("UNAVAILABLE", "the client is closed")
        if self._auth is not None:
            headers = {**headers, **await self._auth.get()}
        started = time.monotonic()
        request = self._session.post(url, data=body, headers=headers, allow_redirects=False)
        async with request as response:
            if response.status != 200:
                words = await _words_of(response)
                raise http_error(response.status, response.reason, response.headers, words, deadline)
            received = BoundedBody(response.headers.get("Content-Encoding", ""), self._most)
            first = FirstElement() if is_array else None
            first_ms: float | None = None
            async for piece in response.content.iter_any():
                unpacked = received.feed(piece)
                if first is not None and first_ms is None and first.feed(unpacked):
                    first_ms = (time.monotonic() - started) * 1000
            whole = received.whole()
            if json_has_more(whole, most_pieces(self._most)):
                raise too_many_pieces(self._most)
            return whole, first_ms

    async def close(self) -> None:
        """Close the connections."""
        if self._auth is not None:
            self._auth.close()
        await self._session.close()


def _no_http(error: aiohttp.ClientResponseError) -> Exception:
    """Return the exception for a response that aiohttp could not read as HTTP.

    aiohttp reports a bug in its parser in the same way. A retry does not help against a bug, so it is
    returned as it is.
    """
    cause = error.__cause__
    while isinstance(cause, aiohttp.http.HttpProcessingError) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, Exception) and not isinstance(cause, aiohttp.http.HttpProcessingError):
        return cause
    return CallError("UNAVAILABLE", f"the server's answer is not HTTP: {' '.join(error.message.split())}")


async def _words_of(response: aiohttp.ClientResponse) -> bytes:
    """Return as much of an error's body as can be read. The status is known without it."""
    try:
        received = BoundedBody(response.headers.get("Content-Encoding", ""), _MOST_OF_AN_ERROR)
        async for piece in response.content.iter_any():
            received.feed(piece)
        return received.whole()
    except (CallError, aiohttp.ClientPayloadError):
        return b""


def _proxy_for(endpoint: str) -> str | None:
    """Return the proxy that the environment names, as gRPC uses it, or None.

    aiohttp could find the proxy itself, but it would then also replace our credentials by those in a .netrc.
    """
    host = endpoint.rpartition(":")[0].strip("[]")
    return None if proxy_bypass(host) else getproxies().get("https")
