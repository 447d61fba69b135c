"""The ledger's interface and what it stores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from groundrows.schemas.service import DISCOVERY_ENGINE, Method


@dataclass(frozen=True, slots=True)
class Entry:
    """One response, as the call ended.

    Attributes:
        key: See `entry_key`.
        question_id: Whose response it is.
        turn_index: Which turn it answers.
        model_id: The model asked for, empty when the service chose.
        response: The serialized response message.
        attempts: Calls made for it.
        latency_ms: Milliseconds of the successful attempt.
        asked_at: When that attempt left, UTC.
        answered_at: When its response was complete, UTC.
        first_part_ms: Milliseconds until a streamed response's first part, else None.
        unread_json: The response's own JSON, where the message could not hold all of it, else None.
    """

    key: bytes
    question_id: str
    turn_index: int
    model_id: str
    response: bytes
    attempts: int
    latency_ms: float
    asked_at: datetime
    answered_at: datetime
    first_part_ms: float | None = None
    unread_json: str | None = None


@dataclass(frozen=True, slots=True)
class Leased:
    """What became of questions that a process wants to ask; it holds a lease of every other one.

    Attributes:
        stored: The entries of those that have been answered, by key.
        taken: The keys that another process holds, which is alive and about to ask them or asking them.
    """

    stored: Mapping[bytes, Entry]
    taken: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What a ledger holds for one model; sizes in bytes as stored."""

    model_id: str
    entries: int
    stored_bytes: int
    oldest: datetime | None
    newest: datetime | None


class Ledger(Protocol):
    """A store of responses, leases, claims and budgets. Methods block; each may be called from any thread.

    A claim says which record of a run was the first to ask a question, so that its repetitions are told from
    it; it lasts as long as the run. A lease says which process is about to ask a question or asking it, over
    all runs that share the ledger, so that no other pays for it too; it lasts as long as the process says
    that it is alive. Such a process is a holder, and has a name: the run's, a slash, and something random.
    """

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """The entries there are, by key."""
        ...

    def put_many(self, entries: Sequence[Entry]) -> None:
        """Store entries, and end their leases; durable against the death of the process on return."""
        ...

    def settle(self) -> None:
        """Move what was stored lately to where it lies safest; called every few seconds while calls go on."""
        ...

    def lease(self, holder: str, keys: Sequence[bytes], seconds: float) -> Leased:
        """Take leases of what has no entry and is not held by another, all of it in one step.

        Args:
            holder: Who asks; it counts as alive from now on for so many seconds, and all its leases last.
            keys: Which questions.
            seconds: How long.
        """
        ...

    def renew(self, holder: str, seconds: float) -> bool:
        """Let a holder be alive for so many seconds from now; False, and nothing done, when it is no more."""
        ...

    def end_leases(self, holder: str, keys: Sequence[bytes] | None = None) -> None:
        """Let others ask: the questions of these keys, or, without keys, all that the holder has."""
        ...

    def claim(self, run_id: str, claims: Mapping[bytes, str]) -> dict[bytes, str]:
        """Note who asks first.

        Args:
            run_id: The run the claims belong to.
            claims: For each question key, the origin that wants to ask it.

        Returns:
            For each key, the origin that holds the claim: the first that ever came in this run. A bundle
            that is tried again finds its own origin, so that a retry is never taken for a duplicate.
        """
        ...

    def release(self, run_id: str, claims: Mapping[bytes, str]) -> None:
        """Let go of claims, so that whoever comes next holds them.

        Args:
            run_id: The run the claims belong to.
            claims: For each question key, the origin that lets go. What another origin holds stays.
        """
        ...

    def forget_claims(self, run_id: str) -> None:
        """Start a run's search for duplicates afresh, and end the leases of processes that it had."""
        ...

    def reserve(self, run_id: str, limit: int, count: int) -> int:
        """Take up to `count` calls from the run's budget of `limit`; returns how many were granted."""
        ...

    def give_back(self, run_id: str, count: int) -> None:
        """Return reserved calls that were not made."""
        ...

    def count(self, name: str, units: int) -> int:
        """Add to a count, or take off it, and return it; it begins at 0 and never falls below.

        Raises:
            LedgerError: The ledger can't be asked, or a count of it may have been lost.
        """
        ...

    def summary(self) -> list[ModelSummary]:
        """What is stored, by model."""
        ...

    def entries(self) -> Iterable[Entry]:
        """Every entry, in no particular order, in bounded memory."""
        ...

    def rewrite(self, changed: Callable[[Entry], Entry | None]) -> int:
        """Give entries another response; whoever uses the ledger meanwhile sees an entry as it was or is.

        Args:
            changed: Gives an entry as it shall be from now on, with another `response` or `unread_json`; or
                None for one that stays.

        Returns:
            How many were changed. One that somebody else replaces meanwhile stays as it is then.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def run_of(holder: str) -> str:
    """The run that a holder of leases belongs to."""
    return holder.rpartition("/")[0]


def entry_key(question_id: str, turn_index: int, fingerprint: bytes) -> bytes:
    """The 16-byte key under which a turn's response is kept.

    The parts are length-prefixed so that no two questions can spell the same key. Changed settings change
    the fingerprint, so they ask again.
    """
    name = question_id.encode()
    digest = hashlib.sha256(len(name).to_bytes(4, "big") + name + turn_index.to_bytes(4, "big") + fingerprint)
    return digest.digest()[:16]


def fingerprint(
    request: bytes,
    api_version: str,
    *,
    method: Method = "generate",
    streamed: bool = False,
    user_context: str | None = None,
    service: str = DISCOVERY_ENGINE,
) -> bytes:
    """32 bytes that name a request as sent: its message, service, version and method, and what else goes out.

    The transport is no part of it: by whichever way the same is asked, the answer is the same row. A stream
    is asked apart, since its answers hold no scores.
    """
    how = "stream" if streamed else "unary" if method == "generate" else method
    # The first service keeps the names that its ledgers have had from the start.
    whose = "" if service == DISCOVERY_ENGINE else f"{service}/"
    digest = hashlib.sha256(f"{whose}{api_version}/{how}/".encode() + request)
    if user_context is not None:
        digest = hashlib.sha256(b"user_context/" + digest.digest() + user_context.encode())
    return digest.digest()
