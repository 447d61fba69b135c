"""A pacer that asks an Envoy rate limit service, through Beam's client.

Beam's client blocks, sleeps, and asks for one permission at a time, so it runs in a thread of its own. This
module also slows down after refusals of the service that is called, which the rate limit service does not
know of.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

import grpc

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.pacing.local import LocalPacer

DEFAULT_DOMAIN = "groundrows"
DEFAULT_DESCRIPTOR = {"quota": "grounded_generation"}
# Beam's client tries for most of a minute before it gives up. It is asked again after this pause.
PAUSE_SECONDS = 1.0

_LOGGER = logging.getLogger(__name__)


class EnvoyPacer:
    """Asks an Envoy rate limit service before every call.

    While the rate limit service is unreachable, no call starts. Calls continue when it is back.

    Args:
        uri: `envoy://HOST:PORT[/DOMAIN][?KEY=VALUE...]`; the query is the descriptor.
        per_second: The highest rate of this process, or `math.inf`.

    Raises:
        SetupError: The URI can't be read.
    """

    def __init__(self, uri: str, per_second: float) -> None:
        service, domain, descriptor = _parts(uri)
        self._local = LocalPacer(per_second)
        # None tells the thread to end.
        self._asked: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()
        # When the waiting call is cancelled, the permission is kept for the next call.
        self._permission: asyncio.Future[None] | None = None
        allow = _allow_of(service, domain, descriptor)
        self._ended = threading.Event()
        # A daemon thread, because nothing can wake it while Beam's client sleeps.
        threading.Thread(
            target=_serve,
            args=(allow, service, self._asked, self._ended),
            name="groundrows-envoy",
            daemon=True,
        ).start()

    async def acquire(self) -> None:
        """See `Pacer.acquire`.

        Raises:
            SetupError: The server there is not a rate limit service.
        """
        if self._permission is None:
            self._permission = asyncio.get_running_loop().create_future()
            self._asked.put(self._permission)
        try:
            await asyncio.shield(self._permission)
        except Exception:
            self._permission = None
            raise
        await self._local.acquire()
        self._permission = None

    def throttled(self, sent_at: float, retry_after: float | None) -> None:
        """See `Pacer.throttled`."""
        self._local.throttled(sent_at, retry_after)

    async def close(self) -> None:
        """End the thread as soon as the client returns, without waiting for it."""
        self._ended.set()
        self._asked.put(None)
        if self._permission is not None:
            self._permission.cancel()


def _parts(uri: str) -> tuple[str, str, dict[str, str]]:
    """Return the service's address, the domain and the descriptor."""
    try:
        parts = urlsplit(uri)
        descriptor = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else DEFAULT_DESCRIPTOR
        readable = bool(parts.scheme == "envoy" and parts.hostname and parts.port and not parts.username)
    except ValueError:
        readable = False
    if not readable:
        raise SetupError("--rate_limiter must look like envoy://HOST:PORT[/DOMAIN][?KEY=VALUE].")
    return parts.netloc, parts.path.strip("/") or DEFAULT_DOMAIN, descriptor


def _allow_of(service: str, domain: str, descriptor: dict[str, str]) -> Callable[[], bool]:
    """Return a function that blocks until a call is allowed. It returns False for an unusable answer."""
    # Imported only here, because the rest of this folder must work without Beam.
    from apache_beam.io.components.rate_limiter import EnvoyRateLimiter

    # Without this filter, every wait for the limit would log a warning.
    logging.getLogger(EnvoyRateLimiter.__module__).addFilter(_is_no_wait)
    limiter = EnvoyRateLimiter(service, domain, [descriptor], namespace="groundrows")
    return lambda: bool(limiter.allow(1))


def _is_no_wait(record: logging.LogRecord) -> bool:
    return "Throttled for" not in str(record.msg)


def _serve(
    allow: Callable[[], bool],
    service: str,
    asked: queue.SimpleQueue[asyncio.Future[None] | None],
    ended: threading.Event,
) -> None:
    """Run the thread: set the result of each future when its call is allowed."""
    while (permission := asked.get()) is not None:
        error = _wait_until_allowed(allow, service, ended)
        try:
            permission.get_loop().call_soon_threadsafe(_settle, permission, error)
        except RuntimeError:
            return  # the loop is closed, so no call waits any more


def _wait_until_allowed(allow: Callable[[], bool], service: str, ended: threading.Event) -> Exception | None:
    """Ask until a call is allowed or the pacer is closed.

    Returns:
        A permanent error for the waiting call, or None.
    """
    while not ended.is_set():
        try:
            if allow():
                return None
            _LOGGER.warning("The rate limit service %s gave an unusable answer.", service)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                return SetupError(f"{service} is not an Envoy rate limit service; correct --rate_limiter.")
            _LOGGER.warning("The rate limit service %s is unreachable: calling waits.", service)
        except Exception as error:
            return error
        ended.wait(PAUSE_SECONDS)
    return None


def _settle(permission: asyncio.Future[None], error: Exception | None) -> None:
    if permission.done():
        return
    if error is None:
        permission.set_result(None)
    else:
        permission.set_exception(error)
