"""The ledger in a Redis server, for jobs whose workers share no disk.

The server's settings decide how durable it is: with `appendonly yes`, a restart loses at most one second. A
server that evicts keys when its memory is full makes a run pay again for the evicted responses.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from groundrows.schemas.errors import LedgerError, NoLedgerError
from groundrows.transforms.generate.ledger.base import Entry, Leased, ModelSummary, run_of
from groundrows.transforms.generate.ledger.redis_entry import pack_entry, summary_of, unpack_entry
from groundrows.transforms.generate.redis_server import TIMEOUT_SECONDS, is_passing, server_name, what_failed

FORMAT_VERSION = 1
# The time, in seconds, to wait for a server that restarts or fails over.
PATIENCE_SECONDS = 30.0
CLAIM_SECONDS = 30 * 24 * 3600
# A lease ends with its holder. The lease of a killed process is deleted after this time.
_LEASE_KEPT_SECONDS = 30 * 24 * 3600

_MARKER = "groundrows:ledger"
_BUDGETS = "groundrows:budgets"
_ENTRY = "groundrows:entry:"
_LEASE_OF = "groundrows:lease:"
_HOLDER = "groundrows:holder:"
_PAGE = 500
_BEGINNING = 512  # the first bytes of an entry, which nearly always contain its model's name
_T = TypeVar("_T")

# The marker key identifies the data. All budgets are in one key that repeats the marker's value. So a lost
# budget key is noticed, because the marker is there without it. An earlier version had a key for each budget.
_BEGIN = """
local marker = redis.call('GET', KEYS[1])
if not marker and redis.call('EXISTS', KEYS[2]) == 1 then return false end
if not marker or string.match(marker, '^1 %x+$') then
  marker = marker and marker .. ' budgets' or ARGV[1]
  redis.call('SET', KEYS[1], marker)
  redis.call('HSET', KEYS[2], '', marker)
elseif string.match(marker, '^1 %x+ budgets$') and redis.call('HGET', KEYS[2], '') ~= marker then
  return false
end
return marker
"""
_RESERVE = """
if redis.call('GET', KEYS[2]) ~= ARGV[3] or redis.call('HGET', KEYS[1], '') ~= ARGV[3] then return -1 end
local taken = tonumber(redis.call('HGET', KEYS[1], ARGV[4]) or redis.call('GET', KEYS[3]) or 0)
local granted = math.max(0, math.min(tonumber(ARGV[2]), tonumber(ARGV[1]) - taken))
redis.call('HSET', KEYS[1], ARGV[4], string.format('%.0f', taken + granted))
return granted
"""
# Each call has another KEYS[2]. When a call is repeated because its reply was lost, it does nothing.
_GIVE_BACK = """
local taken = redis.call('HGET', KEYS[1], ARGV[2])
if taken and redis.call('SET', KEYS[2], 1, 'NX', 'EX', 3600) then
  redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f', math.max(0, taken - tonumber(ARGV[1]))))
end
"""
# Each call has another KEYS[3]. When a call is repeated, it only returns the count.
_COUNT = """
if redis.call('GET', KEYS[2]) ~= ARGV[3] or redis.call('HGET', KEYS[1], '') ~= ARGV[3] then return false end
local counted = tonumber(redis.call('HGET', KEYS[1], ARGV[2]) or 0)
local units = tonumber(ARGV[1])
if units ~= 0 and redis.call('SET', KEYS[3], 1, 'NX', 'EX', 3600) then
  counted = math.max(0, counted + units)
  redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f', counted))
