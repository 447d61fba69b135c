"""POST of JSON to one server: what every service over HTTP/1.1 needs, whatever its JSON says.

aiohttp parses HTTP in C and keeps connections; httpx, asyncio's other client, takes several times the CPU.
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
from groundrows.transforms.generate.clients.status import status_error
from groundrows.transforms.generate.settings import MEGABYTE, CallSettings

_NONE: Mapping[str, str] = MappingProxyType({})
_HEADERS = {
    "Content-Type": "application/json",
    "Accept-Encoding": ACCEPTED_ENCODING,
    "User-Agent": "groundrows (gzip)",
}
# An error's body is there for its message; what is longer is no message for people.
_MOST_OF_AN_ERROR = MEGABYTE


class Auth(Protocol):
    """Makes the headers that say in whose name, or with which key, a request is made."""

    async def get(self) -> Mapping[str, str]:
        """The headers for a request that leaves now.

        Raises:
            CallError: There are none to be had.
        """
        ...

    def close(self) -> None:
        """Wait for nothing any more."""
        ...


class HttpPost:
    """Connections to the endpoint of the settings. Made and used on one event loop.

    Args:
        settings: Where and how to call.
        auth: Makes the headers that say in whose name a request is made; None for none.
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
            # The attempt's own deadline covers all of it, the wait for a token included.
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
            url: Where to.
            body: The request as JSON.
            deadline: Seconds after which the attempt is cut.
            is_array: Whether the response is a stream: an array whose first element is watched for.
            headers: What this request has beside the headers of all of them.

        Returns:
            The response's body, and milliseconds until its first element was there, if it was watched for.

        Raises:
            CallError: There is no response, or one with another status than success.
            Exception: The HTTP library failed at what came, by a fault of its own.
        """
        try:
            async with asyncio.timeout(deadline):
                return await self._post(url, body, deadline, is_array, headers)
        except TimeoutError:
            raise status_error("DEADLINE_EXCEEDED", "the call was cut", None, deadline) from None
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
            return received.whole(), first_ms

    async def close(self) -> None:
        """Give back connections."""
        if self._auth is not None:
            self._auth.close()
        await self._session.close()


def _no_http(error: aiohttp.ClientResponseError) -> Exception:
    """What to raise for an answer that aiohttp could not read as HTTP.

    aiohttp reports a bug within its parser in the same way as a garbled answer. The first would happen again.
    """
    cause = error.__cause__
    while isinstance(cause, aiohttp.http.HttpProcessingError) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, Exception) and not isinstance(cause, aiohttp.http.HttpProcessingError):
        return cause
    return CallError("UNAVAILABLE", f"the server's answer is no HTTP: {' '.join(error.message.split())}")


async def _words_of(response: aiohttp.ClientResponse) -> bytes:
    """The body of an error as far as it can be read: the status says what happened in any case."""
    try:
        received = BoundedBody(response.headers.get("Content-Encoding", ""), _MOST_OF_AN_ERROR)
        async for piece in response.content.iter_any():
            received.feed(piece)
        return received.whole()
    except (CallError, aiohttp.ClientPayloadError):
        return b""


def _proxy_for(endpoint: str) -> str | None:
    """The proxy that the environment names, which gRPC heeds as well.

    aiohttp would look for itself if told to, but also for passwords in a .netrc, to send in place of ours.
    """
    host = endpoint.rpartition(":")[0].strip("[]")
    return None if proxy_bypass(host) else getproxies().get("https")
