"""A pacer whose schedule is in Redis. It is exact for any number of processes, which share the whole quota.

A process takes a block of consecutive places in the schedule, and starts one call at the time of each place.
Only Redis computes times and the rate. It tells the processes how many seconds away a place is, so that their
clocks need not agree.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from groundrows.transforms.generate.pacing.adaptive import (
    CLIMB,
    MEMORY_CALLS,
    MEMORY_SECONDS,
    RECENT_CALLS,
    SLOWEST_PER_SECOND,
    TEST_CALLS,
    Counts,
    Evidence,
    Finding,
    Learnt,
    judged,
    pause_of,
    smoothed,
)
from groundrows.transforms.generate.pacing.base import CATCH_UP_SECONDS
from groundrows.transforms.generate.pacing.local import SENDING_SECONDS
from groundrows.transforms.generate.pacing.patient_redis import PatientRedis

# Places are taken at most this many seconds ahead. So a killed process loses few places, the other processes
# soon learn of a new rate after a refusal, and a lost schedule starts again soon.
AHEAD_SECONDS = 0.5
# How late the first place of a block may be when it is taken. It is half the time by which a call may be
# late, because the reply also takes time.
BEHIND_SECONDS = CATCH_UP_SECONDS / 2
KEEP_SECONDS = 600

_LOGGER = logging.getLogger(__name__)

# All times are microseconds on the server's clock. `next` is the first place that nobody has. The rate, and
# the counts that it is judged by, are those of adaptive.py; clients judge, by what `refused` replies. A
# schedule that was lost, or may be older than what was leased from it because the server was restarted or
# replaced, starts where no lease can have reached.
_SCHEDULE = """
local mode, ceiling, climb, slowest = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local ahead, window, keep = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local memory, memory_calls, recent_calls = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local test_calls = tonumber(ARGV[11])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local state = {}
local pairs_of = redis.call('HGETALL', KEYS[1])
for i = 1, #pairs_of, 2 do state[pairs_of[i]] = pairs_of[i + 1] end
local function number(name, default) return tonumber(state[name] or '') or default end

local next, knee = number('next'), number('knee')
local kept, cut_at, climbs_at = number('kept', 1), number('cut_at', 0), number('climbs_at', 0)
local climbing, slow_window = number('climb', 1), number('window', 0)
local opened, count, before = number('opened', now), number('count', 0), number('before', 0)
local until_knee = ((1 - kept) / climb) ^ (1 / 3)

local function rate()
  if not knee then return ceiling end
  local grown = knee * (1 + climb * (math.max(0, (now - climbs_at) / 1e6) * climbing - until_knee) ^ 3)
  return math.min(ceiling, math.max(slowest, grown))
end

local function is_low(moment) return moment < climbs_at + slow_window * 1e6 end

local function add(name, value) state[name] = string.format('%.17g', number(name, 0) + value) end

local function fade()
  local passed = math.max(0, now - number('counted', now)) / 1e6
  local kept_of_it = math.exp(-passed / math.max(memory, memory_calls / rate()))
  for _, name in ipairs({'sent', 'refused'}) do
    state[name] = string.format('%.17g', number(name, 0) * kept_of_it)
  end
  state['counted'] = string.format('%.0f', now)
end

local function take_back(unused, last)
  if next == tonumber(last) then next = tonumber(unused) end
end

if not next or state['server'] ~= server then
  next = math.max(next or 0, now + ahead + math.ceil(1e6 / rate()))
end

local reply
if mode == 'lease' then
  local wanted, behind = tonumber(ARGV[12]), tonumber(ARGV[13])
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
    -- Places leased at the old rate may be in use for so long after a cut, and say nothing about it.
    if now > cut_at + ahead or cut_at == 0 then
      fade()
      add('sent', granted)
      if is_low(now) then add('low_sent', granted) end
    end
    local old = (1 - 1 / recent_calls) ^ granted
    state['recent_refused'] = string.format('%.17g', number('recent_refused', 0) * old)
    state['recent_sent'] = string.format('%.17g', number('recent_sent', 0) * old + recent_calls * (1 - old))
    -- A test that is not refused at all would never be judged by a refusal.
    local is_due = number('finding', 0) == 1 and number('low_sent', 0) >= test_calls
    reply = {granted, start - now, start, next, string.format('%.17g', interval), is_due and 1 or 0}
  end
elseif mode == 'refused' then
  -- ARGV: for each refused call how long ago it left.
  local new = 0
  for i = 12, #ARGV do
    local sent = now - tonumber(ARGV[i])
    if sent > cut_at + ahead or cut_at == 0 then
      if new == 0 then fade() end
      new = new + 1
      add('refused', 1)
      add('recent_refused', 1)
      if is_low(sent) then add('low_refused', 1) end
    end
  end
  local sending = math.max(before, count * 1e6 / math.max(ahead, now - opened))
  reply = {new, string.format('%.17g', sending), string.format('%.0f', now)}
  for name, value in pairs(state) do
    table.insert(reply, name)
    table.insert(reply, value)
  end
