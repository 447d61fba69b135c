"""A limit in units that every process of the quota shares: one bucket, kept in Redis.

A call books its units when it leaves, and what it used in the end is told afterwards. Redis alone counts the
time and the units, so that the processes' clocks don't matter. Each booking is one request: calls that are
limited by their tokens come by tens in a second and not by thousands.
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

# A call may book its place so long before its time comes, and so long after it.
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
    """See `UnitPacer`. While Redis is out of reach nothing is let out; calling resumes when it is back.

    Args:
        uri: `redis[s]://[USER:PASSWORD@]HOST:PORT/DB`.
        quota_name: What the quota belongs to; pacers of one name on one server share one bucket.
        per_minute: The limit over all processes.

    Raises:
        SetupError: The URI can't be read.
    """

    def __init__(self, uri: str, quota_name: str, per_minute: float) -> None:
        self._server = PatientRedis(uri)
        self._script = self._server.client.register_script(_BUCKET)
        self._key = f"groundrows:pace:{quota_name}"
        self._per_minute = per_minute
        self._per_second = units_per_second(per_minute)
        # Corrections that the server does not know yet, in microseconds of the bucket's time.
        self._untold = 0
        self._telling: asyncio.Task[None] | None = None

    async def acquire(self, units: int) -> None:
        """See `UnitPacer.acquire`.

        Raises:
            SetupError: What answers is no Redis server, or does not let us in.
        """
        while True:
            booked, wait = await self._server.patiently(lambda: self._ask(max(1, self._micros(units))))
            if booked:
                await asyncio.sleep(max(0.0, wait))
                return
            # Not all of the wait, since it may become shorter; until shortly before the time comes.
            await asyncio.sleep(min(LOOK_AGAIN_SECONDS, wait - AHEAD_SECONDS / 2))

    def used(self, expected: int, units: int) -> None:
        """See `UnitPacer.used`."""
        self._untold += self._micros(units) - self._micros(expected)
        if self._untold and self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def close(self) -> None:
        """See `UnitPacer.close`; within a bounded time, and silently when Redis is out of reach."""
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
        """Book, and tell what is untold; returns whether it is booked, and the seconds until its time."""
        asked = time.monotonic()
        told, self._untold = self._untold, 0
        settings = [round(seconds * 1e6) for seconds in (AHEAD_SECONDS, BEHIND_SECONDS, KEEP_SECONDS)]
        try:
            booked, wait = await self._script(keys=[self._key], args=[book, told, *settings])
        except BaseException:
            self._untold += told  # it may be told twice then, or not at all, for want of an answer
            raise
        # The server looked at its clock some time between the two.
        return bool(booked), wait / 1e6 - (time.monotonic() - asked) / 2

    def _micros(self, units: int) -> int:
        return round(charged(units, self._per_minute) / self._per_second * 1e6)
