"""Pacing by one schedule kept in Redis: exact for any number of processes, and all of the quota is used.

A process leases a block of consecutive places in the schedule and uses each at its time. Redis alone counts
the time and the rate; clients are told how far off a place is, so that their clocks don't matter.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.pacing.adaptive import CLIMB, CUT, CUT_WHEN_TOLD, SLOWEST_PER_SECOND
from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS
from groundrows.transforms.generate.pacing.local import SENDING_SECONDS
from groundrows.transforms.generate.redis_server import TIMEOUT_SECONDS, is_passing, server_name, what_failed

# No place further ahead than this is leased. It bounds what a killed process takes with it, for how long
# the others go on at the old rate after one has been refused, and how late a lost schedule starts again.
AHEAD_SECONDS = 0.5
# How late the first place of a block may be when it is leased: half of what it may be when it is used, for
# the reply takes its time.
BEHIND_SECONDS = CATCH_UP_SECONDS / 2
KEEP_SECONDS = 600
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")

# All times are microseconds on the server's clock. `next` is the first place that nobody has; the rate
# is AdaptiveRate's. A schedule that was lost, or may be older than what was leased from it because the
# server was restarted or replaced, starts where no lease can have reached.
_SCHEDULE = """
local mode, ceiling, climb, slowest = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local ahead, window, keep = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local state = redis.call('HMGET', KEYS[1], 'next', 'knee', 'kept', 'since', 'opened', 'count', 'before',
                         'server')
local next = tonumber(state[1])
local knee, kept, since = tonumber(state[2]), tonumber(state[3]), tonumber(state[4]) or 0
local opened, count = tonumber(state[5]) or now, tonumber(state[6]) or 0
local before = tonumber(state[7]) or 0

local function rate()
  if not knee then return ceiling end
  local until_knee = ((1 - kept) / climb) ^ (1 / 3)
  local grown = knee * (1 + climb * (math.max(0, (now - since) / 1e6) - until_knee) ^ 3)
  return math.max(slowest, math.min(grown, ceiling))
end

local function take_back(unused, last)
  if next == tonumber(last) then next = tonumber(unused) end
end

if not next or state[8] ~= server then
  next = math.max(next or 0, now + ahead + math.ceil(1e6 / rate()))
end

local reply
if mode == 'lease' then
  local wanted, behind = tonumber(ARGV[8]), tonumber(ARGV[9])
  local start, interval = math.max(next, now - behind), 1e6 / rate()
  if start > now + ahead then
    reply = {0, start - now - ahead / 2}
  else
    local most = math.max(1, math.floor(ahead / interval))
    local granted = math.min(wanted, most, math.floor((now + ahead - start) / interval) + 1)
    next = start + math.ceil(granted * interval)
    if now - opened >= window then
      before, opened, count = count * 1e6 / (now - opened), now, 0
    end
    count = count + granted
    reply = {granted, start - now, start, next, string.format('%.17g', interval)}
  end
elseif mode == 'refused' then
  local sent, retry_after = now - tonumber(ARGV[8]), tonumber(ARGV[9])
  local cut = 0
  -- Calls that left while places leased at the old rate were still in use say nothing about the cut.
  if sent > since + ahead then
    local sending = math.max(before, count / math.max(1, (now - opened) / 1e6))
    knee = math.max(slowest, math.min(rate(), sending))
    kept = tonumber(retry_after < 0 and ARGV[10] or ARGV[11])
    since = now + math.max(0, retry_after)
    cut = 1
    take_back(ARGV[12], ARGV[13])
  end
  local pause = retry_after < 0 and math.ceil(1e6 / rate()) or retry_after
  next = math.max(next, now + pause)
  reply = {cut, pause}
else
  take_back(ARGV[8], ARGV[9])
  reply = {}
end

local function whole(value) return string.format('%.0f', value) end
redis.call('HSET', KEYS[1], 'next', whole(next), 'since', whole(since), 'opened', whole(opened),
           'count', count, 'before', before, 'server', server)
if knee then redis.call('HSET', KEYS[1], 'knee', knee, 'kept', kept) end
redis.call('PEXPIRE', KEYS[1], whole(keep + math.max(0, next - now) / 1000))
return reply
"""


@dataclass(slots=True)
class _Block:
    """Leased places, evenly spaced.

    `begins` is the first one's time on our clock and `interval` is in seconds; `start` and `end` are the
    block's ends in microseconds on the server's clock, by which it is given back.
    """

    begins: float
    interval: float
    count: int
    start: int
    end: int
    used: int = 0

    @property
    def due(self) -> float:
        """When the next unused place is, on our clock."""
        return self.begins + self.used * self.interval

    @property
    def unused_from(self) -> int:
        """The next unused place on the server's clock."""
        return min(self.end, self.start + int(self.used * self.interval * 1_000_000) + 1)