elseif mode == 'cut' then
  -- ARGV: the cut that was judged, the pause, the unused places, and what was learnt, if anything was.
  reply = {0, tonumber(ARGV[13])}
  if #ARGV > 15 and string.format('%.0f', cut_at) == ARGV[12] then
    for i = 16, #ARGV, 2 do state[ARGV[i]] = ARGV[i + 1] end
    knee, kept, climbing, slow_window = number('knee'), number('kept'), number('climb'), number('window')
    until_knee = ((1 - kept) / climb) ^ (1 / 3)
    -- For so long nothing counts, so it is only then that the slow time begins which is judged by.
    cut_at, climbs_at = now, now + ahead
    opened, count, before = now, 0, 0
    for _, name in ipairs({'sent', 'refused', 'low_sent', 'low_refused'}) do state[name] = '' end
    take_back(ARGV[14], ARGV[15])
    reply = {1, math.max(reply[2], math.ceil(1e6 / rate()))}
  end
  climbs_at = math.max(climbs_at, now + tonumber(ARGV[13]))
  next = math.max(next, now + reply[2])
else
  take_back(ARGV[12], ARGV[13])
  reply = {}
end

local function whole(value) return string.format('%.0f', value) end
state['next'], state['cut_at'], state['climbs_at'] = whole(next), whole(cut_at), whole(climbs_at)
state['opened'], state['count'], state['server'] = whole(opened), whole(count), server
state['before'] = string.format('%.17g', before)
local flat = {}
for name, value in pairs(state) do
  table.insert(flat, name)
  table.insert(flat, value)
end
redis.call('HSET', KEYS[1], unpack(flat))
redis.call('PEXPIRE', KEYS[1], whole(keep + math.max(0, next - now) / 1000))
return reply
"""


@dataclass(slots=True)
class _Block:
    """A block of evenly spaced places in the schedule.

    `begins` is the time of the first place on our clock, and `interval` is in seconds. `start` and `end` are
    the block's limits in microseconds on the server's clock; they are needed to give unused places back.
    """

    begins: float
    interval: float
    count: int
    start: int
    end: int
    used: int = 0

    @property
    def due(self) -> float:
        """The time of the next unused place on our clock."""
        return self.begins + self.used * self.interval

    @property
    def unused_from(self) -> int:
        """The next unused place on the server's clock."""
        return min(self.end, self.start + int(self.used * self.interval * 1_000_000) + 1)


