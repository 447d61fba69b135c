"""A connection to Redis that repeats a request until the server answers. Meanwhile no call may start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.redis_server import TIMEOUT_SECONDS, is_passing, server_name, what_failed

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")


class PatientRedis:
    """The server of a `--rate_limiter`.

    Args:
        uri: `redis[s]://[USER:PASSWORD@]HOST:PORT/DB`.

    Attributes:
        name: The server's name for messages.
        client: The client. It does not retry by itself, because a repeated request could get places in the
            schedule twice.

    Raises:
        SetupError: The URI is not valid.
    """

    def __init__(self, uri: str) -> None:
        try:
            self.name = server_name(uri)
        except ValueError as error:
            raise SetupError(f"--rate_limiter {error}.") from None
        self.client = Redis.from_url(
            uri,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
        )

    async def patiently(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat a request until there is an answer.

        Raises:
            SetupError: The server is not a Redis server, or it refuses the user.
        """
        pause = 0.0
        while True:
            try:
                reply = await ask()
            except RedisError as error:
                if not is_passing(error):
                    raise SetupError(
                        f"{self.name} can't pace the calls: {what_failed(error)}; correct --rate_limiter."
                    ) from None
                if not pause:
                    _LOGGER.warning("Calling pauses, because %s fails: %s.", self.name, what_failed(error))
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2 or FIRST_PAUSE_SECONDS)
                await asyncio.sleep(pause)
            else:
                if pause:
                    _LOGGER.warning("Calling resumes: %s is back.", self.name)
                return reply

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()
