"""Keeps a limit in units, such as tokens, that all processes with the same quota share: a bucket in Redis.

A call books its expected units when it starts. The units that it really used are reported afterwards. Only
Redis counts time and units, so that the processes' clocks need not agree. Each booking is one request, which
is fast enough: calls that are limited by tokens come tens per second, not thousands.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from redis.exceptions import RedisError

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS, charged, units_per_second
from groundrows.transforms.generate.pacing.local_units import LOOK_AGAIN_SECONDS
from groundrows.transforms.generate.pacing.patient_redis import PatientRedis

# A call may book this many seconds before its time, and as many after it.
AHEAD_SECONDS = 0.5
BEHIND_SECONDS = CATCH_UP_SECONDS / 2
KEEP_SECONDS = 600

# All times are microseconds on the server's clock. `next` is when all that was booked is paid for. ARGV: what
# is to be booked, 0 for nothing; what is to be added to earlier bookings, or taken off them; and the seconds
# above. A bucket that was lost, or may be older than what was booked of it because the server was restarted
# or replaced, starts where no booking can have reached. Returns whether it is booked, and the time till then.
_BUCKET = """
local book, more = tonumber(ARGV[1]), tonumber(ARGV[2])
local ahead, behind, keep = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local next = tonumber(redis.call('HGET', KEYS[1], 'next') or '')
if not next or redis.call('HGET', KEYS[1], 'server') ~= server then
  next = math.max(next or 0, now + ahead)
end
next = math.max(next, now - behind) + more
local start, booked = math.max(next, now - behind), 0
if book > 0 and start <= now + ahead then
  next, booked = start + book, 1
end
redis.call('HSET', KEYS[1], 'next', string.format('%.0f', next), 'server', server)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep / 1000 + math.max(0, next - now) / 1000))
return {booked, math.ceil(start - now)}
"""


class RedisUnits:
    """See `UnitPacer`. While Redis is unreachable, no call starts. Calls continue when it is back.

    Args:
        uri: `redis[s]://[USER:PASSWORD@]HOST:PORT/DB`.
        quota_name: The name of the quota. Pacers with the same name and server share a bucket.
        per_minute: The limit over all processes.

    Raises:
        SetupError: The URI is not valid.
    """

    def __init__(self, uri: str, quota_name: str, per_minute: float) -> None:
        self._server = PatientRedis(uri)
        self._script = self._server.client.register_script(_BUCKET)
        self._key = f"groundrows:pace:{quota_name}"
        self._per_minute = per_minute
        self._per_second = units_per_second(per_minute)
        # Corrections that are not reported to the server yet, in microseconds of the bucket's time.
        self._untold = 0
        self._telling: asyncio.Task[None] | None = None

    async def acquire(self, units: int) -> None:
        """See `UnitPacer.acquire`.

        Raises:
            SetupError: The server is not a Redis server, or it refuses the user.
        """
        while True:
            booked, wait = await self._server.patiently(lambda: self._ask(max(1, self._micros(units))))
            if booked:
                await asyncio.sleep(max(0.0, wait))
                return
            # Sleep only until shortly before the time, because the wait may become shorter.
            await asyncio.sleep(min(LOOK_AGAIN_SECONDS, wait - AHEAD_SECONDS / 2))

    def used(self, expected: int, units: int) -> None:
        """See `UnitPacer.used`."""
        self._untold += self._micros(units) - self._micros(expected)
        if self._untold and self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def close(self) -> None:
        """See `UnitPacer.close`. Takes a bounded time, and ignores an unreachable server."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        if self._untold:
            with suppress(RedisError):  # what is lost is a part of a minute's limit
                await self._ask(0)
        await self._server.close()

    async def _tell(self) -> None:
        try:
            while self._untold:
                await self._server.patiently(lambda: self._ask(0))
        except SetupError:
            pass  # the next call that wants to leave meets the same
        finally:
            self._telling = None

    async def _ask(self, book: int) -> tuple[bool, float]:
        """Book units and report corrections; return whether they are booked, and the seconds to wait."""
        asked = time.monotonic()
        told, self._untold = self._untold, 0
        settings = [round(seconds * 1e6) for seconds in (AHEAD_SECONDS, BEHIND_SECONDS, KEEP_SECONDS)]
        try:
            booked, wait = await self._script(keys=[self._key], args=[book, told, *settings])
        except BaseException:
            self._untold += told  # it may be told twice then, or not at all, for want of an answer
            raise
        # The server read its clock at an unknown time between request and reply; the middle is assumed.
        return bool(booked), wait / 1e6 - (time.monotonic() - asked) / 2

    def _micros(self, units: int) -> int:
        return round(charged(units, self._per_minute) / self._per_second * 1e6)