class RedisPacer:
    """Takes places in a schedule that all processes with the same quota share.

    While Redis is unreachable, no call starts. Calls continue when it is back.

    Args:
        uri: `redis[s]://[USER:PASSWORD@]HOST:PORT/DB`.
        quota_name: The name of the quota. Pacers with the same name and server share a schedule.
        per_second: The highest rate over all processes.

    Raises:
        SetupError: The URI is not valid.
    """

    def __init__(self, uri: str, quota_name: str, per_second: float) -> None:
        self._server = PatientRedis(uri)
        self._patiently = self._server.patiently
        self._script = self._server.client.register_script(_SCHEDULE)
        self._key = f"groundrows:pace:{quota_name}"
        self._settings = (
            per_second,
            CLIMB,
            SLOWEST_PER_SECOND,
            _micros(AHEAD_SECONDS),
            _micros(SENDING_SECONDS),
            KEEP_SECONDS * 1000,
            MEMORY_SECONDS,
            MEMORY_CALLS,
            RECENT_CALLS,
            TEST_CALLS,
        )
        self._ceiling = per_second
        self._block: _Block | None = None
        # The size of the next block. It doubles while blocks are used up, so that a process with few calls
        # does not take places that others could use.
        self._want = 1
        self._wants_block = False
        self._look_again = 0.0
        self._refusals: list[tuple[float, float | None]] = []
        self._is_due = False
        self._latency: float | None = None
        self._errand: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        """See `Pacer.acquire`.

        Raises:
            SetupError: The server is not a Redis server, or it refuses the user.
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
                # A refusal may remove the block during the sleep, so this is checked again afterwards.
                await asyncio.sleep(wait)
            else:
                assert self._block is not None
                self._block.used += 1
                return

    def throttled(self, sent_at: float, retry_after: float | None) -> None:
        """See `Pacer.throttled`. The rate is decided from the refusals of all processes."""
        self._latency = smoothed(self._latency, time.monotonic() - sent_at)
        self._refusals.append((sent_at, retry_after))
        self._run_errand()

    async def close(self) -> None:
        """See `Pacer.close`. Takes a bounded time, and ignores an unreachable server."""
        if self._errand is not None:
            self._errand.cancel()
            await asyncio.gather(self._errand, return_exceptions=True)
            self._errand = None
        block, self._block = self._block, None
        try:
            if block is not None and block.used < block.count:
                await self._call("return", block.unused_from, block.end)
        except RedisError:
            pass  # the places stay unused, which does no harm
        await self._server.close()

    def _wait(self) -> float | None:
        """Return the seconds until the next place or the next check; None when a block is needed now."""
        now = time.monotonic()
        block = self._block
        while block is not None and block.used < block.count:
            if block.due >= now - CATCH_UP_SECONDS:
                return block.due - now
            block.used += 1
            self._want = 1
        self._block = None
        return self._look_again - now if self._look_again > now else None

    # -- requests to the server: one at a time, in a task of their own, as a waiting call may be cancelled --

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
        while self._refusals or self._is_due or self._wants_block:
            if self._refusals or self._is_due:
                self._is_due = False
                refusals, self._refusals = self._refusals, []
                await self._report(refusals)
            else:
                await self._lease()

    async def _report(self, refusals: list[tuple[float, float | None]]) -> None:
        """Report refusals, and change the rate for all processes when they show that it is too high."""

        async def refused() -> list[Any]:
            now = time.monotonic()
            return await self._call("refused", *(_micros(now - sent_at) for sent_at, _ in refusals))

        new, sending, now, *fields = await self._patiently(refused)
        if refusals and not new:
            return
        state = _State(dict(zip(_texts(fields[::2]), _texts(fields[1::2]), strict=True)), int(now))
        learnt, evidence = state.learnt(), state.evidence()
        waits = [wait for _, wait in refusals if wait is not None]
        pause = pause_of(learnt, evidence, 0.0, max(waits, default=None))
        rate = learnt.rate(0.0, self._ceiling)
        changed = judged(learnt, evidence, 0.0, rate, float(sending), self._latency or 0.0)
        if changed is not None or pause:
            await self._cut(state.cut_at, pause, [] if changed is None else state.fields(changed))

    async def _cut(self, cut_at: str, pause: float, learnt: list[str | float]) -> None:
        block = self._block
        unused, end = (block.unused_from, block.end) if block is not None else (0, -1)
        cut, waits = await self._patiently(
            lambda: self._call("cut", cut_at, _micros(pause), unused, end, *learnt)
        )
        if cut:
            self._block = None
        elif block is not None:
            resumes = time.monotonic() + waits / 1_000_000
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
            # After so long a delay, the times of the places are not known well enough.
            _LOGGER.warning("%s took %.2f s to answer: calling waits.", self._server.name, received - asked)
            await self._patiently(lambda: self._call("return", block.start, block.end))
            return
        self._block = block
        self._is_due = bool(int(rest[3]))
        self._want = min(2 * self._want, 1_000_000)
        self._wants_block = False

    async def _call(self, mode: str, *args: float | str) -> list[Any]:
        reply: list[Any] = await self._script(keys=[self._key], args=[mode, *self._settings, *args])
        return reply


class _State:
    """The server's state, with times converted to seconds before or after now."""

    def __init__(self, fields: dict[str, str], now: int) -> None:
        self._fields = fields
        self._now = now
        self.cut_at = fields.get("cut_at", "0")

    def _number(self, name: str, default: float = 0.0) -> float:
        return float(self._fields.get(name) or default)

    def _seconds(self, name: str) -> float:
        return (self._number(name, -math.inf) - self._now) / 1_000_000

    def _counts(self, prefix: str) -> Counts:
        return Counts(self._number(f"{prefix}sent"), self._number(f"{prefix}refused"))

    def learnt(self) -> Learnt:
        """Return what was learnt about the limit so far."""
        return Learnt(
            knee=self._number("knee", math.inf),
            kept=self._number("kept", 1.0),
            cut_at=self._seconds("cut_at"),
            climbs_at=self._seconds("climbs_at"),
            finding=Finding(int(self._number("finding"))),
            before=self._number("old_rate", math.inf),
            share=self._number("share"),
            share_calls=self._number("share_calls"),
            top=self._number("top", math.inf),
            top_at=self._seconds("top_at"),
            noise=self._counts("noise_"),
            noise_at=self._seconds("noise_at"),
        )

    def evidence(self) -> Evidence:
        """How the calls of all processes fared."""
        return Evidence(self._counts(""), self._counts("low_"), self._counts("recent_"))

    def fields(self, learnt: Learnt) -> list[str | float]:
        """What was learnt as the server keeps it; the time of the cut is the server's own."""
        numbers: dict[str, float] = {
            "knee": learnt.knee,
            "kept": learnt.kept,
            "climb": learnt.climb,
            "window": learnt.window,
            "finding": int(learnt.finding),
            "old_rate": learnt.before,
            "share": learnt.share,
            "share_calls": learnt.share_calls,
            "top": learnt.top,
            "top_at": self._now + learnt.top_at * 1_000_000,
            "noise_sent": learnt.noise.sent,
            "noise_refused": learnt.noise.refused,
            "noise_at": self._now + learnt.noise_at * 1_000_000,
        }
        # No number at all stands for infinity.
        kept = {name: repr(value) if math.isfinite(value) else "" for name, value in numbers.items()}
        return [each for pair in kept.items() for each in pair]


def _texts(values: list[bytes]) -> list[str]:
    return [value.decode() for value in values]


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _look_at_error(errand: asyncio.Task[None]) -> None:
    # The next `acquire` meets the same error. Reading it here keeps asyncio from logging it.
    if not errand.cancelled():
        errand.exception()