class RedisPacer:
    """Leases places in a schedule that every process of the quota shares.

    While Redis is out of reach nothing is let out; calling resumes when it is back.

    Args:
        uri: `redis://[USER:PASSWORD@]HOST:PORT/DB`.
        quota_name: What the quota belongs to; pacers of one name on one server share one schedule.
        per_second: The highest rate over all processes.

    Raises:
        SetupError: The URI can't be read.
    """

    def __init__(self, uri: str, quota_name: str, per_second: float) -> None:
        try:
            self._server = server_name(uri)
        except ValueError as error:
            raise SetupError(f"--rate_limiter {error}.") from None
        # An attempt of the client's own to try again would lease twice: trying again is for this class.
        self._redis = Redis.from_url(
            uri,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
        )
        self._script = self._redis.register_script(_SCHEDULE)
        self._key = f"groundrows:pace:{quota_name}"
        self._settings = (
            per_second,
            CLIMB,
            SLOWEST_PER_SECOND,
            _micros(AHEAD_SECONDS),
            _micros(SENDING_SECONDS),
            KEEP_SECONDS * 1000,
        )
        self._block: _Block | None = None
        # Doubles from block to block while blocks are used up, so that a process with little to do does
        # not hold places that others could use.
        self._want = 1
        self._wants_block = False
        self._look_again = 0.0
        self._refusal: tuple[float, float | None] | None = None
        self._errand: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        """See `Pacer.acquire`.

        Raises:
            SetupError: What answers is no Redis server, or does not let us in.
        """
        while True:
            if self._errand is not None:
                await self._errand_done(self._errand)
                continue
            wait = self._wait()
            if wait is None:
                self._wants_block = True
                self._run_errand()
            elif wait > 0:
                # A refusal may take the block away while we sleep, so look again afterwards.
                await asyncio.sleep(wait)
            else:
                assert self._block is not None
                self._block.used += 1
                return

    def throttled(self, sent_at: float, retry_after: float | None) -> None:
        """See `Pacer.throttled`. One cut for a crowd of refusals, over all processes."""
        if self._refusal is not None:
            sent_at = max(sent_at, self._refusal[0])
            waits = [wait for wait in (retry_after, self._refusal[1]) if wait is not None]
            retry_after = max(waits, default=None)
        self._refusal = (sent_at, retry_after)
        self._run_errand()

    async def close(self) -> None:
        """See `Pacer.close`; within a bounded time, and silently when Redis is out of reach."""
        if self._errand is not None:
            self._errand.cancel()
            await asyncio.gather(self._errand, return_exceptions=True)
            self._errand = None
        block, self._block = self._block, None
        try:
            if block is not None and block.used < block.count:
                await self._call("return", block.unused_from, block.end)
        except RedisError:
            pass  # The places go unused, which harms nobody.
        await self._redis.aclose()

    def _wait(self) -> float | None:
        """Seconds until the next place or the next look; None when a block is needed now."""
        now = time.monotonic()
        block = self._block
        while block is not None and block.used < block.count:
            if block.due >= now - CATCH_UP_SECONDS:
                return block.due - now
            block.used += 1
            self._want = 1
        self._block = None
        return self._look_again - now if self._look_again > now else None

    # -- errands to the server: one at a time, in a task of their own, since whoever waits may be cancelled --

    def _run_errand(self) -> None:
        if self._errand is None or self._errand.done():
            self._errand = asyncio.get_running_loop().create_task(self._run_errands())
            self._errand.add_done_callback(_look_at_error)

    async def _errand_done(self, errand: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(errand)
        finally:
            if errand.done() and self._errand is errand:
                self._errand = None

    async def _run_errands(self) -> None:
        while self._refusal is not None or self._wants_block:
            if self._refusal is not None:
                refusal, self._refusal = self._refusal, None
                await self._report(*refusal)
            else:
                await self._lease()

    async def _report(self, sent_at: float, retry_after: float | None) -> None:
        block = self._block
        unused, end = (block.unused_from, block.end) if block is not None else (0, -1)
        waits = -1 if retry_after is None else _micros(retry_after)

        async def refused() -> list[Any]:
            age = _micros(time.monotonic() - sent_at)
            return await self._call("refused", age, waits, CUT, CUT_WHEN_TOLD, unused, end)

        cut, pause = await self._patiently(refused)
        if cut:
            self._block = None
        elif block is not None:
            resumes = time.monotonic() + pause / 1_000_000
            while block.used < block.count and block.due < resumes:
                block.used += 1

    async def _lease(self) -> None:
        asked = 0.0

        async def lease() -> list[Any]:
            nonlocal asked
            asked = time.monotonic()
            return await self._call("lease", self._want, _micros(BEHIND_SECONDS))

        granted, starts_in, *rest = await self._patiently(lease)
        received = time.monotonic()
        if not granted:
            self._look_again = received + starts_in / 1_000_000
            self._wants_block = False
            return
        start, end, interval = int(rest[0]), int(rest[1]), float(rest[2]) / 1_000_000
        block = _Block(received + starts_in / 1_000_000, interval, granted, start, end)
        if received - asked > CATCH_UP_SECONDS:
            # When the places were meant to be is no longer known well enough.
            _LOGGER.warning("%s took %.2f s to answer: calling waits.", self._server, received - asked)
            await self._patiently(lambda: self._call("return", block.start, block.end))
            return
        self._block = block
        self._want = min(2 * self._want, 1_000_000)
        self._wants_block = False

    async def _call(self, mode: str, *args: float) -> list[Any]:
        reply: list[Any] = await self._script(keys=[self._key], args=[mode, *self._settings, *args])
        return reply

    async def _patiently(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Ask until there is an answer: without one no call may leave."""
        pause = 0.0
        while True:
            try:
                reply = await ask()
            except RedisError as error:
                if not is_passing(error):
                    raise SetupError(
                        f"{self._server} can't pace the calls: {what_failed(error)}; correct --rate_limiter."
                    ) from None
                if not pause:
                    _LOGGER.warning("Calling pauses, as %s fails: %s.", self._server, what_failed(error))
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2 or FIRST_PAUSE_SECONDS)
                await asyncio.sleep(pause)
            else:
                if pause:
                    _LOGGER.warning("Calling resumes, as %s is back.", self._server)
                return reply


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _look_at_error(errand: asyncio.Task[None]) -> None:
    # The next `acquire` meets the same error; asyncio need not report it as one that nobody looked at.
    if not errand.cancelled():
        errand.exception()