end
return string.format('%.0f', counted)
"""
# A lease names its holder, and lasts as long as the holder's key exists. KEYS: the marker, the holder's key,
# the run's holders, and an entry and a lease for each turn. Returns for each turn: 0 leased, 1 stored or
# 2 taken.
_LEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[3])
redis.call('SADD', KEYS[3], ARGV[2])
redis.call('EXPIRE', KEYS[3], ARGV[4])
local states = {}
for i = 4, #KEYS, 2 do
  local state = 0
  if redis.call('EXISTS', KEYS[i]) == 1 then
    state = 1
  else
    local other = redis.call('GET', KEYS[i + 1])
    if other and other ~= ARGV[2] and redis.call('EXISTS', ARGV[5] .. other) == 1 then
      state = 2
    else
      redis.call('SET', KEYS[i + 1], ARGV[2], 'EX', ARGV[4])
    end
  end
  states[#states + 1] = state
end
return states
"""
_END_LEASES = """
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then redis.call('DEL', key) end
end
"""
# Replaces a value if it has not changed since it was read.
_SWAP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
"""
# ARGV holds pairs of a key and the origin whose claim is removed.
_RELEASE = """
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
end
"""


class RedisLedger:
    """Responses, claims and budgets in a Redis server, under keys that start with `groundrows:`.

    Args:
        uri: `redis[s]://[USER:PASSWORD@]HOST:PORT/DB`.
        patience: Seconds to wait for a server that becomes unreachable after the ledger was opened.
        read_only: Open an existing ledger only to read it; create nothing.

    Raises:
        LedgerError: The URI is not valid, no server answers, or the data is not a ledger of this version.
        NoLedgerError: `read_only` is true and there is no ledger.
    """

    def __init__(self, uri: str, patience: float = PATIENCE_SECONDS, read_only: bool = False) -> None:
        try:
            self._server = server_name(uri)
        except ValueError as error:
            raise LedgerError(f"--ledger {error}.") from None
        self._patience = patience
        self._gave_up = False
        self._redis: Any = Redis.from_url(
            uri,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
        )
        self._reserve = self._redis.register_script(_RESERVE)
        self._give_back = self._redis.register_script(_GIVE_BACK)
        self._count = self._redis.register_script(_COUNT)
        self._release = self._redis.register_script(_RELEASE)
        self._lease = self._redis.register_script(_LEASE)
        self._end_leases = self._redis.register_script(_END_LEASES)
        self._swap = self._redis.register_script(_SWAP)
        self._marker = self._open(read_only)

    def _open(self, read_only: bool) -> bytes:
        """Read the marker that identifies this ledger's data, or create it: the format and a random name."""
        fresh = f"{FORMAT_VERSION} {uuid.uuid4().hex} budgets"

        def find() -> bytes | None:
            if read_only:
                found: bytes | None = self._redis.get(_MARKER) or b""
            else:
                found = self._redis.register_script(_BEGIN)(keys=[_MARKER, _BUDGETS], args=[fresh])
            return found

        marker = self._talk(find, patience=0)
        if read_only and not marker:
            raise NoLedgerError(f"There is no ledger at {self._server}; check the address and the database.")
        if marker is None:
            raise self._error("a part of its data is gone, as when it evicts keys for want of memory")
        version = marker.partition(b" ")[0]
        if version != str(FORMAT_VERSION).encode():
            says = f"is of format {version.decode()}" if version.isdigit() else "is something else"
            raise self._error(f"its key {_MARKER} {says} and format {FORMAT_VERSION} is needed")
        return marker

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """See `Ledger.get_many`."""
        found: dict[bytes, Entry] = {}
        for part in _parts(keys):
            for key, value in zip(part, self._values([_entry_name(key) for key in part]), strict=True):
                if value is not None:
                    found[key] = self._entry(key, value)
        return found

    def put_many(self, entries: Sequence[Entry]) -> None:
        """See `Ledger.put_many`. A key that holds something other than an entry is never overwritten."""
        by_key = {entry.key: entry for entry in entries}
        for part in _parts(list(by_key)):
            values = {key: pack_entry(by_key[key]) for key in part}
            taken = [key for key, was_free in self._add(values).items() if not was_free]
            if taken:
                self._replace({key: values[key] for key in taken})

    def settle(self) -> None:
        """See `Ledger.settle`. The server's settings decide when it writes to disk."""

    def lease(self, holder: str, keys: Sequence[bytes], seconds: float) -> Leased:
        """See `Ledger.lease`. The time is the server's."""
        stored = self.get_many(keys)
        taken: set[bytes] = set()
        for part in _parts([key for key in keys if key not in stored]):
            names = [_MARKER, _HOLDER + holder, _holders_name(run_of(holder))]
            names += [name for key in part for name in (_entry_name(key), _LEASE_OF + key.hex())]
            rest: list[Any] = [self._marker, holder, round(seconds * 1000), _LEASE_KEPT_SECONDS, _HOLDER]
            states = self._talk(partial(self._lease, keys=names, args=rest))
            if states is None:
                raise self._lost()
            by_state: tuple[list[bytes], ...] = ([], [], [])
            for key, state in zip(part, states, strict=True):
                by_state[state].append(key)
            stored.update(self.get_many(by_state[1]))
            taken.update(by_state[2])
        return Leased(stored, frozenset(taken))

    def renew(self, holder: str, seconds: float) -> bool:
        """See `Ledger.renew`."""
        return bool(self._talk(lambda: self._redis.pexpire(_HOLDER + holder, round(seconds * 1000))))

    def end_leases(self, holder: str, keys: Sequence[bytes] | None = None) -> None:
        """See `Ledger.end_leases`. What a holder leaves behind without being named holds nobody up."""
        if keys is None:
            self._talk(lambda: self._redis.unlink(_HOLDER + holder))
            return
        for part in _parts(keys):
            names = [_LEASE_OF + key.hex() for key in part]
            self._talk(partial(self._end_leases, keys=names, args=[holder]))

    def claim(self, run_id: str, claims: Mapping[bytes, str]) -> dict[bytes, str]:
        """See `Ledger.claim`. Claims are kept for 30 days after a run's last."""
        if not claims:
            return {}
        name = _claims_name(run_id)

        def claim() -> list[Any]:
            # A transaction, or a claim that was there might be released before it is read.
            pipeline = self._redis.pipeline(transaction=True)
            pipeline.get(_MARKER)
            for key, origin in claims.items():
                pipeline.hsetnx(name, key, origin)
            pipeline.expire(name, CLAIM_SECONDS)
            pipeline.hmget(name, list(claims))
            replies: list[Any] = pipeline.execute()
            return replies

        marker, *_, holders = self._talk(claim)
        if marker != self._marker:
            raise self._lost()
        return {key: holder.decode() for key, holder in zip(claims, holders, strict=True)}

    def release(self, run_id: str, claims: Mapping[bytes, str]) -> None:
        """See `Ledger.release`."""
        for part in _parts(list(claims)):
            pairs = [each for key in part for each in (key, claims[key])]
            self._talk(partial(self._release, keys=[_claims_name(run_id)], args=pairs))

    def forget_claims(self, run_id: str) -> None:
        """See `Ledger.forget_claims`."""
        name = _holders_name(run_id)
        holders = [_HOLDER + each.decode() for each in self._talk(lambda: self._redis.smembers(name))]
        self._talk(lambda: self._redis.unlink(_claims_name(run_id), name, *holders))

    def reserve(self, run_id: str, limit: int, count: int) -> int:
        """See `Ledger.reserve`. When a reply is lost, the calls that it granted are lost, too."""
        keys = [_BUDGETS, _MARKER, f"groundrows:budget:{run_id}"]
        args: list[Any] = [limit, count, self._marker, run_id]
        granted = int(self._talk(lambda: self._reserve(keys=keys, args=args)))
        if granted < 0:
            raise self._lost()
        return granted

    def give_back(self, run_id: str, count: int) -> None:
        """See `Ledger.give_back`."""
        keys = [_BUDGETS, f"groundrows:given:{uuid.uuid4().hex}"]
        self._talk(lambda: self._give_back(keys=keys, args=[count, run_id]))

    def count(self, name: str, units: int) -> int:
        """See `Ledger.count`."""
        keys = [_BUDGETS, _MARKER, f"groundrows:counted:{uuid.uuid4().hex}"]
        counted = self._talk(lambda: self._count(keys=keys, args=[units, name, self._marker]))
        if counted is None:
            raise self._lost()
        return int(counted)

    def summary(self) -> list[ModelSummary]:
        """See `Ledger.summary`. Some entries may be counted twice when entries are added meanwhile."""
        models: dict[str, ModelSummary] = {}
        for names in self._pages():
            for name, (beginning, size) in zip(names, self._beginnings(names), strict=True):
                if size:
                    one = self._summary_of(name, beginning, size)
                    models[one.model_id] = _sum(models.get(one.model_id), one)
        return [models[model_id] for model_id in sorted(models)]

    def entries(self) -> Iterable[Entry]:
        """See `Ledger.entries`. Some entries may come twice when entries are added meanwhile."""
        for names in self._pages():
            for name, value in zip(names, self._values(names), strict=True):
                if value is not None:
                    yield self._entry(_key_of(name), value)

    def rewrite(self, changed: Callable[[Entry], Entry | None]) -> int:
        """See `Ledger.rewrite`. Each entry changes separately. After an interruption, rewrite again."""
        count = 0
        for names in self._pages():
            for name, value in zip(names, self._values(names), strict=True):
                if value is None:
                    continue
                new = changed(self._entry(_key_of(name), value))
                if new is not None:
                    swap = partial(self._swap, keys=[name], args=[value, pack_entry(new)])
                    count += int(self._talk(swap))
        return count

    def close(self) -> None:
        """See `Ledger.close`."""
        self._redis.close()

    # -- entries -------------------------------------------------------------------------------------

    def _add(self, values: Mapping[bytes, bytes]) -> dict[bytes, bool]:
        """Store the entries that are new; return for each key whether it was new."""

        def add() -> list[Any]:
            pipeline = self._redis.pipeline(transaction=False)
            for key, value in values.items():
                pipeline.set(_entry_name(key), value, nx=True)
            # Leases end after the entries are stored, so that a process that finds no lease finds the entry.
            pipeline.unlink(*(_LEASE_OF + key.hex() for key in values))
            replies: list[Any] = pipeline.execute()
            return replies

        *added, _ = self._talk(add)
        return {key: bool(reply) for key, reply in zip(values, added, strict=True)}

    def _replace(self, values: Mapping[bytes, bytes]) -> None:
        there = self.get_many(list(values))
        for key in values:
            if key not in there:
                raise self._error(f"its key {_entry_name(key)} holds something else")
        self._talk(lambda: self._redis.mset({_entry_name(key): value for key, value in values.items()}))

    def _values(self, names: Sequence[str]) -> list[bytes | None]:
        return self._talk(lambda: self._redis.mget(names)) if names else []

    def _entry(self, key: bytes, value: bytes) -> Entry:
        try:
            return unpack_entry(key, value)
        except ValueError as error:
            raise self._damaged(_entry_name(key), error) from None

    def _pages(self) -> Iterator[list[str]]:
        cursor = 0
        while True:
            scan = partial(self._redis.scan, cursor, match=f"{_ENTRY}*", count=_PAGE)
            cursor, names = self._talk(scan)
            yield [name.decode(errors="replace") for name in names]
            if cursor == 0:
                return

    def _beginnings(self, names: Sequence[str]) -> list[tuple[bytes, int]]:
        """Return the first bytes and the size of each value; empty and 0 when it does not exist any more."""

        def look() -> list[Any]:
            pipeline = self._redis.pipeline(transaction=False)
            for name in names:
                pipeline.getrange(name, 0, _BEGINNING - 1)
                pipeline.strlen(name)
            replies: list[Any] = pipeline.execute()
            return replies

        replies = self._talk(look)
        return list(zip(replies[::2], replies[1::2], strict=True))

    def _summary_of(self, name: str, beginning: bytes, size: int) -> ModelSummary:
        try:
            one = summary_of(beginning, size)
            if one is None:
                one = summary_of(self._values([name])[0] or b"", size)
            assert one is not None
        except ValueError as error:
            raise self._damaged(name, error) from None
        return one

    # -- errors --------------------------------------------------------------------------------------

    def _talk(self, say: Callable[[], _T], patience: float | None = None) -> _T:
        """Send a request that may safely be repeated, and repeat it while the server is unreachable.

        After one wait of the full `patience`, the server is not waited for again.
        """
        if patience is None:
            patience = 0 if self._gave_up else self._patience
        give_up = time.monotonic() + patience
        pause = 0.1
        while True:
            try:
                return say()
            except RedisError as error:
                if not is_passing(error) or time.monotonic() + pause > give_up:
                    self._gave_up = True
                    raise self._error(what_failed(error)) from None
            time.sleep(pause)
            pause = min(2.0, 2 * pause)

    def _error(self, what: str) -> LedgerError:
        return LedgerError(
            f"The ledger {self._server} can't be used: {what}; repair the server or name another ledger with "
            "--ledger, and run the same command again."
        )

    def _lost(self) -> LedgerError:
        return self._error("its data was lost or replaced while it was in use")

    def _damaged(self, name: str, error: ValueError) -> LedgerError:
        return self._error(f"{error} under {name!r}, which can be deleted to ask its question again")


def _parts(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), _PAGE):
        yield keys[start : start + _PAGE]


def _entry_name(key: bytes) -> str:
    return _ENTRY + key.hex()


def _key_of(name: str) -> bytes:
    digits = name.removeprefix(_ENTRY)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return digits.encode()  # not one of our keys; reading its value will fail with an error that says so


def _claims_name(run_id: str) -> str:
    return f"groundrows:claims:{run_id}"


def _holders_name(run_id: str) -> str:
    return f"groundrows:holders:{run_id}"


def _sum(so_far: ModelSummary | None, one: ModelSummary) -> ModelSummary:
    if so_far is None:
        return one
    return replace(
        so_far,
        entries=so_far.entries + one.entries,
        stored_bytes=so_far.stored_bytes + one.stored_bytes,
        oldest=min(filter(None, (so_far.oldest, one.oldest)), default=None),
        newest=max(filter(None, (so_far.newest, one.newest)), default=None),
    )
