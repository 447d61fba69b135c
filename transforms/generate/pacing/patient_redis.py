"""A Redis server that is asked until it answers: while it is out of reach no call may leave."""

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
        name: The server, for people.
        client: The client. It asks once only: whoever asks for places must not get them twice.

    Raises:
        SetupError: The URI can't be read.
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
        """Ask until there is an answer.

        Raises:
            SetupError: What answers is no Redis server, or does not let us in.
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
                    _LOGGER.warning("Calling pauses, as %s fails: %s.", self.name, what_failed(error))
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2 or FIRST_PAUSE_SECONDS)
                await asyncio.sleep(pause)
            else:
                if pause:
                    _LOGGER.warning("Calling resumes, as %s is back.", self.name)
                return reply

    async def close(self) -> None:
        """Let go of the connections."""
        await self.client.aclose()
