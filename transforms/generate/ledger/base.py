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
    """One stored response.

    Attributes:
        key: See `entry_key`.
        question_id: The ID of the question.
        turn_index: The index of the turn that it answers.
        model_id: The model that the request named; empty when it named none.
        response: The serialized response message.
        attempts: Number of attempts, including the successful one.
        latency_ms: Milliseconds of the successful attempt.
        asked_at: When that attempt started, in UTC.
        answered_at: When its response was complete, in UTC.
        first_part_ms: Milliseconds until the first part of a streamed response; None for others.
        unread_json: The response's JSON when the message can't hold all of it, else None.
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
    """The turns for which a process got no lease. It has a lease on all other turns that it wanted.

    Attributes:
        stored: The entries of the turns that are answered, by key.
        taken: The keys of the turns that another, living process has a lease on.
    """

    stored: Mapping[bytes, Entry]
    taken: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """The totals of a ledger's entries for one model. Sizes are stored bytes."""

    model_id: str
    entries: int
    stored_bytes: int
    oldest: datetime | None
    newest: datetime | None


class Ledger(Protocol):
    """A store of responses, leases, claims and budgets. Methods block. Any thread may call them.

    A claim says which record of a run was the first to ask a question, so that later ones are recognized as
    duplicates. It lasts as long as the run.

    A lease says which process may ask a turn, over all runs that share the ledger, so that no other process
    pays for it, too. It lasts as long as the process renews it. A process with leases is called a holder. Its
    name is the run's ID, a slash, and a random text.
    """

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """Return the entries that exist for these keys."""
        ...

    def put_many(self, entries: Sequence[Entry]) -> None:
        """Store entries, and end their leases. When this returns, killing the process loses none of them."""
        ...

    def settle(self) -> None:
        """Move recently stored entries to their safest place. Called every few seconds during calls."""
        ...

    def lease(self, holder: str, keys: Sequence[bytes], seconds: float) -> Leased:
        """Take leases on turns that have no entry and no lease of another holder, in one atomic step.

        Args:
            holder: The name of the holder. This also renews all its leases.
            keys: The keys of the turns.
            seconds: The time until the holder's leases end, unless it renews them.
        """
        ...

    def renew(self, holder: str, seconds: float) -> bool:
        """Renew a holder's leases for `seconds` from now. Return False when they have ended already."""
        ...

    def end_leases(self, holder: str, keys: Sequence[bytes] | None = None) -> None:
        """End a holder's leases on these keys, or all its leases when no keys are given."""
        ...

    def claim(self, run_id: str, claims: Mapping[bytes, str]) -> dict[bytes, str]:
        """Claim questions for the records that ask them.

        Args:
            run_id: The ID of the run.
            claims: The origin of the record that asks, by question key.

        Returns:
            The origin that has the claim, by key: the first one in this run. When Beam repeats a bundle, it
            finds its own origins, so that a repeated question is not taken for a duplicate.
        """
        ...

    def release(self, run_id: str, claims: Mapping[bytes, str]) -> None:
        """Remove claims, so that the next record with the question gets the claim.

        Args:
            run_id: The ID of the run.
            claims: The origin that has the claim, by question key. Claims of other origins stay.
        """
        ...

    def forget_claims(self, run_id: str) -> None:
        """Remove all claims of a run, and end the leases of its processes."""
        ...

    def reserve(self, run_id: str, limit: int, count: int) -> int:
        """Reserve up to `count` calls of the run's budget `limit`; return the number that was granted."""
        ...

    def give_back(self, run_id: str, count: int) -> None:
        """Give back reserved calls that were not made."""
        ...

    def count(self, name: str, units: int) -> int:
        """Add to a count, or subtract from it, and return it. It starts at 0 and never becomes negative.

        Raises:
            LedgerError: The ledger can't be used, or one of its counts may have been lost.
        """
        ...

    def summary(self) -> list[ModelSummary]:
        """Return the totals of the stored entries, by model."""
        ...

    def entries(self) -> Iterable[Entry]:
        """Yield every entry in any order, with bounded memory."""
        ...

    def rewrite(self, changed: Callable[[Entry], Entry | None]) -> int:
        """Change the responses of entries. Other users see an entry either before or after its change.

        Args:
            changed: Returns the changed entry, with another `response` or `unread_json`; or None when the
                entry stays as it is.

        Returns:
            The number of changed entries. An entry that another user replaces meanwhile is not changed.
        """
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


def run_of(holder: str) -> str:
    """Return the ID of the run that a holder of leases belongs to."""
    return holder.rpartition("/")[0]


def entry_key(question_id: str, turn_index: int, fingerprint: bytes) -> bytes:
    """Return the 16-byte key of a turn's response.

    The parts are length-prefixed, so that different questions have different keys. Changed settings change
    the fingerprint, so the question is asked again.
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
    """Return 32 bytes that identify a request: its message, service, version, method and other content.

    The transport is not part of it, because the answer does not depend on it. Streaming is part of it,
    because streamed answers have no scores.
    """
    how = "stream" if streamed else "unary" if method == "generate" else method
    # The keys of the first service don't contain its name, because old ledgers must stay usable.
    whose = "" if service == DISCOVERY_ENGINE else f"{service}/"
    digest = hashlib.sha256(f"{whose}{api_version}/{how}/".encode() + request)
    if user_context is not None:
        digest = hashlib.sha256(b"user_context/" + digest.digest() + user_context.encode())
    return digest.digest()
